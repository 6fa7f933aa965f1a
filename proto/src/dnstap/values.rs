//! The enumerations of dnstap, open for values that the schema does not have yet.

use std::fmt;

/// An enumeration with a number on the wire and a name in the schema for each value, and room for unknown ones.
macro_rules! open_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $number:literal $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
            /// A value the schema does not have, by its number.
            Unknown(u32),
        }

        impl $name {
            /// The name in the schema, or `UNKNOWN`: few enough to be the values of a metric's label.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Unknown(_) => "UNKNOWN",
                }
            }
        }

        impl From<u32> for $name {
            fn from(number: u32) -> Self {
                match number {
                    $($number => Self::$variant,)*
                    _ => Self::Unknown(number),
                }
            }
        }

        impl From<$name> for u32 {
            fn from(value: $name) -> Self {
                match value {
                    $($name::$variant => $number,)*
                    $name::Unknown(number) => number,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Self::Unknown(number) => write!(f, "UNKNOWN({number})"),
                    known => f.write_str(known.as_str()),
                }
            }
        }
    };
}

open_enum! {
    /// Which server or client saw which message (`Message.Type`).
    MessageKind {
        /// An authoritative server received a query from a resolver.
        AuthQuery = 1 "AUTH_QUERY",
        /// An authoritative server answered a resolver.
        AuthResponse = 2 "AUTH_RESPONSE",
        /// A resolver asked an authoritative server.
        ResolverQuery = 3 "RESOLVER_QUERY",
        /// A resolver received the answer of an authoritative server.
        ResolverResponse = 4 "RESOLVER_RESPONSE",
        /// A server that looks further received a query from a client.
        ClientQuery = 5 "CLIENT_QUERY",
        /// A server that looks further answered a client. The only kind that may programme anything.
        ClientResponse = 6 "CLIENT_RESPONSE",
        /// A server passed a query to the next server.
        ForwarderQuery = 7 "FORWARDER_QUERY",
        /// A server received the answer of the next server, and has not checked it against the question yet.
        ForwarderResponse = 8 "FORWARDER_RESPONSE",
        /// A stub resolver sent a query.
        StubQuery = 9 "STUB_QUERY",
        /// A stub resolver received an answer.
        StubResponse = 10 "STUB_RESPONSE",
        /// A tool sent a query.
        ToolQuery = 11 "TOOL_QUERY",
        /// A tool received an answer.
        ToolResponse = 12 "TOOL_RESPONSE",
        /// An authoritative server received an update (RFC 2136).
        UpdateQuery = 13 "UPDATE_QUERY",
        /// An authoritative server answered an update (RFC 2136).
        UpdateResponse = 14 "UPDATE_RESPONSE",
    }
}

open_enum! {
    /// The kind of network address (`SocketFamily`).
    SocketFamily {
        /// IPv4.
        Inet = 1 "INET",
        /// IPv6.
        Inet6 = 2 "INET6",
    }
}

open_enum! {
    /// What carried the DNS message (`SocketProtocol`).
    SocketProtocol {
        /// DNS over UDP (RFC 1035). CoreDNS says this of DNS over QUIC too.
        Udp = 1 "UDP",
        /// DNS over TCP (RFC 1035, RFC 7766). CoreDNS says this of DNS over TLS and HTTPS too.
        Tcp = 2 "TCP",
        /// DNS over TLS (RFC 7858).
        Dot = 3 "DOT",
        /// DNS over HTTPS (RFC 8484).
        Doh = 4 "DOH",
        /// DNSCrypt over UDP.
        DnsCryptUdp = 5 "DNSCryptUDP",
        /// DNSCrypt over TCP.
        DnsCryptTcp = 6 "DNSCryptTCP",
        /// DNS over QUIC (RFC 9250).
        Doq = 7 "DOQ",
    }
}
