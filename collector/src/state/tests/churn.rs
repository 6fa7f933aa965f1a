//! Answers that bring ever new addresses, as someone sends who means harm.

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
        known.memory.observe(&observation, &known.limits);
    }
    assert_eq!(known.memory.addresses(), 1000);
    let remembered = known.memory.removed.len();
    assert!(remembered <= 8192, "{remembered} of 39000");
}
