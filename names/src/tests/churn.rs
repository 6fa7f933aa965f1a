//! Answers with ever new addresses, as an attacker would send them.

use super::*;

#[test]
fn answers_of_ever_new_addresses_cost_bounded_memory() {
    let mut known = Known::new("www.example.com");
    for i in 0..40_u32 {
        let addresses: Vec<_> = (0..1000_u32)
            .map(|k| (format!("20.{i}.{}.{}", k / 250, k % 250), 86_400))
            .collect();
        let addresses: Vec<_> = addresses.iter().map(|(ip, ttl)| (&**ip, *ttl)).collect();
        let observation = answer("www.example.com", &addresses, f64::from(i) / 100.0);
        known.hear(&observation);
    }
    assert_eq!(known.memory.list().addresses(), 1000);
    let remembered = known.memory.removed.len();
    assert!(remembered <= 8192, "{remembered} of 39000");
}

#[test]
fn names_that_went_while_a_status_was_written_do_not_come_back_with_it() {
    let mut known = Known::new("*.example.com");
    known.limits.names_per_wildcard = 50;
    let observe = |known: &mut Known, names: std::ops::Range<u32>| {
        for i in names {
            let asked = format!("n{i:05}.example.com");
            let mut observation = answer(&asked, &[("1.1.1.1", 300)], f64::from(i) / 1000.0);
            observation.client = Some([10, 0, 0, 1].into());
            known.hear(&observation);
        }
    };
    observe(&mut known, 0..50);
    assert!(known.write(0.1));
    let late = known.stored.clone();
    // More than the removals that are remembered.
    observe(&mut known, 50..20_050);
    known.absorb(&late, 20.1);
    observe(&mut known, 20_050..20_100);
    assert!(known.write(20.2));
    let names = known.stored.resolved_names.iter();
    let names: Vec<_> = names.map(|entry| entry.dns_name.clone()).collect();
    let last: Vec<_> = (20_050..20_100)
        .map(|i| format!("n{i:05}.example.com."))
        .collect();
    assert_eq!(names, last);
}
