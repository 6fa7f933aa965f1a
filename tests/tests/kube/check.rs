//! `egress check` names each fault of an installation, with its cure.

mod fault_injection;

use tests::wait::eventually;

use crate::installation::Installation;

/// Waits until a check ends with this status, and has a line with each text and its cure below.
async fn finds(it: &Installation, status: i32, expected: &[(&str, &str)]) -> String {
    eventually(&format!("{expected:?}"), async || {
        let (ended, text) = it.egress(&["check"]).await;
        let lines: Vec<&str> = text.lines().collect();
        let is_found = |(seen, cure): &(&str, &str)| {
            lines.windows(2).any(|pair| {
                pair[0].contains(seen) && pair[1].starts_with("    ") && pair[1].contains(cure)
            })
        };
        match ended == Some(status) && expected.iter().all(is_found) {
            true => Ok(text),
            false => Err(format!("{ended:?}: {text}")),
        }
    })
    .await
}

/// Waits until a check finds nothing but ✓.
async fn is_well(it: &Installation) -> String {
    eventually("all is well", async || {
        let (ended, text) = it.egress(&["check"]).await;
        let lines = text.lines().filter(|line| !line.starts_with('✓'));
        match ended == Some(0) && lines.eq(["All is well."]) {
            true => Ok(text),
            false => Err(format!("{ended:?}: {text}")),
        }
    })
    .await
}
