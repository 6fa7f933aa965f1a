//! Large databases: many foreign rows, and many of our own.

use std::{
    fs,
    net::{Ipv4Addr, Ipv6Addr},
    time::{Duration, Instant},
};

use ovn_writer::references;
use ovsdb_replica::{Datum, Mutation, Mutator, Operation, Outcome, Tables};
use proto::api::Family;
use serde_json::json;
use tests::{
    ovnkube::set_name,
    ovsdb::Client,
    programs::Program,
    soak::{judge, or_long},
    store::Store,
    surroundings::Surroundings,
    wait::eventually_within,
};

use crate::{
    follow::{add, addresses, client, fill, make_row, transact, up},
    harness::Database,
};

mod soak {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_hundred_thousand_rows_of_others_cost_nothing() {
        let database = Database::start().await;
        let mut first = client(&database.northbound.remote());
        up(&mut first).await;
        let row = make_row(&mut first, "a1").await;
        fill(&mut first, 100_000).await;
        assert_eq!(first.replica().unwrap().len(), 1);
        let started = Instant::now();
        let mut second = client(&database.northbound.remote());
        up(&mut second).await;
        let read = started.elapsed();
        assert_eq!(second.replica().unwrap().len(), 1);
        let started = Instant::now();
        let changes: u32 = 100;
        for n in 0..changes {
            transact(&mut second, vec![add(row, &format!("10.0.0.{n}"))]).await;
        }
        let change = started.elapsed() / changes;
        assert_eq!(addresses(&second).unwrap().len(), 100);
        judge("beside 100,000 rows: read", read, Duration::from_secs(5));
        judge(
            "beside 100,000 rows: a change",
            change,
            Duration::from_millis(100),
        );
    }

    /// 50 MB, or 500.
    #[tokio::test(flavor = "multi_thread")]
    async fn the_first_reply_is_held_in_at_most_three_times_its_size() {
        let megabytes = or_long(50, 500);
        let database = Database::start().await;
        fill_to(&database, megabytes);
        let length = first_reply(&database) as u64;
        assert!(length > megabytes as u64 * 900_000, "{length}");
        let store = Store::new(database.workdir.join("store"));
        fs::create_dir_all(store.objects_folder()).unwrap();
        let args = ["--store", &store.address(), "--nb"].map(str::to_owned);
        let args = args.into_iter().chain([database.northbound.remote()]);
        let mut writer =
            Program::start(database.workdir.path(), "ovn-writer", args.collect()).await;
        eventually_within(PATIENCE, "the ovn-writer is ready", async || {
            writer.admin().ready().await
        })
        .await;
        let [_, held] = writer.process().memory();
        println!(
            "a first reply of {} MB is held in {} MB",
            length / 1_000_000,
            held / 1_000_000
        );
        assert!(held <= 3 * length, "{held} bytes for {length}");
    }
}

/// An unoptimised build takes minutes to read 500 MB.
const PATIENCE: Duration = Duration::from_secs(600);

/// Half of the reply are unreferenced sets of names, and half are foreign rules.
fn fill_to(database: &Database, megabytes: usize) {
    const ADDRESSES: usize = 500;
    const OF_A_SET: usize = 12_000;
    const OF_AN_ACL: usize = 750;
    let half = megabytes * 500_000;
    let mut client = Client::connect(database.workdir.path()).unwrap();
    for set in 0..half / OF_A_SET {
        let family = Family::ALL[set % 2];
        let name = format!("name{}.example.com.", set / 2);
        let address = |n: u32| match family {
            Family::V4 => Ipv4Addr::from_bits(0x0b00_0000 + n).to_string(),
            Family::V6 => {
                Ipv6Addr::from_bits(0x2600_1f18 << 96 | u128::from(n) << 32 | 0x1234).to_string()
            }
        };
        let first = u32::try_from(set * ADDRESSES).unwrap();
        let addresses: Vec<_> = (0..500).map(|n| address(first + n)).collect();
        let ids = json!([
            ["k8s.ovn.org/owner-controller", "default-network-controller"],
            ["k8s.ovn.org/owner-type", "EgressFirewallDNS"],
            ["k8s.ovn.org/name", name],
            ["ip-family", family.as_str()],
        ]);
        let row = json!({"name": set_name(&name, family), "addresses": ["set", addresses], "external_ids": ["map", ids]});
        client
            .transact(vec![
                json!({"op": "insert", "table": "Address_Set", "row": row}),
            ])
            .unwrap();
    }
    let surroundings = Surroundings {
        acls: half / OF_AN_ACL,
        match_length: 500,
        port_groups: half / OF_AN_ACL / 10,
        networks: 0,
        names_each: 0,
    };
    surroundings.fill(database.workdir.path(), &[]);
}

/// The size in bytes of the writer's first reply.
fn first_reply(database: &Database) -> usize {
    let mut client = Client::connect(database.workdir.path()).unwrap();
    let schema = client
        .call("get_schema", json!(["OVN_Northbound"]))
        .unwrap();
    let schema = serde_json::from_value(schema).unwrap();
    let requests = references::Northbound::requests(&schema).unwrap();
    let zero = "00000000-0000-0000-0000-000000000000";
    let params = json!(["OVN_Northbound", "size", requests, zero]);
    let reply = client.call("monitor_cond_since", params).unwrap();
    reply.to_string().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_of_many_megabytes_is_read_while_all_else_goes_on() {
    let database = Database::start().await;
    let mut first = client(&database.northbound.remote());
    up(&mut first).await;
    let row = make_row(&mut first, "a1").await;
    // 20 MB of long members that are no addresses.
    let members = |from: usize| (from..from + 1000).map(|n| format!("{n:0>2000}"));
    for from in (0..10_000).step_by(1000) {
        let mutate = Operation::Mutate {
            table: "Address_Set".into(),
            filter: vec![ovsdb_replica::Condition::uuid(row)],
            mutations: vec![Mutation(
                "addresses".into(),
                Mutator::Insert,
                Datum::strings(members(from)),
            )],
        };
        let outcome = transact(&mut first, vec![mutate]).await;
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    }
    let started = Instant::now();
    let mut second = client(&database.northbound.remote());
    up(&mut second).await;
    println!("20 MB: read in {:?}", started.elapsed());
    let row = second.replica().unwrap().get(row).unwrap();
    assert_eq!(row.others().len(), 10_000);
}
