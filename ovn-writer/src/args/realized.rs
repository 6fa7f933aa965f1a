//! When changes are realized: what to ask for it.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use ovsdb_replica::Remotes;
use runtime::args::parse_duration;

/// The flags of [`crate::realized`].
#[derive(Args, Clone, Debug)]
pub struct RealizedArgs {
    /// The southbound database, which shows when each chassis has followed a change.
    ///
    /// It has the form of `--nb`, and the flags for keys and certificates are for both. Default: none. Then the northbound database shows
    /// the slowest chassis, if ovn-northd is 24.09 or newer.
    #[arg(long, value_name = "REMOTES")]
    pub sb: Option<Remotes>,

    /// The control socket of `ovs-vswitchd` on this node, or its folder, which shows when the switch has left cached flows.
    ///
    /// A folder has the files `ovs-vswitchd.pid` and `ovs-vswitchd.PID.ctl`. The ovn-writer sends only `revalidator/wait`. Default: none.
    #[arg(long, value_name = "PATH")]
    pub vswitchd_ctl: Option<PathBuf>,

    /// How often to measure when a change is realized, at most.
    ///
    /// A sample is one change of `nb_cfg` of the northbound database, as by `ovn-nbctl --wait=hv`. While `egress watch` reads, there is one in
    /// 100 ms at most. 0: never.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub realized_interval: Duration,
}
