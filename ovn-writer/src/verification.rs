//! A comparison by another process than the ovn-writer.

use std::time::Duration;

use runtime::{
    OpenStore,
    args::StoreAddress,
    store::{Scope, Store},
};

use crate::{
    PROGRAM,
    args::{NorthboundArgs, SetsArgs},
    usage,
    verify::{Verified, verify},
};

/// The two sides of a comparison, and how they are read.
#[derive(Clone, Debug)]
pub struct Verification {
    /// The namespace of the objects.
    pub objects_namespace: String,
    pub northbound: NorthboundArgs,
    pub sets: SetsArgs,
    /// How long each side may take to be read.
    pub timeout: Duration,
}

impl Verification {
    /// Reads both sides once and compares them.
    ///
    /// # Errors
    /// [`UsageError`](runtime::UsageError): a flag is wrong, or a side cannot be read.
    pub async fn run(self, address: &StoreAddress) -> anyhow::Result<Verified> {
        let options = usage(self.northbound.client_options())?;
        let policy = self.sets.policy(address, &self.objects_namespace);
        let store = OpenStore::open(address, PROGRAM).await;
        let store = usage(store.map_err(|error| format!("{error:#}")))?;
        let objects = store.watch(Scope::Namespace(self.objects_namespace));
        let verified = verify(&self.northbound.nb, options, policy, objects, self.timeout).await;
        Ok(usage(verified)?)
    }
}
