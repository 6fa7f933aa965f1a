//! Signals are real and reach every `Tasks` of this process, so these tests run one at a time.

use std::future::pending;

use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::Mutex;

use super::*;

static TURN: Mutex<()> = Mutex::const_new(());

#[tokio::test]
async fn task_that_ends_early_ends_the_run_and_is_named() {
    type Task = fn() -> anyhow::Result<()>;
    let cases: [(Task, &str); 3] = [
        (|| Err(anyhow!("no luck")), "task x: no luck"),
        (|| Ok(()), "task x ended"),
        (|| panic!("at {}", "noon"), "task x: panicked: at noon"),
    ];
    let _turn = TURN.lock().await;
    for (ends, expected) in cases {
        let mut tasks = Tasks::new();
        tasks.spawn("patient", pending_until(tasks.token()));
        tasks.spawn("x", async move { ends() });
        let error = tasks.run().await.unwrap_err();
        assert_eq!(format!("{error:#}"), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_does_not_drain_is_aborted_after_5_s() {
    let _turn = TURN.lock().await;
    let mut tasks = Tasks::new();
    tasks.spawn("stuck", pending());
    tasks.token().cancel();
    let start = Instant::now();
    tasks.run().await.unwrap();
    assert_eq!(start.elapsed(), DRAIN_TIMEOUT);
}

#[tokio::test]
async fn sigterm_and_sigint_drain_the_tasks() {
    let _turn = TURN.lock().await;
    for signal in [Signal::TERM, Signal::INT] {
        let mut tasks = Tasks::new();
        tasks.spawn("polite", pending_until(tasks.token()));
        kill_process(getpid(), signal).unwrap();
        tasks.run().await.unwrap();
    }
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let _turn = TURN.lock().await;
    let mut tasks = Tasks::new();
    let token = tasks.token();
    tasks.spawn("stuck", async move {
        token.cancelled().await;
        kill_process(getpid(), Signal::TERM)?;
        pending().await
    });
    kill_process(getpid(), Signal::TERM).unwrap();
    let error = tasks.run().await.unwrap_err();
    assert_eq!(error.to_string(), "ended at once by a second SIGTERM");
    assert_eq!(error.downcast::<Ended>().unwrap().status(), 143);
}

async fn pending_until(token: CancellationToken) -> anyhow::Result<()> {
    token.cancelled().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_signal_runs_the_preparation_then_ends_tasks() {
    let _turn = TURN.lock().await;
    let mut tasks = Tasks::new();
    tasks.spawn("polite", pending_until(tasks.token()));
    let (token, start) = (tasks.token(), Instant::now());
    let before = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(!token.is_cancelled(), "the tasks go on");
    };
    kill_process(getpid(), Signal::TERM).unwrap();
    tasks.run_after(before).await.unwrap();
    assert!(token.is_cancelled());
    assert_eq!(start.elapsed(), Duration::from_secs(10));
}
