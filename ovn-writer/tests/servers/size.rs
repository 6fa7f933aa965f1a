//! A large database.

use std::{fs, time::Duration};

use ovn_writer::references;
use ovsdb_replica::Tables;
use proto::api::Family;
use serde_json::json;
use tests::{
    ovnkube::set_name, ovsdb::Client, programs::Program, soak::or_long, store::Store,
    wait::eventually_within,
};

use crate::harness::Database;

mod soak {
    use super::*;

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
        let address = |n: usize| match family {
            Family::V4 => format!("11.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255),
            Family::V6 => format!("2600:1f18::{:x}:{:x}:0:1234", n >> 16, n & 0xffff),
        };
        let first = set * ADDRESSES;
        let addresses: Vec<_> = (first..first + ADDRESSES).map(address).collect();
        let ids = json!([
            ["k8s.ovn.org/owner-controller", "default-network-controller"],
            ["k8s.ovn.org/owner-type", "EgressFirewallDNS"],
            ["k8s.ovn.org/name", name],
            ["ip-family", family.as_str()],
        ]);
        let row = json!({"name": set_name(&name, family), "addresses": ["set", addresses], "external_ids": ["map", ids]});
        let insert = json!({"op": "insert", "table": "Address_Set", "row": row});
        client.transact(vec![insert]).unwrap();
    }
    let others = " && tcp.dst != 65535".repeat(24);
    for group in 0..half / OF_AN_ACL / 100 {
        let acl = |n: usize| {
            let row = json!({
                "action": "allow", "direction": "to-lport", "priority": 1001,
                "match": format!("ip4.src == $a{}{others}", group * 100 + n),
                "external_ids": ["map", [["k8s.ovn.org/owner-type", "NetworkPolicy"]]],
            });
            json!({"op": "insert", "table": "ACL", "uuid-name": format!("acl{n}"), "row": row})
        };
        let acls = (0..100).map(|n| json!(["named-uuid", format!("acl{n}")]));
        let row = json!({"name": format!("a{group}"), "acls": ["set", acls.collect::<Vec<_>>()]});
        let group = json!({"op": "insert", "table": "Port_Group", "row": row});
        client
            .transact((0..100).map(acl).chain([group]).collect())
            .unwrap();
    }
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
