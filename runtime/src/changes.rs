//! Values that are sent only when they change.

use tokio::sync::watch;

/// Sends a value if it differs from the last one. Returns whether it does.
pub fn send_if_changed<T: PartialEq>(sender: &watch::Sender<T>, value: T) -> bool {
    sender.send_if_modified(|current| {
        let is_new = *current != value;
        if is_new {
            *current = value;
        }
        is_new
    })
}
