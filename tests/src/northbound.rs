//! A real `ovsdb-server` with OVN's northbound schema, read by OVN's own `ovn-nbctl`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
    process::Command,
};

use proto::api::Family;
use serde_json::Value;

use crate::{
    ovn,
    ovsdb_server::{NORTHBOUND, OvsdbServer, create, run},
    process::Process,
};

/// The name of its files.
const NAME: &str = "nb";

#[derive(Debug)]
pub struct Northbound(OvsdbServer);

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Row {
    pub uuid: String,
    /// `name`, which ACLs refer to.
    pub name: String,
    /// `addresses`, as written.
    pub addresses: BTreeSet<String>,
    pub external_ids: BTreeMap<String, String>,
}

impl Northbound {
    /// Creates an empty database in the folder and starts its server.
    pub async fn start(folder: &Path) -> Self {
        create(folder, NAME, NORTHBOUND);
        Self(OvsdbServer::start(folder, NAME, &[]).await)
    }

    /// Starts the server of the same database again.
    pub async fn restart(&mut self) {
        self.0.restart().await;
    }

    /// The remote for `--nb` and `--db`.
    pub fn remote(&self) -> String {
        self.0.remote()
    }

    /// The folder of its files and sockets.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.0.process
    }

    /// All `Address_Set` rows.
    ///
    /// # Errors
    /// The error of `ovn-nbctl`.
    pub fn rows(&self) -> Result<Vec<Row>, String> {
        rows(&self.0.folder)
    }

    /// The rows of a DNS name in a family, of any owner.
    ///
    /// # Errors
    /// The error of `ovn-nbctl`.
    pub fn sets(&self, name: &str, family: Family) -> Result<Vec<Row>, String> {
        let mut rows = self.rows()?;
        rows.retain(|row| row.is_of(name, family));
        Ok(rows)
    }

    /// Runs `ovn-nbctl` and returns its output.
    ///
    /// # Errors
    /// Its error.
    pub fn nbctl(&self, args: &[&str]) -> Result<String, String> {
        nbctl(&self.0.folder, args)
    }
}

/// All `Address_Set` rows of the database in a folder.
///
/// # Errors
/// The error of `ovn-nbctl`.
pub fn rows(folder: &Path) -> Result<Vec<Row>, String> {
    read_rows(&nbctl(folder, &["--format=json", "list", "Address_Set"])?)
}

/// Parses the output of `ovn-nbctl --format=json list Address_Set`: headings, and OVSDB values (RFC 7047, section 5.1).
///
/// # Errors
/// The output is no JSON.
pub fn read_rows(output: &str) -> Result<Vec<Row>, String> {
    let table: Value = serde_json::from_str(output).map_err(|error| error.to_string())?;
    let headings = items(&table["headings"]);
    let rows = items(&table["data"]).iter().map(|line| {
        let column = |name: &str| &line[headings.iter().position(|it| it == name).unwrap_or(0)];
        Row {
            uuid: column("_uuid")[1].as_str().unwrap_or_default().to_owned(),
            name: column("name").as_str().unwrap_or_default().to_owned(),
            addresses: read_set(column("addresses")),
            external_ids: read_map(column("external_ids")),
        }
    });
    Ok(rows.collect())
}

pub(crate) fn nbctl(folder: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(ovn::program("ovn-nbctl"));
    command.args(["--no-leader-only", "--timeout=30"]);
    command.arg(format!("--db={}", remote(folder)));
    run(command.args(args)).map(|it| it.trim().to_owned())
}

/// The remote of the database in a folder, running or not.
pub fn remote(folder: &Path) -> String {
    format!("unix:{}", folder.join(format!("{NAME}.sock")).display())
}

impl Row {
    /// Whether it is an address set of this DNS name and family.
    pub fn is_of(&self, name: &str, family: Family) -> bool {
        let id = |key: &str| self.external_ids.get(key).map(String::as_str);
        id("k8s.ovn.org/owner-type") == Some("EgressFirewallDNS")
            && id("k8s.ovn.org/name") == Some(name)
            && id("ip-family") == Some(family.as_str())
    }

    /// The DNS name of the set.
    pub fn dns_name(&self) -> Option<&str> {
        self.external_ids
            .get("k8s.ovn.org/name")
            .map(String::as_str)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<&str> = self.addresses.iter().map(String::as_str).collect();
        write!(f, "{}: {}", self.name, addresses.join(" "))
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(crate) fn read_map(value: &Value) -> BTreeMap<String, String> {
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    items(&value[1])
        .iter()
        .map(|pair| (string(&pair[0]), string(&pair[1])))
        .collect()
}

/// A set of strings; a set of one element has no brackets.
pub(crate) fn read_set(value: &Value) -> BTreeSet<String> {
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match value {
        Value::String(one) => BTreeSet::from([one.clone()]),
        _ => items(&value[1]).iter().map(string).collect(),
    }
}
