//! When changes are realized, with real databases. The test plays the parts of ovn-northd and ovn-controller.

use std::{process::Command, time::Instant};

use futures_util::FutureExt;
use ovn_writer::{
    address_set::NORTHBOUND,
    realized::{
        CachedFlows, Committed, Evidence, Proof, RealizedHandle, RealizedOptions, Realizer, Ticket,
    },
};
use ovsdb_replica::ClientOptions;
use serde_json::{Value, json};
use tests::{northbound::Northbound, ovn, wait::eventually, workdir::Workdir};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::server::{Server, run, tool};

/// Versions of ovn-northd for which a bump is cheap, and is not.
const NEW: &str = "25.03.0-20.41.0-77.6";
const OLD: &str = "23.03.1-20.27.0-70.6";

/// The number of the last bump before the test.
const BEFORE: i64 = 5;

struct Databases {
    northbound: Northbound,
    southbound: Server,
    _workdir: Workdir,
}

impl Databases {
    /// Both databases, after `BEFORE` bumps that these chassis have followed.
    async fn start(northd: &str, chassis: &[&str]) -> Self {
        let workdir = Workdir::new();
        let northbound = Northbound::start(workdir.path()).await;
        let path = |path: std::path::PathBuf| path.display().to_string();
        let schema = path(ovn::shared("ovn/ovn-sb.ovsschema"));
        tool(&["create", &path(workdir.join("sb.db")), &schema]);
        let southbound = Server::start(workdir.path(), "sb", &[]).await;
        let databases = Self {
            northbound,
            southbound,
            _workdir: workdir,
        };
        let version = format!("options:northd_internal_version={northd}");
        databases.set(&[&version, &format!("nb_cfg={BEFORE}")]);
        let rows = chassis.iter().map(|name| {
            let row = json!({"name": name, "nb_cfg": BEFORE});
            json!({"op": "insert", "table": "Chassis_Private", "row": row})
        });
        databases.southbound(rows.collect());
        databases
    }

    /// Changes the row of `NB_Global`.
    fn set(&self, columns: &[&str]) {
        let words = [&["set", "NB_Global", "."], columns].concat();
        self.northbound.nbctl(&words).unwrap();
    }

    fn southbound(&self, operations: Vec<Value>) {
        let transaction: Vec<_> = [json!("OVN_Southbound")]
            .into_iter()
            .chain(operations)
            .collect();
        let mut client = Command::new("ovsdb-client");
        let transaction = Value::from(transaction).to_string();
        let args = ["transact", &self.southbound.remote(), &transaction];
        let said = run(client.args(args)).unwrap();
        assert!(!said.contains("error"), "{said}");
    }

    /// A chassis has followed up to this bump.
    fn follows(&self, chassis: &str, bump: i64) {
        self.southbound(vec![json!({
            "op": "update", "table": "Chassis_Private", "where": [["name", "==", chassis]], "row": {"nb_cfg": bump},
        })]);
    }

    fn nb_cfg(&self) -> i64 {
        let said = self
            .northbound
            .nbctl(&["get", "NB_Global", ".", "nb_cfg"])
            .unwrap();
        said.parse().unwrap()
    }

    async fn bumped(&self, bump: i64) {
        eventually(&format!("the bump {bump}"), async || {
            let found = self.nb_cfg();
            (found == bump).then_some(()).ok_or(found.to_string())
        })
        .await;
    }

    /// Starts to answer tickets, until the guard is dropped.
    fn realizer(&self, asks_southbound: bool) -> (RealizedHandle, DropGuard) {
        let southbound = self.southbound.remote().parse().unwrap();
        let (realizer, handle) = Realizer::new(&RealizedOptions {
            northbound: self.northbound.remote().parse().unwrap(),
            client: ClientOptions::new(NORTHBOUND),
            southbound: asks_southbound.then_some(southbound),
            vswitchd: None,
        });
        let token = CancellationToken::new();
        tokio::spawn(realizer.run(token.clone()));
        (handle, token.drop_guard())
    }
}

fn ticket(handle: &RealizedHandle) -> Ticket {
    handle.ticket(Committed {
        since: None,
        at: Instant::now(),
        evidence: Evidence {
            set: "a1".into(),
            member: Some(("10.0.0.1".into(), true)),
        },
    })
}

async fn proof(ticket: Ticket) -> Proof {
    let realized = ticket.await.unwrap();
    let reason = "--vswitchd-ctl is not set".to_owned();
    let is_in = matches!(realized.proof, Proof::Confirmed | Proof::Assumed(_));
    assert!(!is_in || realized.cached_flows == CachedFlows::Unknown(reason));
    realized.proof
}

#[tokio::test]
async fn a_change_is_confirmed_when_each_chassis_has_followed_a_bump() {
    let databases = Databases::start(NEW, &["a", "b"]).await;
    let (handle, _guard) = databases.realizer(true);
    let mut waiting = ticket(&handle);
    databases.bumped(BEFORE + 1).await;
    databases.follows("a", BEFORE + 1);
    assert!((&mut waiting).now_or_never().is_none());
    databases.follows("b", BEFORE + 1);
    assert_eq!(proof(waiting).await, Proof::Confirmed);
    let view = handle.view();
    assert_eq!(view.northd.as_deref(), Some(NEW));
    assert!(view.last.unwrap().rules_ms.is_some());
}

