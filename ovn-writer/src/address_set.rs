//! A row of the table `Address_Set` of the northbound database, reduced to save memory.

use std::{collections::BTreeSet, net::IpAddr};

use ovsdb_replica::{
    Atom, BaseType, Column, ColumnProblem, ColumnType, Condition, Datum, Function, Operation,
    Record, Row, replica, transact::OperationResult,
};
use proto::api::{ADDRESS_SET_OWNER_TYPE, DnsName, Family, address_set_id, address_set_name};
use smol_str::{SmolStr, ToSmolStr};
use uuid::Uuid;

use crate::{
    addresses::{Addresses, AddressesRef},
    external_ids::{EXTERNAL_IDS, Kept, OWNER_CONTROLLER, OWNER_NAME, OWNER_TYPE, distinct},
};

/// The name of the northbound database.
pub const NORTHBOUND: &str = "OVN_Northbound";

pub(crate) const TABLE: &str = "Address_Set";
pub(crate) const ADDRESSES: &str = "addresses";
const NAME: &str = "name";

/// Keys of `external_ids`: two more of ovn-kubernetes, and our own.
const IP_FAMILY: &str = "ip-family";
const PRIMARY_ID: &str = "k8s.ovn.org/id";
/// Marks the rows created by this program, with their store.
const CREATED: &str = "ovn-writer/created";
/// Marks rows that this program created in a database managed by ovn-kubernetes.
const MANAGED: &str = "ovn-writer/managed";
const MANAGED_YES: &str = "true";

/// The used keys.
const KEYS: [&str; 6] = [
    OWNER_TYPE,
    OWNER_NAME,
    IP_FAMILY,
    OWNER_CONTROLLER,
    CREATED,
    MANAGED,
];

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AddressSet {
    name: Box<str>,
    addresses: Addresses,
    /// Members that are no addresses, or not in this program's spelling; `None` if there are none.
    #[expect(
        clippy::box_collection,
        reason = "an empty set takes three words, and almost all are"
    )]
    others: Option<Box<BTreeSet<Box<str>>>>,
    external_ids: Kept<6>,
    identity: Option<Identity>,
    is_well_named: bool,
}

/// The purpose of a row, from its `external_ids`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// The DNS name, normalised.
    pub name: DnsName,
    pub family: Family,
    /// The form of the name in the row.
    pub form: NameForm,
}

/// The form of a DNS name in a row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NameForm {
    /// Normalised: ovn-kubernetes leaves the addresses to `DNSNameResolver` objects.
    Fqdn,
    /// As in the rule: ovn-kubernetes looks the name up itself, and also writes its own addresses.
    AsWritten,
}

impl AddressSet {
    /// The `name` column, to which ACLs refer.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn addresses(&self) -> AddressesRef<'_> {
        self.addresses.all()
    }

    /// The members that this program would never write.
    pub fn others(&self) -> &BTreeSet<Box<str>> {
        static NONE: BTreeSet<Box<str>> = BTreeSet::new();
        self.others.as_deref().unwrap_or(&NONE)
    }

    /// Whether it has no members at all.
    pub fn is_empty(&self) -> bool {
        self.addresses().is_empty() && self.others().is_empty()
    }

    /// Whether the address is a member, in any spelling.
    pub fn holds(&self, address: &IpAddr) -> bool {
        self.addresses().contains(*address)
            || self
                .others()
                .iter()
                .any(|text| address_in(text).as_ref() == Some(address))
    }

    /// The row's purpose; `None` if its `external_ids` have no valid DNS name or family.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Whether its `name` is the one by which rules of its controller refer to a set of this
    /// [identity](AddressSet::identity).
    pub fn is_well_named(&self) -> bool {
        self.is_well_named
    }

    /// `k8s.ovn.org/owner-controller`, if there is one.
    pub fn controller(&self) -> Option<&str> {
        self.external_ids.get(3)
    }

    /// The store for which this program created the row; `None` if another program did.
    pub fn store(&self) -> Option<&str> {
        self.external_ids.get(4)
    }

    /// Whether this program created it for this store.
    pub fn is_made_for(&self, store: &str) -> bool {
        self.store() == Some(store)
    }

    /// Whether this program created it in a database managed by ovn-kubernetes.
    pub fn is_marked_managed(&self) -> bool {
        self.external_ids.get(5) == Some(MANAGED_YES)
    }

    fn has_its_name(&self) -> bool {
        let of_identity = self.controller().zip(self.identity());
        of_identity.is_some_and(|(controller, identity)| {
            let id = address_set_id(controller, identity.name.as_str(), identity.family);
            identity.form == NameForm::Fqdn && *self.name == *address_set_name(&id)
        })
    }

    fn identify(&self) -> Option<Identity> {
        // The monitor has the same condition, but an old server ignores conditions.
        if self.external_ids.get(0)? != ADDRESS_SET_OWNER_TYPE {
            return None;
        }
        let text = self.external_ids.get(1)?;
        let name = DnsName::parse(text).ok()?;
        let written = self.external_ids.get(2)?;
        let family = Family::ALL
            .into_iter()
            .find(|family| family.as_str() == written)?;
        let form = if name.as_str() == text {
            NameForm::Fqdn
        } else {
            NameForm::AsWritten
        };
        Some(Identity { name, family, form })
    }

    /// Applies a difference of the members, each of which must occur once.
    fn toggle_members(&mut self, texts: &[&str]) {
        let mut addresses = Vec::with_capacity(texts.len());
        let mut others = self.others.take().unwrap_or_default();
        for text in texts {
            match canonical_address(text) {
                Some(address) => addresses.push(address),
                None => replica::toggle(&mut others, (*text).into()),
            }
        }
        self.others = (!others.is_empty()).then_some(others);
        self.addresses.toggle(&addresses.into_iter().collect());
    }
}

