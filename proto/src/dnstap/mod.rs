//! dnstap events.
