//! DNS names as the API spells them, object names, and address-set names.

use std::{
    borrow::{Borrow, Cow},
    fmt,
    net::IpAddr,
};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::dns;

/// `external_ids:k8s.ovn.org/owner-type` of the address sets of DNS names.
pub const ADDRESS_SET_OWNER_TYPE: &str = "EgressFirewallDNS";

/// `external_ids:k8s.ovn.org/owner-controller` of the default network's address sets.
pub const DEFAULT_NETWORK_CONTROLLER: &str = "default-network-controller";

/// The address family of an address set (`external_ids:ip-family`).
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4: `v4`, DNS type A.
    V4,
    /// IPv6: `v6`, DNS type AAAA.
    V6,
}

impl Family {
    /// Both families.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// `v4` or `v6`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "v4",
            Self::V6 => "v6",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A DNS name that can be the `spec.name` of a `DNSNameResolver`.
///
/// It is a lower-case fully qualified name with its trailing dot, of at most 254 characters. It has at least two labels
/// of letters, digits and hyphens (RFC 1123), and may begin with `*.`.
///
/// The deployed CRD's pattern is `^(\*\.)?([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.){2,}$`. Cheap to clone.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DnsName(std::sync::Arc<str>);

/// Why a text is not a [`DnsName`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NameError {
    /// The text is empty.
    #[error("the name is empty")]
    Empty,
    /// Over 254 characters with the trailing dot.
    #[error("the name has {0} characters, more than 254")]
    TooLong(usize),
    /// The API requires at least two labels besides `*`.
    #[error("the name has a single label; a DNSNameResolver needs at least two besides `*`")]
    SingleLabel,
    /// A label is empty, too long, or has a character outside `[a-z0-9-]`, or a hyphen at an end.
    #[error("label `{0}` is not 1 to 63 letters, digits and inner hyphens")]
    Label(String),
    /// The text is an IP address.
    #[error("it is an address: use cidrSelector")]
    Address,
    /// `*` is not the whole first label.
    #[error("`*` may only stand alone in front")]
    Wildcard,
}

impl DnsName {
    /// Parses a name as people write it: any case, with or without the trailing dot.
    ///
    /// # Errors
    /// [`NameError`] if no `DNSNameResolver` can have the name.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.is_empty() || text == "." {
            return Err(NameError::Empty);
        }
        check_no_address(text)?;
        let mut name = text.to_ascii_lowercase();
        if !name.ends_with('.') {
            name.push('.');
        }
        if name.len() > 254 {
            return Err(NameError::TooLong(name.len()));
        }
        let labels = name.strip_suffix('.').unwrap_or(&name).split('.');
        check_labels(labels.map(str::as_bytes))?;
        Ok(Self(name.into()))
    }

    /// Converts the name of a DNS question. The API refuses some valid DNS names, such as `a_b.example.com.`.
    ///
    /// # Errors
    /// [`NameError`] if no `DNSNameResolver` can have the name.
    pub fn from_wire(name: &dns::Name) -> Result<Self, NameError> {
        let wire = name.wire();
        if wire.len() <= 1 {
            return Err(NameError::Empty);
        }
        check_labels(name.labels())?;
        let mut text = String::with_capacity(wire.len());
        for label in name.labels() {
            // The labels are ASCII: others were refused above.
            text.push_str(std::str::from_utf8(label).unwrap_or_default());
            text.push('.');
        }
        check_no_address(&text)?;
        Ok(Self(text.into()))
    }

    /// The name with its trailing dot.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `*.` stands in front.
    pub fn is_wildcard(&self) -> bool {
        self.0.starts_with("*.")
    }

    /// The wildcard that matches this regular name: `*.example.com.` for `www.example.com.`. `None` for a wildcard, or
    /// if the result is no [`DnsName`].
    pub fn wildcard(&self) -> Option<Self> {
        let (_, parent) = self.0.split_once('.').filter(|_| !self.is_wildcard())?;
        // The parent's labels are valid; only their number needs a check.
        let labels = parent.bytes().filter(|&it| it == b'.').count();
        (labels >= 2).then(|| Self(["*.", parent].concat().into()))
    }

    /// Whether an object of this name covers `name`. A wildcard covers names with exactly one label in the place of
    /// `*`.
    pub fn matches(&self, name: &Self) -> bool {
        self == name
            || (self.is_wildcard()
                && !name.is_wildcard()
                && name.0.split_once('.').map(|(_, parent)| parent) == self.0.strip_prefix("*."))
    }
}

/// Whether this is no IP address, which the CRD's pattern accepts.
fn check_no_address(text: &str) -> Result<(), NameError> {
    let host = text.strip_suffix('.').unwrap_or(text);
    host.parse::<IpAddr>()
        .map_or(Ok(()), |_| Err(NameError::Address))
}

