//! DNS responses (RFC 1035), borrowed from the wire.
