//! Crosses out addresses of clients, and secrets.
//!
//! Any address may be that of a client. So only known addresses stay: those of the programs, of DNS servers and Services, and those of
//! names in rules.

use std::{
    cmp::Reverse,
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4},
};

use runtime::inspect::text::{json, printable};
use serde_json::Value;

const ADDRESS: &str = "[address]";
const SECRET: &str = "[secret]";
const VALUE: &str = "[value]";

/// The addresses that stay, and the secrets that go.
#[derive(Debug, Default)]
pub(super) struct Redaction {
    pub(super) known: BTreeSet<IpAddr>,
    pub(super) secrets: BTreeSet<String>,
}

impl Redaction {
    pub(super) fn apply(&self, text: &str) -> String {
        let mut without = text.to_owned();
        for form in self.forms_of_secrets() {
            without = without.replace(&form, SECRET);
        }
        self.without_addresses(&without)
    }

    /// The secrets as they may stand in a file: plain, and escaped as in JSON, or as in JSON inside of JSON. The longest come first, since
    /// one may be a part of another.
    fn forms_of_secrets(&self) -> Vec<String> {
        let forms = self.secrets.iter().flat_map(|secret| {
            let once = [in_json(secret), in_ascii_json(secret)];
            let twice = once.clone().map(|once| in_json(&once));
            let plain = [secret.clone(), printable(secret)];
            plain.into_iter().chain(once).chain(twice)
        });
        let forms: BTreeSet<String> = forms.collect();
        let mut forms: Vec<String> = forms.into_iter().collect();
        forms.sort_by_key(|form| Reverse(form.len()));
        forms
    }

    fn without_addresses(&self, text: &str) -> String {
        let is_part = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.');
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(is_part) {
            let (front, found) = rest.split_at(start);
            out.push_str(front);
            let end = found.find(|c| !is_part(c)).unwrap_or(found.len());
            let (word, behind) = found.split_at(end);
            match is_apart(&out, word, behind) && self.is_client(word, behind) {
                true => out.push_str(ADDRESS),
                false => out.push_str(word),
            }
            rest = behind;
        }
        out.push_str(rest);
        out
    }

    /// Whether a word is an address that may be a client's, with or without a port.
    fn is_client(&self, word: &str, behind: &str) -> bool {
        let word = word.trim_end_matches(['.', ':']);
        let address = word.parse::<SocketAddr>().map(|it| it.ip());
        let Ok(address) = address.or_else(|_| word.parse::<IpAddr>()) else {
            return false;
        };
        let address = address.to_canonical();
        !address.is_unspecified()
            && !address.is_loopback()
            && !is_network(address, behind)
            && !self.known.contains(&address)
    }
}

/// The text as it stands between the quotes of JSON.
fn in_json(text: &str) -> String {
    without_quotes(&Value::from(text).to_string())
}

/// The same, as the programs write it: in ASCII.
fn in_ascii_json(text: &str) -> String {
    // A text always has a form in JSON.
    json(&text).map_or_else(|_| text.to_owned(), |it| without_quotes(&it))
}

fn without_quotes(text: &str) -> String {
    let inner = text.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    inner.unwrap_or(text).to_owned()
}

/// Whether a word is not part of a longer one, such as a path of modules. An address of IPv4 is one anywhere.
fn is_apart(before: &str, word: &str, behind: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_escape = ["\\n", "\\r", "\\t"].iter().any(|it| before.ends_with(it));
    let is_v4 = word.parse::<Ipv4Addr>().is_ok() || word.parse::<SocketAddrV4>().is_ok();
    is_v4 || is_escape || !(before.ends_with(is_word) || behind.starts_with(is_word))
}

/// Whether the length of a prefix follows that has room for several addresses.
fn is_network(address: IpAddr, behind: &str) -> bool {
    let length = behind.strip_prefix('/').unwrap_or_default();
    let end = length
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(length.len());
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let (length, _) = length.split_at(end);
    length.parse::<u32>().is_ok_and(|length| length < longest)
}

/// The containers that the chart does not have: other programs add them, with arguments of their own.
const FOREIGN: [&str; 2] = ["initContainers", "ephemeralContainers"];

/// Crosses out the values of variables and the arguments of foreign containers, and removes copies of objects in their metadata.
pub(super) fn without_values(object: &mut Value) {
    match object {
        Value::Object(fields) => {
            for kind in FOREIGN {
                let containers = fields.get_mut(kind).and_then(Value::as_array_mut);
                containers.into_iter().flatten().for_each(without_arguments);
            }
            fields.remove("managedFields");
            fields.remove("kubectl.kubernetes.io/last-applied-configuration");
            for variable in fields
                .get_mut("env")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                let is_ours = variable
                    .get("name")
                    .and_then(Value::as_str)
                    .is_some_and(|name| name.starts_with("EGRESS_"));
                if let Some(value) = variable.get_mut("value").filter(|_| !is_ours) {
                    *value = VALUE.into();
                }
            }
            fields.values_mut().for_each(without_values);
        }
        Value::Array(values) => values.iter_mut().for_each(without_values),
        _ => {}
    }
}

fn without_arguments(container: &mut Value) {
    for list in ["command", "args"] {
        let words = container.get_mut(list).and_then(Value::as_array_mut);
        for word in words.into_iter().flatten() {
            *word = VALUE.into();
        }
    }
}