#[tokio::test]
async fn without_a_southbound_database_the_slowest_chassis_counts() {
    let databases = Databases::start(NEW, &[]).await;
    let (handle, _guard) = databases.realizer(false);
    let waiting = ticket(&handle);
    databases.bumped(BEFORE + 1).await;
    databases.set(&[&format!("hv_cfg={}", BEFORE + 1)]);
    assert_eq!(proof(waiting).await, Proof::Confirmed);
}

#[tokio::test]
async fn tickets_that_come_during_a_bump_share_the_next_one() {
    let databases = Databases::start(NEW, &["a"]).await;
    let (handle, _guard) = databases.realizer(true);
    let first = ticket(&handle);
    databases.bumped(BEFORE + 1).await;
    let others: Vec<_> = (0..10).map(|_| ticket(&handle)).collect();
    databases.follows("a", BEFORE + 1);
    assert_eq!(proof(first).await, Proof::Confirmed);
    databases.bumped(BEFORE + 2).await;
    databases.follows("a", BEFORE + 2);
    for other in others {
        assert_eq!(proof(other).await, Proof::Confirmed);
    }
    // The next ticket shows that there was no further bump.
    let last = ticket(&handle);
    databases.bumped(BEFORE + 3).await;
    databases.follows("a", BEFORE + 3);
    assert_eq!(proof(last).await, Proof::Confirmed);
}

#[tokio::test]
async fn a_number_that_another_client_sets_back_means_nothing_any_more() {
    let databases = Databases::start(NEW, &["a"]).await;
    let (handle, _guard) = databases.realizer(true);
    let mut waiting = ticket(&handle);
    databases.bumped(BEFORE + 1).await;
    databases.set(&["nb_cfg=1"]);
    databases.bumped(2).await;
    // The chassis is still at a greater number from before.
    databases.follows("a", BEFORE);
    assert!((&mut waiting).now_or_never().is_none());
    databases.follows("a", 2);
    assert_eq!(proof(waiting).await, Proof::Confirmed);
}

#[tokio::test]
async fn a_chassis_that_is_dead_delays_one_answer_and_later_ones_are_assumed() {
    let databases = Databases::start(NEW, &["a", "dead"]).await;
    let (handle, _guard) = databases.realizer(true);
    let silent = Proof::Assumed("a chassis is silent");
    let first = ticket(&handle);
    databases.bumped(BEFORE + 1).await;
    databases.follows("a", BEFORE + 1);
    assert_eq!(proof(first).await, silent);
    assert_eq!(handle.view().silent_chassis, ["dead"]);
    let second = ticket(&handle);
    databases.bumped(BEFORE + 2).await;
    databases.follows("a", BEFORE + 2);
    assert_eq!(proof(second).await, silent);
    let third = ticket(&handle);
    databases.bumped(BEFORE + 3).await;
    databases.follows("dead", BEFORE + 3);
    databases.follows("a", BEFORE + 3);
    assert_eq!(proof(third).await, Proof::Confirmed);
}

#[tokio::test]
async fn an_old_northd_is_not_bumped_and_the_southbound_database_tells() {
    let databases = Databases::start(OLD, &["a"]).await;
    let (handle, _guard) = databases.realizer(true);
    let mut waiting = ticket(&handle);
    tokio::task::yield_now().await;
    assert!((&mut waiting).now_or_never().is_none());
    let row = json!({"name": "a1", "addresses": ["set", ["10.0.0.2", "10.0.0.1"]]});
    databases.southbound(vec![
        json!({"op": "insert", "table": "Address_Set", "row": row}),
    ]);
    assert!(matches!(proof(waiting).await, Proof::Assumed(reason) if reason.contains("24.09")));
    let (without, _guard) = databases.realizer(false);
    let unknown = proof(ticket(&without)).await;
    assert!(matches!(unknown, Proof::Unknown(reason) if reason.contains("--sb")));
    assert_eq!(databases.nb_cfg(), BEFORE);
}

#[tokio::test]
async fn what_cannot_be_known_is_said_and_every_ticket_is_answered() {
    let databases = Databases::start(NEW, &["a"]).await;
    let (handle, _guard) = databases.realizer(true);
    let late = proof(ticket(&handle)).await;
    assert_eq!(late, Proof::Late("no chassis followed within a second"));
    let clear = ["clear", "NB_Global", ".", "options"];
    databases.northbound.nbctl(&clear).unwrap();
    eventually("no ovn-northd", async || {
        let unknown = proof(ticket(&handle)).await;
        let is_it = matches!(unknown, Proof::Unknown(reason) if reason.contains("version"));
        is_it.then_some(()).ok_or(format!("{unknown:?}"))
    })
    .await;
}
