//! `--inspect`: the page in Chromium.

use std::{process::Stdio, time::Duration};

use tests::programs::Program;
use tokio::{process::Command, time::timeout};

/// How long Chromium may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The page as the browser understands it, and its text, once it has shown the first answers. The browser's clock stands
/// still while it waits for an answer.
pub(crate) async fn shown(program: &Program) -> (String, String) {
    let profile = tempfile::tempdir().unwrap();
    let shown = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--virtual-time-budget=5000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(program.page_url().await)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let shown = timeout(PATIENCE, shown).await.expect("chromium ends");
    let shown = shown.expect("scripts/setup installs it");
    assert!(shown.status.success(), "{shown:?}");
    let dom = String::from_utf8(shown.stdout).unwrap();
    let tags = dom.split('<').filter_map(|part| part.split_once('>'));
    let text = tags.map(|(_, text)| text).collect();
    (dom, text)
}
