//! `egress explain` of a collector: why an address is open, or is not.

use std::process::Output;

use proto::api::Family;
use serde_json::Value;
use tests::{
    programs,
    world::{Setup, World},
};

const NAME: &str = "www.example.com.";

struct Explain {
    world: World,
    inspect: String,
    _folder: tempfile::TempDir,
}

impl Explain {
    async fn start(allow: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let inspect = format!("unix://{}", folder.path().join("inspect.sock").display());
        let world = World::start(Setup {
            zone: "www IN A 192.0.2.10\n*.apps IN A 192.0.2.30",
            allow,
            collector: &["--inspect", &inspect],
            ..Setup::default()
        })
        .await;
        Self {
            world,
            inspect,
            _folder: folder,
        }
    }

    async fn ask(&self, about: &str, more: &[&str]) -> Output {
        let args = [&["explain", about, "--collector", &self.inspect], more].concat();
        programs::run("egress", &args).await
    }

    /// The exit status, and the output.
    async fn text(&self, about: &str, more: &[&str]) -> (Option<i32>, String) {
        let Output { status, stdout, .. } = self.ask(about, more).await;
        (status.code(), String::from_utf8(stdout).unwrap())
    }

    async fn json(&self, about: &str) -> Value {
        let Output { stdout, .. } = self.ask(about, &["-o", "json"]).await;
        let mut answers: Value = serde_json::from_slice(&stdout).unwrap();
        answers["collector"].take()
    }

    async fn reasons(&self, about: &str) -> Vec<String> {
        let json = self.json(about).await;
        let reasons = json["reasons"].as_array().unwrap().iter();
        reasons
            .map(|it| it["code"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
}

#[tokio::test]
async fn a_name_and_its_address_say_which_rule_which_object_and_which_stream() {
    let it = Explain::start(&[NAME, "*.apps.example.com", "a_b.example.com"]).await;
    assert_eq!(it.reasons(NAME).await, ["NoAddress", "NoLookups"]);
    it.world.expect_flow(NAME, Family::V4, "192.0.2.10").await;
    it.world
        .expect_flow_through(
            "*.apps.example.com.",
            "x.apps.example.com.",
            Family::V4,
            "192.0.2.30",
        )
        .await;

    let (status, text) = it.text("WWW.example.COM", &[]).await;
    assert_eq!(status, Some(0), "{text}");
    let object = it.world.store.object(NAME).unwrap().metadata.name.unwrap();
    let place = format!("object ovn-kubernetes/{object}");
    assert_has(
        &text,
        &[
            "www.example.com. is there, with 1 address.\n",
            "Allow in team/default",
            &place,
        ],
    );
    assert_has(
        &text,
        &[
            "  192.0.2.10: seen ",
            "in the dnstap stream of process ",
            "TTL 300 s; expires in ",
            "; leaves in ",
        ],
    );
    let json = it.json(NAME).await;
    assert_eq!(json["isThere"], true);
    assert_eq!(json["names"][0]["addresses"][0]["inObject"], true);
    assert_eq!(json["names"][0]["addresses"][0]["firstClient"], "127.0.0.1");

    let (status, text) = it.text("192.0.2.30", &["--namespace", "team"]).await;
    assert_eq!(status, Some(0), "{text}");
    assert_has(
        &text,
        &[
            "192.0.2.30 is there for namespace team.\n",
            "192.0.2.30 of x.apps.example.com.",
        ],
    );
    let (status, text) = it.text(NAME, &["--namespace", "fence"]).await;
    assert_eq!(status, Some(1), "{text}");
    assert_has(
        &text,
        &["no rule of namespace fence has it; EgressFirewalls of other namespaces that do: 1"],
    );

    // Reasons for a missing address.
    assert_eq!(it.reasons("127.0.0.1").await, ["Guarded"]);
    assert_eq!(
        it.reasons("y.x.apps.example.com").await,
        ["NoRule", "WildcardDepth"]
    );
    assert_eq!(
        it.reasons("apps.example.com").await,
        ["NoRule", "WildcardDepth"]
    );
    assert_eq!(
        it.reasons("a_b.example.com").await,
        ["InvalidName", "NameRefused"]
    );
    assert_eq!(it.reasons("192.0.2.99").await, ["NoAddress"]);
    it.world.look_up("other.example.com.").await;
    assert_eq!(it.reasons("other.example.com").await, ["NoRule"]);
}
