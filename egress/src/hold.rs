//! `egress hold`: whether the collectors hold answers.

use clap::{Args, ValueEnum};
use hyper::Method;
use proto::facts::Program;
use runtime::UsageError;

use crate::{output, targets::TargetArgs};

/// Sets whether the collectors hold answers with new addresses, until they restart.
///
/// A collector with `--hold-listen` holds them at first.
#[derive(Args, Clone, Debug)]
pub struct HoldArgs {
    /// What a collector does with an answer that has a new address.
    #[arg(value_name = "MODE", value_enum)]
    pub mode: HoldMode,

    #[command(flatten)]
    pub targets: TargetArgs,
}

/// What a collector does with an answer that has a new address.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum HoldMode {
    /// It waits for its status.
    Hold,
    /// It goes at once.
    Pass,
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
        let (path, now) = match args.mode {
            HoldMode::Hold => ("/hold/hold", "holds answers with new addresses"),
            HoldMode::Pass => ("/hold/pass", "passes all answers at once, until a restart"),
        };
        let _empty = collector.request(Method::PUT, path).await?;
        output::line(&format!("{collector} {now}"))?;
    }
    Ok(())
}
