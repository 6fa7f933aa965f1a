//! Starts the tasks that follow the rules: one for each source of `--rules`.

use std::time::Duration;

use proto::api::{DnsResolver, EgressFirewall, KubeOvnDnsNameResolver};
use runtime::{OpenStore, shutdown::Tasks};
use tokio::sync::{mpsc, watch};

use super::Program;
use crate::{
    facts::{self, RuleSources},
    publish::{ManageObjects, SourcePolicy},
    rules::{self, BySource, Inputs, Outputs, RuleChanges, RuleSource, Source},
};

/// ovn-kubernetes' cluster manager may create the object; it deletes others of the name at once.
const CREATE_AFTER: Duration = Duration::from_secs(10);

/// The most changes that wait for the publisher.
const CHANGES: usize = 4;

impl Program {
    /// Follows the rules of each source.
    pub(super) fn rules(&self, tasks: &mut Tasks) -> (RuleSources, mpsc::Receiver<RuleChanges>) {
        let sources = self.args.sources.all();
        let (changes, changed) = mpsc::channel(CHANGES);
        let (overview, shown) = watch::channel(BySource::of(&sources));
        let mut questions = Vec::new();
        for source in &sources {
            let (asking, asked) = mpsc::channel(facts::QUEUE);
            questions.push(asking);
            let inputs = Inputs {
                notices: self.shared.notices.subscribe(),
                questions: asked,
            };
            let outputs = Outputs {
                changes: changes.clone(),
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
        let sources = RuleSources {
            tasks: questions,
            overview: shown,
        };
        (sources, changed)
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
