//! Starts the tasks that follow the rules: one for each source of `--rules`.

use std::time::Duration;

use proto::api::{DnsResolver, EgressFirewall, KubeOvnDnsNameResolver};
use runtime::{OpenStore, shutdown::Tasks};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::Program;
use crate::{
    facts::{self, RuleSources},
    publish::{ManageObjects, SourcePolicy},
    rules::{
        self, BySource, Inputs, Outputs, RuleSource, Source,
        notices::{LeftOut, Rebinding},
    },
};

/// ovn-kubernetes' cluster manager may create the object; it deletes others of the name at once.
const CREATE_AFTER: Duration = Duration::from_secs(10);

/// The most reports that wait for a source. Dropping some is harmless.
const QUEUE: usize = 64;

/// The reports to authors of rules.
pub(super) struct RuleReports {
    pub(super) rebindings: mpsc::Receiver<Rebinding>,
    pub(super) left_out: mpsc::Receiver<LeftOut>,
}

/// Where the reports for the authors of one source go.
struct SourceReports {
    rebindings: mpsc::Sender<Rebinding>,
    left_out: mpsc::Sender<LeftOut>,
}

impl Program {
    /// Follows the rules of each source.
    pub(super) fn rules(&self, all_reports: RuleReports, tasks: &mut Tasks) -> RuleSources {
        let sources = self.args.sources.all();
        let (wanted, names_in_use) = watch::channel(BySource::of(&sources));
        let (overview, shown) = watch::channel(BySource::of(&sources));
        let (mut questions, mut reports) = (Vec::new(), Vec::new());
        for source in &sources {
            let (asking, asked) = mpsc::channel(facts::QUEUE);
            let (attempts, rebindings) = mpsc::channel(QUEUE);
            let (leaving_out, left_out) = mpsc::channel(QUEUE);
            questions.push(asking);
            reports.push(SourceReports {
                rebindings: attempts,
                left_out: leaving_out,
            });
            let inputs = Inputs {
                rebindings,
                left_out,
                questions: asked,
            };
            let outputs = Outputs {
                wanted: wanted.clone(),
                overview: overview.clone(),
                reporter: self.reporter.clone(),
                is_needed: sources.len() == 1,
            };
            match source {
                Source::EgressFirewall => self.follow::<EgressFirewall>(outputs, inputs, tasks),
                Source::DnsResolver => self.follow::<DnsResolver>(outputs, inputs, tasks),
                Source::KubeOvn => {
                    self.follow::<KubeOvnDnsNameResolver>(outputs, inputs, tasks);
                }
            }
        }
        let passing_on = pass_on(all_reports, reports, tasks.token());
        tasks.spawn("reports to authors", passing_on);
        RuleSources {
            tasks: questions,
            wanted: names_in_use,
            overview: shown,
        }
    }

    /// How the objects of each source are created.
    pub(super) fn source_policies(&self) -> Vec<SourcePolicy> {
        let sources = self.args.sources.all().into_iter();
        let policies = sources.map(|source| match source {
            Source::EgressFirewall => SourcePolicy {
                source,
                namespace: self.args.objects_namespace.clone(),
                manage: self.args.manage_objects,
                create_after: match &self.store {
                    OpenStore::Dir(_) => Duration::ZERO,
                    OpenStore::Kube(_) => CREATE_AFTER,
                },
            },
            Source::DnsResolver => {
                SourcePolicy::new(source, self.args.sources.dnsresolver_objects_namespace())
            }
            // kube-ovn-controller makes and deletes them.
            Source::KubeOvn => SourcePolicy {
                manage: ManageObjects::Never,
                ..SourcePolicy::new(source, "")
            },
        });
        policies.collect()
    }

    fn follow<K: RuleSource>(&self, outputs: Outputs, inputs: Inputs, tasks: &mut Tasks) {
        let gate = K::SOURCE.gate();
        tasks.spawn(
            gate,
            rules::run::<_, K>(
                self.store.clone(),
                self.args.retention.retention(),
                self.shared.namespaces.clone(),
                outputs,
                inputs,
                self.health.gate(gate, "they were not listed yet"),
                tasks.token(),
            ),
        );
    }
}

/// Passes each report on to every source, since rules of several may have the name.
async fn pass_on(
    mut reports: RuleReports,
    sources: Vec<SourceReports>,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        // Dropped if a queue is full: enough is reported then.
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            Some(rebinding) = reports.rebindings.recv() => {
                for source in &sources {
                    let _enough = source.rebindings.try_send(rebinding.clone());
                }
            }
            Some(names) = reports.left_out.recv() => {
                for source in &sources {
                    let _enough = source.left_out.try_send(names.clone());
                }
            }
        }
    }
}
