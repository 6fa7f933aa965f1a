//! The pages in Chromium, and their pictures in the documentation.

use std::{ffi::OsStr, fs, path::Path, process::Stdio, time::Duration};

use proto::api::Family;
use tests::{
    programs::Program,
    world::{Setup, World},
};
use tokio::{process::Command, time::timeout};

use super::{HOSTILE, NAME, inspect_url};

/// Set to anything to write the pictures of the documentation.
const UPDATE: &str = "UPDATE_GENERATED";

/// How long Chromium may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Preferred colours, by the numbers of Chromium's `PreferredColorScheme`.
const DARK: &str = "0";
const LIGHT: &str = "1";

/// The width and height of a window on a desk, and of one on a phone.
const DESK: [u32; 2] = [1_400, 1_100];
const PHONE: [u32; 2] = [390, 900];

/// Runs Chromium until the page has shown its first answers. Its clock stands still while it waits for an answer.
async fn chromium<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Vec<u8> {
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new("chromium");
    let shown = command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--virtual-time-budget=5000",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(args)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let shown = timeout(PATIENCE, shown).await.expect("chromium ends");
    let shown = shown.expect("scripts/setup installs it");
    assert!(shown.status.success(), "{shown:?}");
    shown.stdout
}

/// The page as the browser understands it, and its text.
async fn shown(program: &Program) -> (String, String) {
    let dom = chromium(["--dump-dom", &inspect_url(program)]).await;
    let dom = String::from_utf8(dom).unwrap();
    let tags = dom.split('<').filter_map(|part| part.split_once('>'));
    let text = tags.map(|(_, text)| text).collect();
    (dom, text)
}

/// A picture of the page.
async fn picture(url: &str, [width, height]: [u32; 2], scheme: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.png");
    chromium([
        format!("--screenshot={}", file.display()),
        format!("--window-size={width},{height}"),
        format!("--blink-settings=preferredColorScheme={scheme}"),
        url.to_owned(),
    ])
    .await;
    let picture = fs::read(file).expect("a picture");
    assert!(
        picture.starts_with(b"\x89PNG\r\n"),
        "{} bytes",
        picture.len()
    );
    picture
}

#[tokio::test]
async fn a_browser_shows_problems_and_tables_and_runs_no_script_of_a_tenant() {
    let world = World::start(Setup {
        zone: "www IN A 192.0.2.10",
        allow: &["localhost", HOSTILE, NAME, "other.example.com"],
        collector: &["--inspect", "tcp://127.0.0.1:0"],
        ..Setup::default()
    })
    .await;
    world.expect_flow(NAME, Family::V4, "192.0.2.10").await;
    let (dom, text) = shown(&world.collector).await;
    for part in [
        "2 problems",
        "other.example.com.: no address",
        "Peers (1)",
        "process ",
        "Names (",
        NAME,
        "192.0.2.10",
        "team",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
    ] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
    assert_eq!(dom.matches("<script").count(), 1, "{dom}");
    let (_, text) = shown(&world.ovn_writer).await;
    for part in ["No problems", "Sets (", NAME, "192.0.2.10"] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
}

/// The pictures have the time and the addresses of peers, so they are written only on demand.
#[tokio::test]
async fn the_pages_are_drawn_in_light_and_dark_and_on_a_phone() {
    let world = World::start(Setup {
        zone: "www IN A 192.0.2.10\nwww IN A 192.0.2.11\napi IN A 198.51.100.7\na.cdn IN A 203.0.113.5\nb.cdn IN A 203.0.113.6",
        allow: &["api.example.com", NAME, "*.cdn.example.com", "gone.example.com", "localhost"],
        collector: &["--inspect", "tcp://127.0.0.1:0"],
        ..Setup::default()
    })
    .await;
    for (name, address) in [(NAME, "192.0.2.11"), ("api.example.com.", "198.51.100.7")] {
        world.look_up(name).await;
        world.expect_flow(name, Family::V4, address).await;
    }
    for name in ["a.cdn.example.com.", "b.cdn.example.com."] {
        world.look_up(name).await;
    }
    let wildcard = "*.cdn.example.com.";
    let addresses = ["203.0.113.5", "203.0.113.6"];
    let row = world.expect_set(wildcard, Family::V4, &addresses).await;
    let sets = [row.name.as_str()];
    world.northbound.create_acl("allow", 10_000, &sets, true);
    for (name, program) in [
        ("collector", &world.collector),
        ("ovn-writer", &world.ovn_writer),
    ] {
        let url = format!("{}/", inspect_url(program));
        let mut desk = Vec::new();
        for scheme in [DARK, LIGHT] {
            desk.push(picture(&url, DESK, scheme).await);
            picture(&url, PHONE, scheme).await;
        }
        assert_ne!(desk[0], desk[1], "{name}: dark and light are the same");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/images");
        let file = folder.join(format!("{name}.png"));
        if std::env::var_os(UPDATE).is_some() {
            fs::write(&file, &desk[1]).unwrap();
        }
        let shown = fs::read(&file).unwrap_or_default();
        let hint = format!("{UPDATE}=1 writes {}", file.display());
        assert!(shown.starts_with(b"\x89PNG\r\n"), "{hint}");
    }
}
