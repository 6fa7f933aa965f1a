//! Changes of the northbound database by `ovn-nbctl`, in ovn-kubernetes' form.

use proto::api::{DEFAULT_NETWORK_CONTROLLER, Family, address_set_id};

use super::set_name;
use crate::northbound::Northbound;

impl Northbound {
    /// Creates an address set of a DNS name, without our mark. `addresses` has the form for `ovn-nbctl`; `[]` for none.
    ///
    /// # Panics
    /// If the server refuses it, like all functions here.
    pub fn create_set(&self, set_name: &str, name: &str, family: Family, addresses: &str) {
        let columns = [
            format!("name={set_name}"),
            "external_ids:k8s.ovn.org/owner-type=EgressFirewallDNS".to_owned(),
            "external_ids:k8s.ovn.org/owner-controller=default-network-controller".to_owned(),
            format!("external_ids:k8s.ovn.org/name=\"{name}\""),
            format!("external_ids:ip-family={family}"),
            format!(
                "external_ids:k8s.ovn.org/id=\"{}\"",
                address_set_id(DEFAULT_NETWORK_CONTROLLER, name, family)
            ),
            format!("addresses={addresses}"),
        ];
        let columns = columns.iter().map(String::as_str);
        let args: Vec<_> = ["create", "Address_Set"]
            .into_iter()
            .chain(columns)
            .collect();
        self.nbctl(&args).unwrap();
    }

    /// Creates an ACL of the namespace `team` for both sets of each name, in ovn-kubernetes' form for `Allow` rules, with
    /// its owner if it is `owned`. Returns their uuids, in this order.
    pub fn create_acls(&self, names: &[String], owned: bool) -> Vec<String> {
        let mut uuids = Vec::new();
        // The length of a command line is limited.
        for names in names.chunks(100) {
            let mut args: Vec<String> = ["--may-exist", "ls-add", "switch"]
                .map(str::to_owned)
                .into();
            for (index, name) in names.iter().enumerate() {
                let [v4, v6] = Family::ALL.map(|family| set_name(name, family));
                let sets = format!("ip4.dst == ${v4} || ip6.dst == ${v6}");
                let rule = format!("match=\"({sets}) && inport == @a9\"");
                let id = format!("@acl{index}");
                args.extend(["--".to_owned(), format!("--id={id}")]);
                args.extend(["create", "ACL", "direction=to-lport"].map(str::to_owned));
                args.extend(["action=allow", "priority=10000"].map(str::to_owned));
                args.push(rule);
                if owned {
                    args.extend(OWNER.map(str::to_owned));
                }
                let add = ["--", "add", "Logical_Switch", "switch", "acls"];
                args.extend(add.map(str::to_owned));
                args.push(id);
            }
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let output = self.nbctl(&args).unwrap();
            uuids.extend(output.split_whitespace().map(str::to_owned));
        }
        assert_eq!(uuids.len(), names.len());
        uuids
    }

    /// Deletes such ACLs, a hundred in each transaction.
    pub fn remove_acls(&self, uuids: &[String]) {
        for uuids in uuids.chunks(100) {
            let uuids = uuids.iter().map(String::as_str);
            let args = ["remove", "Logical_Switch", "switch", "acls"].into_iter();
            let args: Vec<&str> = args.chain(uuids).collect();
            self.nbctl(&args).unwrap();
        }
    }
}

/// The owner of a rule of the namespace `team`.
const OWNER: [&str; 3] = [
    "external_ids:k8s.ovn.org/owner-controller=default-network-controller",
    "external_ids:k8s.ovn.org/owner-type=EgressFirewall",
    "external_ids:k8s.ovn.org/name=team",
];