/// Whether the CRD's pattern accepts these labels, which are in lower case.
fn check_labels<'a>(labels: impl Iterator<Item = &'a [u8]>) -> Result<(), NameError> {
    let mut labels = labels.peekable();
    labels.next_if_eq(b"*");
    let mut count = 0;
    for label in labels {
        if label.contains(&b'*') {
            return Err(NameError::Wildcard);
        }
        let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
        if label.is_empty()
            || label.len() > 63
            || !label.iter().all(inner)
            || label.starts_with(b"-")
            || label.ends_with(b"-")
        {
            return Err(NameError::Label(label.escape_ascii().to_string()));
        }
        count += 1;
    }
    if count < 2 {
        return Err(NameError::SingleLabel);
    }
    Ok(())
}

impl TryFrom<&dns::Name> for DnsName {
    type Error = NameError;

    fn try_from(name: &dns::Name) -> Result<Self, NameError> {
        Self::from_wire(name)
    }
}

impl From<&DnsName> for dns::Name {
    /// `*` is an ordinary label on the wire.
    fn from(name: &DnsName) -> Self {
        Self::from_plain(name.as_str())
    }
}

/// Lets maps keyed by [`DnsName`] be searched by `&str`.
impl Borrow<str> for DnsName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for DnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl JsonSchema for DnsName {
    fn schema_name() -> Cow<'static, str> {
        "DnsName".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

impl Serialize for DnsName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Parses it.
impl<'de> Deserialize<'de> for DnsName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(D::Error::custom)
    }
}

impl fmt::Display for DnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name that ovn-kubernetes' cluster manager gives the `DNSNameResolver` of `name`: a hash of the name and of
/// `collisions`. `collisions` is the number of earlier candidates that were taken.
pub fn object_name(name: &DnsName, collisions: u64) -> String {
    // The hashed text is Go's `%#v` dump of a string, as written by Kubernetes' `DeepHashObject`.
    let mut hash = Fnv32::default();
    hash.update(b"(string)");
    hash.update(name.as_str().as_bytes());
    if collisions != 0 {
        hash.update(&collisions.to_le_bytes());
    }
    format!("dns-{}", safe_encode(&hash.0.to_string()))
}

/// `external_ids:k8s.ovn.org/id` of the address set of `name` in one family and network controller.
///
/// `name` is the text of `external_ids:k8s.ovn.org/name`. With `DNSNameResolver`, ovn-kubernetes writes a [`DnsName`]
/// there. Without, it writes the text of the rule.
pub fn address_set_id(owner_controller: &str, name: &str, family: Family) -> String {
    format!("{owner_controller}:{ADDRESS_SET_OWNER_TYPE}:{name}:{family}")
}

/// The `name` column of the address set with this [`address_set_id`]; ACLs refer to it as `$name`.
pub fn address_set_name(id: &str) -> String {
    format!("a{}", Fnv64::default().then(id).0)
}

/// The hash state after the common prefix of all [`address_set_id`]s of a network.
#[derive(Clone, Copy, Debug)]
pub struct AddressSetHasher(Fnv64);

impl AddressSetHasher {
    /// The prefix of the network of this controller.
    pub fn new(owner_controller: &str) -> Self {
        let controller = Fnv64::default().then(owner_controller);
        Self(controller.then(":").then(ADDRESS_SET_OWNER_TYPE).then(":"))
    }

    /// The number after the `a` in the [`address_set_name`] of this name, for each family.
    pub fn numbers(self, name: &str) -> [(Family, u64); 2] {
        let name = self.0.then(name).then(":");
        Family::ALL.map(|family| (family, name.then(family.as_str()).0))
    }
}

/// FNV-1a with 64 bits.
#[derive(Clone, Copy, Debug)]
struct Fnv64(u64);

impl Default for Fnv64 {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv64 {
    fn then(self, text: &str) -> Self {
        Self(text.bytes().fold(self.0, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        }))
    }
}

/// FNV-1a with 32 bits.
struct Fnv32(u32);

impl Default for Fnv32 {
    fn default() -> Self {
        Self(0x811c_9dc5)
    }
}

impl Fnv32 {
    fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }
}

/// `SafeEncodeString` of Kubernetes: an alphabet without vowels, so that no word appears by chance.
fn safe_encode(text: &str) -> String {
    const ALPHABET: [u8; 27] = *b"bcdfghjklmnpqrstvwxz2456789";
    text.bytes()
        .filter_map(|byte| ALPHABET.get(usize::from(byte) % ALPHABET.len()))
        .map(|byte| char::from(*byte))
        .collect()
}

#[cfg(test)]
mod tests;
