//! What tests write to the northbound database by hand, as ovn-kubernetes would, by `ovn-nbctl`.

use proto::api::{DEFAULT_NETWORK_CONTROLLER, Family, address_set_id};

use crate::northbound::Northbound;

impl Northbound {
    /// Makes an address set of a DNS name, without our mark. `addresses` as `ovn-nbctl` wants them; `[]` for none.
    ///
    /// # Panics
    /// If the server refuses it, as with everything here.
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

    /// Makes a set that is not for DNS names, by which ovn-kubernetes shows.
    pub fn create_namespace_set(&self) {
        let columns = [
            "name=a77",
            "external_ids:k8s.ovn.org/owner-type=Namespace",
            "external_ids:k8s.ovn.org/owner-controller=default-network-controller",
            "external_ids:k8s.ovn.org/name=team",
        ];
        let args = [&["create", "Address_Set"], &columns[..]].concat();
        self.nbctl(&args).unwrap();
    }

    /// Makes the ACL of a rule of the namespace `team`, as ovn-kubernetes makes it, and says whose it is if it is `owned`.
    /// Returns its uuid.
    pub fn create_acl(&self, action: &str, priority: u16, sets: &[&str], owned: bool) -> String {
        let rule = match_of(sets);
        let (action, priority) = (format!("action={action}"), format!("priority={priority}"));
        let mut args = vec![
            "--id=@acl",
            "create",
            "ACL",
            "direction=to-lport",
            &action,
            &priority,
            &rule,
        ];
        let owner = [
            "external_ids:k8s.ovn.org/owner-controller=default-network-controller",
            "external_ids:k8s.ovn.org/owner-type=EgressFirewall",
            "external_ids:k8s.ovn.org/name=team",
        ];
        if owned {
            args.extend(owner);
        }
        // A rule must be somewhere, or the server takes it away.
        let switch = ["--may-exist", "ls-add", "switch", "--"];
        let add = ["--", "add", "Logical_Switch", "switch", "acls", "@acl"];
        let whole = [&switch[..], &args, &add].concat();
        self.nbctl(&whole).unwrap()
    }

    /// Makes an ACL refer to other sets, as ovn-kubernetes does that finds its own rule in another form.
    pub fn turn_acl(&self, uuid: &str, sets: &[&str]) {
        self.nbctl(&["set", "ACL", uuid, &match_of(sets)]).unwrap();
    }

    /// Takes such an ACL away.
    pub fn remove_acl(&self, uuid: &str) {
        let args = ["remove", "Logical_Switch", "switch", "acls", uuid];
        self.nbctl(&args).unwrap();
    }
}

/// The column of a rule for these sets.
fn match_of(sets: &[&str]) -> String {
    let sets: Vec<_> = sets
        .iter()
        .map(|set| format!("ip4.dst == ${set}"))
        .collect();
    format!("match=\"({}) && inport == @a9\"", sets.join(" || "))
}