/// The address of a member; `None` if it is no address.
pub(crate) fn address_in(text: &str) -> Option<IpAddr> {
    text.parse().ok().map(proto::address::canonical)
}

/// The address, if the text is its canonical form.
fn canonical_address(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    // The parser accepts no other spelling of an IPv4 address.
    (address.is_ipv4() || address.to_smolstr() == text).then_some(address)
}

impl Record for AddressSet {
    const TABLE: &'static str = TABLE;
    const COLUMNS: &'static [Column] = &[
        Column::required(
            EXTERNAL_IDS,
            ColumnType::Map(BaseType::String, BaseType::String),
        ),
        Column::required(ADDRESSES, ColumnType::Set(BaseType::String)),
        Column::required(NAME, ColumnType::One(BaseType::String)),
    ];
    type Key = DnsName;

    fn conditions() -> Vec<Condition> {
        vec![Condition::has_pair(
            EXTERNAL_IDS,
            OWNER_TYPE,
            ADDRESS_SET_OWNER_TYPE,
        )]
    }

    fn modify_column(&mut self, column: &str, difference: Datum) -> Result<(), ColumnProblem> {
        match column {
            NAME => self.name = difference.into_string()?.as_str().into(),
            ADDRESSES => {
                let members = difference.into_set()?;
                let texts = members.iter().map(Atom::text);
                self.toggle_members(&distinct(texts.collect::<Result<_, _>>()?)?);
                return Ok(());
            }
            EXTERNAL_IDS => {
                self.external_ids.modify(&KEYS, difference)?;
                self.identity = self.identify();
            }
            _ => return Err(ColumnProblem::Unknown),
        }
        self.is_well_named = !self.name.is_empty() && self.has_its_name();
        Ok(())
    }

    fn key(&self) -> Option<DnsName> {
        self.identity.as_ref().map(|identity| identity.name.clone())
    }
}

/// The conditions for a row with this `_uuid` that this program still owns for this store.
pub(crate) fn made_for(store: &str, uuid: Uuid) -> Vec<Condition> {
    let mark = Condition::has_pair(EXTERNAL_IDS, CREATED, store);
    vec![Condition::uuid(uuid), mark]
}

/// Refuses the transaction if a row exists with the name for this DNS name and family.
pub(crate) fn is_absent(name: &DnsName, owner_controller: &str, family: Family) -> Operation {
    let id = address_set_id(owner_controller, name.as_str(), family);
    let set_name = Datum::from(address_set_name(&id).as_str());
    let has_name = Condition(NAME.into(), Function::Equal, set_name);
    Operation::wait_for_none(TABLE, vec![has_name])
}

/// Reads the names of all rows, of any owner.
pub(crate) fn select_names() -> Operation {
    Operation::Select {
        table: TABLE.into(),
        filter: Vec::new(),
        columns: vec![SmolStr::new_static(NAME)],
    }
}

/// The names in the answer to [`select_names`].
pub(crate) fn names_in(result: &OperationResult) -> impl Iterator<Item = &str> {
    let rows = result.rows.iter().flatten();
    rows.filter_map(|row| match row.get(NAME) {
        Some(Datum::Atom(Atom::String(name))) => Some(name.as_str()),
        _ => None,
    })
}

/// The row of a name and family, as ovn-kubernetes would create it, with our own marks: the store, and whether
/// ovn-kubernetes manages the database.
pub(crate) fn new_row(
    (store, is_managed): (&str, bool),
    owner_controller: &str,
    name: &DnsName,
    family: Family,
    addresses: &[IpAddr],
) -> Row {
    let id = address_set_id(owner_controller, name.as_str(), family);
    let set_name = address_set_name(&id);
    let managed = is_managed.then_some((MANAGED, MANAGED_YES));
    let external_ids = [
        (OWNER_CONTROLLER, owner_controller),
        (OWNER_TYPE, ADDRESS_SET_OWNER_TYPE),
        (OWNER_NAME, name.as_str()),
        (IP_FAMILY, family.as_str()),
        (PRIMARY_ID, &id),
        (CREATED, store),
    ];
    let external_ids = external_ids.into_iter().chain(managed);
    Row::from([
        (NAME.into(), Datum::from(set_name.as_str())),
        (
            ADDRESSES.into(),
            Datum::strings(addresses.iter().map(IpAddr::to_smolstr)),
        ),
        (EXTERNAL_IDS.into(), Datum::string_map(external_ids)),
    ])
}

#[cfg(test)]
mod tests;
