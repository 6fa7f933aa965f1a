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
    assert_eq!(known.state.list().addresses(), 1000);
}
