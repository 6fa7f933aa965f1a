//! What a person is told of a fault, by `egress check`, `list` and `explain` and by the page. [`TABLE`] has the words.

mod table;

use std::fs;

use hickory_proto::op::ResponseCode;
use proto::api::Family;
use tests::{
    admin::Admin,
    coredns::CoreDns,
    faults::{Fault, has, problems},
    programs,
    upstream::{Asked, Scripted, Speech},
    wait::eventually,
    workdir::Workdir,
    world::{Setup, World, start_collector},
};

use self::table::TABLE;
use crate::inspect::shown;

/// A name without a fault.
const NAME: &str = "www.example.com.";

/// The first fault of the table that is none of a name.
const MISSPELT: &str = "misspelt field";

/// One more than a namespace may have.
const WILDCARDS: usize = 101;

/// More than a name may have.
const ADDRESSES: usize = 1_010;

/// Of the collector.
const FLAGS: [&str; 2] = [
    "--inspect=tcp://127.0.0.1:0",
    "--flush-name=flush.example.com",
];

/// The programs of a world, and where they are asked.
struct Programs {
    world: World,
    collector: String,
    writer: String,
}

impl Programs {
    async fn start(setup: Setup<'_>) -> Self {
        let mut world = World::start(setup).await;
        world.restart_asking(&FLAGS).await;
        Self {
            collector: world.collector.inspect_url().await,
            writer: world.ovn_writer.inspect_url().await,
            world,
        }
    }

    /// The output of a command, or the problems of both programs.
    async fn says(&self, command: &[&str]) -> String {
        if command == ["page"] {
            return self.page().await;
        }
        self.run(command).await.1
    }

