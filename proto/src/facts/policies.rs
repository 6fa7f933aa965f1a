//! The facts of a policy-writer: DNSResolvers, and the objects that it makes for them.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Reason;

/// What a policy-writer knows.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyWriterFacts {
    /// The counts of the whole program.
    pub totals: Totals,
    /// A page of the DNSResolvers, sorted.
    pub dns_resolvers: Vec<ListedResolver>,
    /// The last one of the page as `NAMESPACE/NAME`, if more follow.
    pub next: Option<String>,
}

/// The counts of the whole program.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// DNSResolvers.
    pub resolvers: usize,
    /// DNSResolvers that are ready.
    pub ready: usize,
    /// Different names in them.
    pub names: usize,
    /// Addresses in all objects together.
    pub addresses: usize,
    /// Addresses that are left out at a limit.
    pub left_out_addresses: usize,
    /// Names that are left out at a limit.
    pub left_out_names: usize,
    /// DNSResolvers whose name another owner's object has.
    pub name_taken: usize,
    /// DNSResolvers in whose namespace no policy lets pods reach DNS.
    pub dns_blocked: usize,
    /// How often changes of other accounts were put right.
    pub undone: u64,
}

/// A DNSResolver.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedResolver {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its objects. The first one decides what pods reach.
    pub objects: Vec<ObjectFacts>,
    /// The names of its list.
    pub names: Vec<ResolverName>,
}

/// An object of a DNSResolver.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectFacts {
    /// Its kind.
    pub kind: String,
    /// It is stored as it should be.
    pub is_written: bool,
    /// An object of another owner has its name.
    pub is_taken: bool,
    /// Why the last write failed.
    pub failure: Option<String>,
}

/// A name of a DNSResolver.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolverName {
    /// In lower case, with its trailing dot; the text itself if it is no name.
    pub name: String,
    /// Its addresses in the stored object that decides what pods reach.
    pub addresses: Vec<IpAddr>,
    /// Why it has no addresses, or not all.
    pub trouble: Option<String>,
}

/// What a policy-writer knows of a name or an address.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoliciesExplained {
    /// Whether a DNSResolver lists the name, or has the address.
    pub is_wanted: bool,
    /// Whether each of them has it in the object that decides what pods reach.
    pub is_there: bool,
    /// At most 100.
    pub dns_resolvers: Vec<ExplainedResolver>,
    /// The number of others.
    pub more_dns_resolvers: usize,
    /// Why nothing is there, and problems of the whole program.
    pub reasons: Vec<Reason>,
}

/// A DNSResolver that lists the name, or has the address.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedResolver {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its objects.
    pub objects: Vec<ObjectFacts>,
    /// The names of the list that are asked about, or have the address, as they stand there.
    pub names: Vec<String>,
    /// The address, or those of the names.
    pub addresses: Vec<ExplainedAddress>,
    /// Why an object lacks an address, or is not written yet.
    pub reasons: Vec<Reason>,
}

/// An address, and the objects that have it.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedAddress {
    /// The address.
    pub address: IpAddr,
    /// The kinds of objects that are stored with it.
    pub objects: Vec<String>,
    /// Whether the object that decides has it.
    pub is_there: bool,
    /// Why it is not there, or why it is there without a name.
    pub reason: Option<String>,
}

/// All objects of DNSResolvers, compared with the statuses.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyComparison {
    /// Whether each object has what the statuses say.
    pub is_same: bool,
    /// DNSResolvers.
    pub dns_resolvers: usize,
    /// Their objects.
    pub objects: usize,
    /// Addresses that are left out at a limit. They are no difference.
    pub left_out: usize,
    /// At most 100.
    pub differences: Vec<ObjectReport>,
    /// The number of others.
    pub more_differences: usize,
    /// Problems of the whole program.
    pub reasons: Vec<Reason>,
}

/// An object that differs from the statuses.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReport {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// A fault of the object as a whole.
    pub fault: Option<String>,
    /// The addresses of the statuses that it lacks.
    pub missing: Vec<IpAddr>,
    /// The addresses that it has beyond the statuses.
    pub surplus: Vec<IpAddr>,
    /// Why, as far as known.
    pub reasons: Vec<Reason>,
}
