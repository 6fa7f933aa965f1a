//! A row of the table `Address_Set` of the northbound database, as small as the writer can use it.

use std::{collections::BTreeSet, net::IpAddr};

use proto::api::{ADDRESS_SET_OWNER_TYPE, DnsName, Family, address_set_id, address_set_name};

use crate::ovsdb::{
    Atom, BaseType, Column, ColumnError, ColumnProblem, ColumnType, Condition, Datum, Record, Row,
    replica,
};

/// The name of the northbound database.
pub const NORTHBOUND: &str = "OVN_Northbound";

/// The table.
pub(crate) const TABLE: &str = "Address_Set";
/// Its column of addresses.
pub(crate) const ADDRESSES: &str = "addresses";
/// Its column of keys and values for those who own a row.
pub(crate) const EXTERNAL_IDS: &str = "external_ids";
const NAME: &str = "name";

/// Keys of `external_ids`: those of ovn-kubernetes, and our own.
const OWNER_CONTROLLER: &str = "k8s.ovn.org/owner-controller";
const OWNER_TYPE: &str = "k8s.ovn.org/owner-type";
const DNS_NAME: &str = "k8s.ovn.org/name";
const IP_FAMILY: &str = "ip-family";
const PRIMARY_ID: &str = "k8s.ovn.org/id";
/// Marks the rows that this program made, and may delete.
const CREATED: &str = "ovn-writer/created";
const CREATED_VALUE: &str = "true";

/// A row.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AddressSet {
    name: Box<str>,
    addresses: BTreeSet<IpAddr>,
    /// Members that are no addresses, or not in the spelling that this program writes.
    others: BTreeSet<Box<str>>,
    /// In the order of the keys.
    external_ids: Vec<(Box<str>, Box<str>)>,
    identity: Option<Identity>,
}

/// What the `external_ids` say that a row is for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// The DNS name, normalised.
    pub name: DnsName,
    /// The family of its addresses.
    pub family: Family,
    /// How the row bears the name.
    pub form: NameForm,
    /// Whether this program made the row.
    pub created_here: bool,
}

/// How a row bears its DNS name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NameForm {
    /// Normalised: ovn-kubernetes leaves the addresses to `DNSNameResolver` objects.
    Fqdn,
    /// As somebody wrote it: ovn-kubernetes looks the name up by itself, and writes its own addresses too.
    AsWritten,
}

impl AddressSet {
    /// The `name` column, to which ACLs refer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The members that are addresses.
    pub fn addresses(&self) -> &BTreeSet<IpAddr> {
        &self.addresses
    }

    /// The members that this program would never write.
    pub fn others(&self) -> &BTreeSet<Box<str>> {
        &self.others
    }

    /// Whether it has no members at all.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.others.is_empty()
    }

    /// Whether the address is a member, however it is written.
    pub fn holds(&self, address: &IpAddr) -> bool {
        self.addresses.contains(address)
            || self
                .others
                .iter()
                .any(|text| address_in(text).as_ref() == Some(address))
    }

    /// What it is for; `None` if its `external_ids` name no DNS name or family that can be.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// The `external_ids` as they stand in the database.
    pub(crate) fn external_ids(&self) -> Datum {
        Datum::string_map(self.external_ids.iter().map(|(k, v)| (&**k, &**v)))
    }

    fn external_id(&self, key: &str) -> Option<&str> {
        let found = self
            .external_ids
            .binary_search_by(|(k, _)| (**k).cmp(key))
            .ok()?;
        self.external_ids.get(found).map(|(_, value)| &**value)
    }

    fn identify(&self) -> Option<Identity> {
        // The server's condition says so too, if it knows conditions.
        if self.external_id(OWNER_TYPE)? != ADDRESS_SET_OWNER_TYPE {
            return None;
        }
        let text = self.external_id(DNS_NAME)?;
        let name = DnsName::parse(text).ok()?;
        let written = self.external_id(IP_FAMILY)?;
        let family = Family::ALL
            .into_iter()
            .find(|family| family.as_str() == written)?;
        let form = if name.as_str() == text {
            NameForm::Fqdn
        } else {
            NameForm::AsWritten
        };
        let created_here = self.external_id(CREATED) == Some(CREATED_VALUE);
        Some(Identity {
            name,
            family,
            form,
            created_here,
        })
    }

    fn toggle_member(&mut self, text: String) {
        match canonical_address(&text) {
            Some(address) => replica::toggle(&mut self.addresses, address),
            None => replica::toggle(&mut self.others, text.into()),
        }
    }
}

/// The address that a member reads as, if it does.
pub(crate) fn address_in(text: &str) -> Option<IpAddr> {
    text.parse().ok().map(proto::address::canonical)
}

/// The address, if the text is exactly how it is written.
fn canonical_address(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    (address.to_string() == text).then_some(address)
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

    fn read(columns: Row) -> Result<Self, ColumnError> {
        let mut row = Self::default();
        row.modify(columns)?;
        Ok(row)
    }

    fn modify(&mut self, difference: Row) -> Result<(), ColumnError> {
        for (column, value) in difference {
            self.modify_column(&column, value)
                .map_err(|problem| problem.of(column))?;
        }
        Ok(())
    }

    fn key(&self) -> Option<DnsName> {
        self.identity.as_ref().map(|identity| identity.name.clone())
    }
}

impl AddressSet {
    fn modify_column(&mut self, column: &str, value: Datum) -> Result<(), ColumnProblem> {
        match column {
            NAME => self.name = value.into_string()?.into(),
            ADDRESSES => {
                let members = value.into_set()?.into_iter().map(Atom::into_string);
                for member in distinct(members.collect::<Result<_, _>>()?)? {
                    self.toggle_member(member);
                }
            }
            EXTERNAL_IDS => {
                for (key, value) in distinct(value.into_string_map()?)? {
                    replica::toggle_pair(&mut self.external_ids, key.into(), value.into());
                }
                self.identity = self.identify();
            }
            _ => return Err(ColumnProblem::Unknown),
        }
        Ok(())
    }
}

/// Elements that differ. The same one twice would undo itself.
fn distinct<T: Ord>(mut elements: Vec<T>) -> Result<Vec<T>, ColumnProblem> {
    elements.sort_unstable();
    let count = elements.len();
    elements.dedup();
    if elements.len() == count {
        Ok(elements)
    } else {
        Err(ColumnProblem::Duplicate)
    }
}

/// The row of a name and family, as ovn-kubernetes would make it, with our own mark.
pub(crate) fn new_row(
    owner_controller: &str,
    name: &DnsName,
    family: Family,
    addresses: &[IpAddr],
) -> Row {
    let id = address_set_id(owner_controller, name.as_str(), family);
    let set_name = address_set_name(&id);
    let external_ids = [
        (OWNER_CONTROLLER, owner_controller),
        (OWNER_TYPE, ADDRESS_SET_OWNER_TYPE),
        (DNS_NAME, name.as_str()),
        (IP_FAMILY, family.as_str()),
        (PRIMARY_ID, &id),
        (CREATED, CREATED_VALUE),
    ];
    Row::from([
        (NAME.to_owned(), Datum::from(set_name.as_str())),
        (
            ADDRESSES.to_owned(),
            Datum::strings(addresses.iter().map(IpAddr::to_string)),
        ),
        (EXTERNAL_IDS.to_owned(), Datum::string_map(external_ids)),
    ])
}

#[cfg(test)]
mod tests;
