//! The pages in Chromium, and their pictures in the documentation.

use std::{ffi::OsStr, fs, path::Path, process::Stdio, time::Duration};

use proto::api::Family;
use tests::world::{Setup, World};
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
const DESK: [u32; 2] = [1_200, 1_100];
const PHONE: [u32; 2] = [500, 900];

/// Runs Chromium. The pages forbid all scripts; disabling them in the browser would prevent its output.
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

/// The page as the browser understands it.
async fn dom(url: &str) -> String {
    String::from_utf8(chromium(["--dump-dom", url]).await).unwrap()
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
async fn a_browser_shows_the_tables_filters_and_explains_without_a_script() {
    let world = World::start(Setup {
        zone: "www IN A 192.0.2.10",
        allow: &["localhost", HOSTILE, NAME, "other.example.com"],
        collector: &["--inspect", "tcp://127.0.0.1:0"],
        ..Setup::default()
    })
    .await;
    world.expect_flow(NAME, Family::V4, "192.0.2.10").await;
    let base = inspect_url(&world.collector);
    let page = dom(&format!("{base}/")).await;
    for part in [
        "<strong>2 problems</strong>",
        ">other.example.com.</a>: no address",
        "<h2 id=\"peers\">Peers</h2>",
        ">process ",
        "<h2 id=\"names\">Names</h2>",
        ">www.example.com.</a>",
        ">192.0.2.10</td>",
        ">team</td>",
    ] {
        assert!(page.contains(part), "{part:?} is missing in {page}");
    }
    // The browser shows a rule's name as text, too.
    assert!(
        page.contains("&lt;script&gt;") && !page.contains("<script"),
        "{page}"
    );
    let found = dom(&format!("{base}/?filter=WWW.&refresh=off")).await;
    let (_, names) = found.split_once("id=\"names\"").unwrap();
    assert!(
        names.contains(">www.example.com.</a>") && !names.contains(">other.example.com.</a>"),
        "{found}"
    );
    assert!(found.contains("value=\"WWW.\""), "{found}");
    let why = dom(&format!("{base}/explain?about=www.example.com")).await;
    assert!(
        why.contains("www.example.com. is there, with 1 address.") && why.contains("<pre>"),
        "{why}"
    );
    assert!(
        why.contains("href=\"http://127.0.0.1:9093/explain?about=www.example.com.\""),
        "{why}"
    );
    let hostile = dom(&format!(
        "{base}/explain?about=%3Cscript%3E%1b&namespace=%22%3E%3Cb%3E"
    ))
    .await;
    assert!(
        hostile.contains("&lt;script&gt;\\u{1b} is not there"),
        "{hostile}"
    );
    assert!(
        !hostile.contains("<script") && !hostile.contains("<b>"),
        "{hostile}"
    );
    let sets = format!("{}/?filter=WWW.", inspect_url(&world.ovn_writer));
    let sets = dom(&sets).await;
    for part in [
        "<strong>No problems</strong>",
        ">www.example.com.</a>",
        ">192.0.2.10</td>",
        ">no rule refers to it</span>",
        "href=\"http://127.0.0.1:9092/\"",
    ] {
        assert!(sets.contains(part), "{part:?} is missing in {sets}");
    }
    assert!(!sets.contains("other.example.com."), "{sets}");
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
