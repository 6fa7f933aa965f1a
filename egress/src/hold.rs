//! `egress hold`: whether the collectors hold answers.

use clap::Args;
use hyper::Method;
use proto::facts::{HoldMode, Program};
use runtime::UsageError;

use crate::{output, targets::TargetArgs};

/// Sets whether the collectors hold answers with new addresses, until they restart.
///
/// A collector with `--hold-listen` holds them at first.
#[derive(Args, Clone, Debug)]
pub struct HoldArgs {
    /// `pass`: all answers go at once. `hold`: an answer with a new address waits for its status.
    #[arg(value_name = "MODE")]
    pub mode: HoldMode,

    #[command(flatten)]
    pub targets: TargetArgs,
}

/// Sets it in each collector.
///
/// # Errors
/// There is no collector, or one does not answer or has no forwarder.
pub(crate) async fn run(args: HoldArgs) -> anyhow::Result<()> {
    let targets = args.targets.find().await?;
    let mut collectors = targets.of(Program::Collector).peekable();
    if collectors.peek().is_none() {
        return Err(UsageError("there is no collector".to_owned()).into());
    }
    for collector in collectors {
        let path = format!("/hold/{}", args.mode);
        let _empty = collector.request(Method::PUT, &path).await?;
        output::line(&format!("{collector}: {}", args.mode))?;
    }
    Ok(())
}
