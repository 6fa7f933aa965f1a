//! Requests of other tasks for a view of the state.

use proto::facts::{NameList, SubjectFacts};
use runtime::{clock::Timestamp, inspect::Subject};
use tokio::sync::oneshot;

use super::{listing::NamesQuery, publisher::Publisher, view::View};

/// A request, with the channel for the answer.
#[derive(Debug)]
pub enum InspectRequest {
    /// A summary of all names.
    View(oneshot::Sender<View>),
    /// The details of one subject.
    Facts(Subject, oneshot::Sender<SubjectFacts>),
    /// Names with their addresses.
    Names(NamesQuery, oneshot::Sender<NameList>),
}

impl InspectRequest {
    /// Answers the request. The receiver may be gone.
    pub(crate) fn answer(self, publisher: &Publisher, now: Timestamp) {
        match self {
            Self::View(sender) => {
                let _gone = sender.send(publisher.view(now));
            }
            Self::Facts(subject, sender) => {
                let _gone = sender.send(publisher.facts(&subject, now));
            }
            Self::Names(query, sender) => {
                let _gone = sender.send(publisher.list_names(&query, now));
            }
        }
    }
}
