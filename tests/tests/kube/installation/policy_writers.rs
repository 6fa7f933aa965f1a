//! The pods of the policy-writer, if the values of the chart ask for it.

use kube::{ResourceExt, api::DynamicObject};
use tests::chart::{POLICY_WRITER, kind_of};

use super::{Installation, NAMESPACE, NODES};

impl Installation {
    pub(super) async fn run_policy_writers(&mut self, objects: &[DynamicObject]) {
        let is_it =
            |it: &&DynamicObject| kind_of(it) == "Deployment" && it.name_any() == POLICY_WRITER;
        let Some(deployment) = objects.iter().find(is_it) else {
            return;
        };
        self.server.config_of(NAMESPACE, POLICY_WRITER).await;
        let template = &deployment.data["spec"]["template"];
        for index in 0..NODES.len() {
            let name = format!("{POLICY_WRITER}-5d9c7b8f4-k{index}");
            let program = (POLICY_WRITER, 9095);
            let pod = self.run((&name, index), template, program, &[]).await;
            self.policy_writers.push(pod);
        }
    }
}