    async fn run(&self, command: &[&str]) -> (Option<i32>, String) {
        let programs = ["--collector", &self.collector, "--ovn-writer", &self.writer];
        let output = programs::run("egress", &[command, &programs].concat()).await;
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    /// Waits until a check ends with this status.
    async fn is_checked(&self, status: i32) -> String {
        eventually(&format!("status {status}"), async || {
            let (ended, text) = self.run(&["check"]).await;
            (ended == Some(status)).then_some(text.clone()).ok_or(text)
        })
        .await
    }

    async fn page(&self) -> String {
        let mut shown = String::new();
        for program in [&self.collector, &self.writer] {
            let address = program.trim_start_matches("tcp://").parse().unwrap();
            match Admin::new(address).get("/status.json").await {
                Ok((200, status)) => shown += &problems(&status),
                other => shown += &format!("{other:?}\n"),
            }
        }
        shown
    }

    async fn tell(&self, fault: &str) {
        let fault = Fault::named(TABLE, fault);
        fault
            .is_told(async |command| self.says(command).await)
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_of_a_name_or_an_object_is_told_with_its_cause() {
    let upstream = Scripted::start(|asked: &Asked| match asked.name().as_str() {
        "servfail.up.test." => asked.reply(ResponseCode::ServFail).say(),
        "refused.up.test." => asked.reply(ResponseCode::Refused).say(),
        // CoreDNS asks whether this server is healthy.
        "." => asked.reply(ResponseCode::NoError).say(),
        _ => Vec::new(),
    })
    .await;
    let many = (0..ADDRESSES).map(|i| format!("\nmany IN A 198.18.{}.{}", i / 250, i % 250 + 1));
    let many: String = many.collect();
    let ruled = [
        NAME,
        "missing.example.com.",
        "servfail.up.test.",
        "refused.up.test.",
        "slow.up.test.",
        "local.example.com.",
        "many.example.com.",
    ];
    let hostile = "<script>alert(1)</script>";
    let others = [
        "192.0.2.7",
        "a_b.example.com",
        "unruled.example.com",
        hostile,
    ];
    let zone = "www IN A 192.0.2.10\nunruled IN A 192.0.2.11\nlocal IN A 127.0.0.1";
    let it = Programs::start(Setup {
        zone: &format!("{zone}{many}"),
        allow: &[&ruled[..], &others].concat(),
        upstream: Some(upstream.address),
        ..Setup::default()
    })
    .await;
    let (world, store) = (&it.world, &it.world.store);
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    world
        .northbound
        .create_acls(&ruled.map(str::to_owned), true);
    let wildcards = (0..WILDCARDS).map(|i| format!("*.w{i:03}.example.com"));
    let wildcards: Vec<String> = wildcards.collect();
    let wildcards: Vec<&str> = wildcards.iter().map(String::as_str).collect();
    store.allow("many", &wildcards);
    for Fault { fault, .. } in TABLE.iter().take_while(|it| it.fault != MISSPELT) {
        it.tell(fault).await;
    }
    let misspelt = "apiVersion: k8s.ovn.org/v1\nkind: EgressFirewall\nmetadata: {name: default, namespace: shop}\n\
                    spec: {egress: [{type: Allow, to: {dnsname: misspelt.example.com}}]}\n";
    fs::write(store.path().join("misspelt.yaml"), misspelt).unwrap();
    it.tell(MISSPELT).await;
    let broken = "apiVersion: k8s.ovn.org/v1\nkind: EgressFirewall\nspec: [";
    fs::write(store.path().join("rules.yaml"), broken).unwrap();
    it.tell("unreadable rule file").await;
    fs::write(store.objects_folder().join("broken.yaml"), "kind: [").unwrap();
    it.tell("unreadable object").await;

    // A browser shows all of them, and runs no script of a tenant.
    let (dom, collector) = shown(&it.world.collector).await;
    assert_eq!(dom.matches("<script").count(), 1, "{dom}");
    assert!(collector.contains("&lt;script&gt;"), "{collector}");
    let (_, writer) = shown(&it.world.ovn_writer).await;
    let end = TABLE.iter().position(|it| it.fault == "database down");
    for Fault { fault, page, .. } in &TABLE[..end.unwrap()] {
        let page = page.trim_start_matches("unreferenced: ");
        assert!(
            has(&collector, page) || has(&writer, page),
            "{fault}: {collector} {writer}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_of_a_program_or_the_store_is_told_with_its_cause() {
    let mut it = Programs::start(Setup {
        zone: "www IN A 192.0.2.10",
        allow: &[NAME],
        ..Setup::default()
    })
    .await;
    it.world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    it.world.northbound.create_acls(&[NAME.to_owned()], true);
    let text = it.is_checked(0).await;
    for topic in [
        "Collectors",
        "dnstap streams",
        "Rules and names",
        "ovn-writers",
        "Address sets",
    ] {
        assert!(text.contains(&format!("✓ {topic}: ")), "{topic}: {text}");
    }
    it.world.northbound.process().kill();
    it.tell("database down").await;
    it.is_checked(1).await;
    it.world.northbound.restart().await;

    it.world.ovn_writer.process().kill();
    it.tell("ovn-writer down").await;
    // A program that does not answer is unknown, and no fault.
    it.is_checked(2).await;
    it.world.ovn_writer.restart().await;
    it.world.ovn_writer.ready().await;
    it.writer = it.world.ovn_writer.inspect_url().await;

    // A second DNS server has no `dnstap` line.
    let (folder, mute) = (&it.world.workdir, Workdir::new());
    let corefile = fs::read_to_string(folder.join("Corefile")).unwrap();
    fs::write(mute.join("Corefile"), corefile.replace("dnstap ", "# ")).unwrap();
    let zone = "example.com.zone";
    fs::copy(folder.join(zone), mute.join(zone)).unwrap();
    let server = CoreDns::start(mute.path()).await;
    let servers = format!("{},{}", it.world.coredns.address(), server.address());
    let flags = [&["--resolver", &servers], &FLAGS[..]].concat();
    it.world.collector.process().kill();
    it.world.collector = start_collector(&it.world.workdir, &it.world.store, &flags).await;
    it.world.collector.ready().await;
    it.collector = it.world.collector.inspect_url().await;
    it.world.coredns.restart().await;
    it.tell("no dnstap line in one CoreDNS").await;

    let store = it.world.store.path().to_owned();
    let aside = it.world.workdir.join("aside");
    fs::rename(&store, &aside).unwrap();
    it.tell("folder of the store missing").await;
    fs::rename(&aside, &store).unwrap();
    it.world.collector.process().kill();
    it.tell("collector down").await;

    for object in fs::read_dir(it.world.store.objects_folder()).unwrap() {
        fs::remove_file(object.unwrap().path()).unwrap();
    }
    it.tell("sets without objects").await;
    fs::rename(&store, &aside).unwrap();
    fs::create_dir(&store).unwrap();
    it.world.collector.restart().await;
    it.collector = it.world.collector.inspect_url().await;
    it.tell("folder of the store empty").await;

    it.collector = it.writer.clone();
    it.tell("another program's URL").await;
}
