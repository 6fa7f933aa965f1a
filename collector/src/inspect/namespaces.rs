//! Namespaces that have too much, as the page and `/status.json` show them.

use maud::{Markup, html};
use serde::Serialize;

use crate::owner::NamespaceShare;

/// So many are shown.
pub(super) const MOST: usize = 1_000;

/// A namespace that has too many addresses or names, or most where all together have too many.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceStatus {
    /// Its name.
    pub namespace: String,
    /// How many addresses are charged to it, without what is left out.
    pub addresses: usize,
    /// How many it may have.
    pub max_addresses: usize,
    /// How many names its rules have, without those that are left out.
    pub names: usize,
    /// How many it may have.
    pub max_names: usize,
    /// Whether new names that its pods ask for under wildcards are left out.
    pub new_names_left_out: bool,
}

impl From<NamespaceShare> for NamespaceStatus {
    fn from(share: NamespaceShare) -> Self {
        Self {
            namespace: share.namespace.to_string(),
            addresses: share.used.addresses,
            max_addresses: share.quota.addresses,
            names: share.used.names,
            max_names: share.quota.names,
            new_names_left_out: share.is_closed,
        }
    }
}

/// Their part of the page.
pub(super) fn table(namespaces: &[NamespaceStatus]) -> Markup {
    html! {
        @if !namespaces.is_empty() {
            h2 { "Namespaces over their limits" }
            table {
                tr { th { "Namespace" } th.number { "Addresses" } th.number { "Names" } th { "Trouble" } }
                @for row in namespaces {
                    tr {
                        td { (row.namespace) }
                        td.number { (row.addresses) " of " (row.max_addresses) }
                        td.number { (row.names) " of " (row.max_names) }
                        td.bad {
                            @if row.new_names_left_out { "new names under wildcards are left out" }
                        }
                    }
                }
            }
        }
    }
}
