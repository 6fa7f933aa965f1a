//! The commands for people, as the demo runs and names them.

use tests::programs::{Program, program};
use tokio::process::Command;

/// Runs `egress` with flags that say where to ask, and prints its first lines.
pub(crate) async fn egress(words: &[&str], places: &[String], most: usize) {
    let mut command = Command::new(program("egress"));
    let output = command.args(words).args(places).output().await;
    let output = output.expect("it runs");
    println!("  $ egress {}", words.join(" "));
    let said = String::from_utf8_lossy(&output.stdout);
    for line in said.lines().take(most) {
        println!("    {line}");
    }
}

/// A flag with the URL of a program.
pub(crate) async fn place(flag: &str, program: &Program) -> [String; 2] {
    [flag.to_owned(), program.inspect_url().await]
}
