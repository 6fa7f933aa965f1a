//! What other tasks want to know.

use runtime::{clock::Timestamp, inspect::Subject};
use tokio::sync::oneshot;

use super::{facts::Facts, inspection::Inspection, view::View};

/// What somebody wants to know, and where to send it.
#[derive(Debug)]
pub enum InspectRequest {
    /// All names, in short.
    View(oneshot::Sender<View>),
    /// All about one.
    Facts(Subject, oneshot::Sender<Facts>),
}

impl InspectRequest {
    /// Answers the request. The other end may be gone.
    pub(crate) fn answer(self, inspection: Inspection<'_>, now: Timestamp) {
        match self {
            Self::View(sender) => {
                let _gone = sender.send(inspection.view(now));
            }
            Self::Facts(subject, sender) => {
                let _gone = sender.send(inspection.facts(&subject, now));
            }
        }
    }
}