/// Adds the addresses of names: the texts of fields that are called so.
pub(super) fn addresses_of_names(answer: &Value, known: &mut BTreeSet<IpAddr>) {
    let mut add = |value: &Value| {
        let address = value.as_str().and_then(|text| text.parse::<IpAddr>().ok());
        known.extend(address.map(|address| address.to_canonical()));
    };
    match answer {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("address", value) => add(value),
                    ("addresses", Value::Array(values)) => values.iter().for_each(&mut add),
                    _ => {}
                }
            }
            fields
                .values()
                .for_each(|value| addresses_of_names(value, known));
        }
        Value::Array(values) => values
            .iter()
            .for_each(|value| addresses_of_names(value, known)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_of_clients_and_secrets_go_and_the_rest_stays() {
        let redaction = Redaction {
            known: ["192.0.2.10", "2001:db8::10"]
                .map(|it| it.parse().unwrap())
                .into(),
            secrets: BTreeSet::from(["hunter2".to_owned()]),
        };
        for (text, expected) in [
            (
                "from 10.244.1.7:40000, 10.244.1.7.",
                "from [address], [address]",
            ),
            (
                "\"192.0.2.10\" [2001:db8::10]:53",
                "\"192.0.2.10\" [2001:db8::10]:53",
            ),
            ("[2001:db8::7]:53 fd00::7", "[[address]]:53 [address]"),
            ("::ffff:10.244.1.7", "[address]"),
            (
                "runtime::admin at 127.0.0.1:9092 [::]:6000",
                "runtime::admin at 127.0.0.1:9092 [::]:6000",
            ),
            (
                "08:02:41.447 v1.36.3 0.1.0 10.244.0.0/16 10.244.1.7/32",
                "08:02:41.447 v1.36.3 0.1.0 10.244.0.0/16 [address]/32",
            ),
            (r#"a\n10.244.1.7\nfd00::7"#, r#"a\n[address]\n[address]"#),
            ("extra hunter2", "extra [secret]"),
        ] {
            assert_eq!(redaction.apply(text), expected, "{text}");
        }
    }

    #[test]
    fn secrets_with_quotes_are_found_in_json_and_in_json_inside_of_json() {
        let secret = r#"hun"ter\2é"#;
        let redaction = Redaction {
            known: BTreeSet::new(),
            secrets: [secret, "hun"].map(str::to_owned).into(),
        };
        let log = json!({ "x": secret }).to_string();
        let written = super::json(&json!({ "x": secret })).unwrap();
        for text in [log.clone(), written] {
            assert_eq!(redaction.apply(&text), r#"{"x":"[secret]"}"#, "{text}");
        }
        let twice = json!({ "x": log }).to_string();
        let expected = r#"{"x":"{\"x\":\"[secret]\"}"}"#;
        assert_eq!(redaction.apply(&twice), expected);
        for text in [secret.to_owned(), printable(secret)] {
            assert_eq!(redaction.apply(&text), SECRET, "{text}");
        }
    }

    #[test]
    fn arguments_of_containers_that_the_chart_does_not_have_are_left_out() {
        let mut pod = json!({ "spec": {
            "containers": [{ "name": "c", "command": ["collector"], "args": ["--store=kube"] }],
            "initContainers": [{ "name": "i", "command": ["sh"], "args": ["-c", "login hunter2"] }],
            "ephemeralContainers": [{ "name": "e", "args": ["hunter2"] }],
        }});
        without_values(&mut pod);
        let expected = json!({ "spec": {
            "containers": [{ "name": "c", "command": ["collector"], "args": ["--store=kube"] }],
            "initContainers": [{ "name": "i", "command": [VALUE], "args": [VALUE, VALUE] }],
            "ephemeralContainers": [{ "name": "e", "args": [VALUE] }],
        }});
        assert_eq!(pod, expected);
    }

    #[test]
    fn values_of_variables_and_copies_of_objects_are_left_out() {
        let mut pod = json!({
            "metadata": { "managedFields": [1], "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b" } },
            "spec": { "containers": [{ "env": [
                { "name": "TOKEN", "value": "x" },
                { "name": "EGRESS_COLLECTOR", "value": "tcp://127.0.0.1:9092" },
                { "name": "POD_NAME", "valueFrom": {} },
            ]}]},
        });
        without_values(&mut pod);
        let env = &pod["spec"]["containers"][0]["env"];
        assert_eq!(env[0]["value"], VALUE);
        assert_eq!(env[1]["value"], "tcp://127.0.0.1:9092");
        assert_eq!(pod["metadata"], json!({ "annotations": { "a": "b" } }));
    }

    #[test]
    fn addresses_of_names_are_found_at_any_depth() {
        let answer = json!({ "names": [{ "addresses": [{ "address": "192.0.2.1", "firstClient": "10.0.0.1" }] }], "sets": [{ "addresses": ["192.0.2.2"] }] });
        let mut known = BTreeSet::new();
        addresses_of_names(&answer, &mut known);
        let expected = ["192.0.2.1", "192.0.2.2"].map(|it| it.parse().unwrap());
        assert_eq!(known, expected.into());
    }
}
