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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_same_as_before_wakes_no_receiver() {
        let (sender, mut receiver) = watch::channel(1);
        assert!(!send_if_changed(&sender, 1));
        assert!(!receiver.has_changed().unwrap());
        assert!(send_if_changed(&sender, 2));
        assert!(receiver.has_changed().unwrap());
        assert_eq!(*receiver.borrow_and_update(), 2);
    }
}
