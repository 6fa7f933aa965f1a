//! Starts the tasks that follow the rules: one for each source of `--rules`.

use std::sync::Arc;

use proto::api::EgressFirewall;
use runtime::shutdown::Tasks;
use tokio::sync::watch;

use super::Program;
use crate::rules::{self, Inputs, Outputs, Overview, RuleSource, Source, Wanted};

impl Program {
    /// The names in use, and a summary of the rules.
    pub(super) fn rules(
        &self,
        inputs: Inputs,
        tasks: &mut Tasks,
    ) -> (watch::Receiver<Wanted>, watch::Receiver<Arc<Overview>>) {
        let (wanted, wanted_names) = watch::channel(Wanted::default());
        let (overview, shown) = watch::channel(Arc::default());
        let outputs = Outputs {
            wanted,
            overview,
            reporter: self.reporter.clone(),
        };
        match self.args.rules {
            Source::EgressFirewall => self.follow::<EgressFirewall>(outputs, inputs, tasks),
        }
        (wanted_names, shown)
    }

    fn follow<K: RuleSource>(&self, outputs: Outputs, inputs: Inputs, tasks: &mut Tasks) {
        let gate = K::SOURCE.gate();
        tasks.spawn(
            "policy",
            rules::run::<_, K>(
                self.store.clone(),
                self.args.retention.retention_rules(),
                self.shared.clients.clone(),
                outputs,
                inputs,
                self.health.gate(gate, "they were not listed yet"),
                tasks.token(),
            ),
        );
    }
}
