//! How long a new address takes from the status of its name to the policy.

use std::time::{Duration, Instant};

use serde_json::json;
use tests::soak::{judge, or_long};
use tokio::time::sleep;

use super::world::World;

/// The most addresses of one name in these tests.
const OF_A_NAME: usize = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_address_comes_into_policies_of_any_size() {
    let mut world = World::start(&[]).await;
    let samples = or_long(3, 40);
    for size in [10, 500, 5_000] {
        let names: Vec<_> = (0..size.max(OF_A_NAME) / OF_A_NAME)
            .map(|i| format!("n{i}.size{size}.example.com."))
            .collect();
        let resolver = format!("size-{size}");
        world
            .resolver(&resolver, json!({"domainList": names}))
            .await;
        let of_name = size / names.len();
        for (i, name) in names.iter().enumerate() {
            let addresses = (0..of_name).map(|j| format!("198.{}.{}.{}", 18 + i, j / 250, j % 250));
            let addresses: Vec<_> = addresses.collect();
            let texts: Vec<_> = addresses.iter().map(String::as_str).collect();
            world.answer(name, &texts).await;
        }
        world.is_ready(&resolver).await;
        let mut took = Vec::new();
        for sample in 0..samples {
            // A write within a second of the one before waits for it.
            sleep(Duration::from_millis(1_200)).await;
            let new = format!("203.0.113.{}", sample + 1);
            let mut addresses: Vec<_> = (1..of_name)
                .map(|j| format!("198.18.{}.{}", j / 250, j % 250))
                .collect();
            addresses.push(new.clone());
            let texts: Vec<_> = addresses.iter().map(String::as_str).collect();
            let began = Instant::now();
            world.answer(&names[0], &texts).await;
            let at = world.sees(&resolver, &new).await;
            took.push(at - began);
        }
        took.sort_unstable();
        let median = took[took.len() / 2];
        let last = took[took.len() * 99 / 100];
        judge(
            &format!("{size} addresses, median"),
            median,
            Duration::from_secs(1),
        );
        judge(
            &format!("{size} addresses, 99 %"),
            last,
            Duration::from_secs(5),
        );
    }
    let [now, most] = world.memory();
    println!("memory with 5,510 addresses: {now} bytes, at most {most}");
}
