//! Requests of other tasks for a view of the state.

use runtime::{clock::Timestamp, inspect::Subject};
use tokio::sync::oneshot;

use super::{
    facts::Facts,
    inspection::Inspection,
    listing::{NameListing, NamesQuery, list_names},
    view::View,
};

/// A request, with the channel for the answer.
#[derive(Debug)]
pub enum InspectRequest {
    /// A summary of all names.
    View(oneshot::Sender<View>),
    /// The details of one subject.
    Facts(Subject, oneshot::Sender<Facts>),
    /// Names with their addresses.
    Names(NamesQuery, oneshot::Sender<NameListing>),
}

impl InspectRequest {
    /// Answers the request. The receiver may be gone.
    pub(crate) fn answer(self, inspection: Inspection<'_>, now: Timestamp) {
        match self {
            Self::View(sender) => {
                let _gone = sender.send(inspection.view(now));
            }
            Self::Facts(subject, sender) => {
                let _gone = sender.send(inspection.facts(&subject, now));
            }
            Self::Names(query, sender) => {
                let _gone = sender.send(list_names(&inspection, &query, now));
            }
        }
    }
}
