//! The faults, and what a person is told of each.

use tests::faults::Fault;

/// A name with an address in OVN.
const THERE: Fault = Fault {
    fault: "",
    about: "www.example.com",
    check: "",
    list: "www.example.com.…192.0.2.10",
    explain: "www.example.com. is there, with 1 address.",
    page: "",
};

/// In the order in which a test makes them.
pub(super) const TABLE: &[Fault] = &[
    Fault {
        fault: "NXDOMAIN",
        about: "missing.example.com",
        check: "✗ Rules and names: missing.example.com.: no address: the DNS server answered NXDOMAIN",
        list: "missing.example.com.…NXDOMAIN",
        explain: "- the DNS server answered NXDOMAIN",
        page: "missing.example.com.: no address: the DNS server answered NXDOMAIN",
    },
    Fault {
        fault: "SERVFAIL",
        about: "servfail.up.test",
        check: "✗ Rules and names: servfail.up.test.: no address: the DNS server answered SERVFAIL",
        list: "servfail.up.test.…SERVFAIL",
        explain: "- the DNS server answered SERVFAIL",
        page: "servfail.up.test.: no address: the DNS server answered SERVFAIL",
    },
    Fault {
        fault: "REFUSED",
        about: "refused.up.test",
        check: "✗ Rules and names: refused.up.test.: no address: the DNS server answered REFUSED",
        list: "refused.up.test.…REFUSED",
        explain: "- the DNS server answered REFUSED",
        page: "refused.up.test.: no address: the DNS server answered REFUSED",
    },
    Fault {
        fault: "timeout",
        about: "slow.up.test",
        check: "✗ Rules and names: slow.up.test.: no address: the DNS server did not answer in time",
        list: "slow.up.test.…Timeout",
        explain: "- the DNS server did not answer in time",
        page: "slow.up.test.: no address: the DNS server did not answer in time",
    },
    Fault {
        fault: "guarded address",
        about: "local.example.com",
        check: "✗ Rules and names: local.example.com.: no address: the guard `loopback` refuses its addresses",
        list: "local.example.com.…Guarded",
        explain: "- the guard `loopback` refuses its addresses",
        page: "local.example.com.: no address: the guard `loopback` refuses its addresses",
    },
    Fault {
        fault: "addresses over a cap",
        about: "many.example.com",
        check: "✗ Rules and names: many.example.com.: 10 addresses were left out at a cap",
        list: "! problems of the collector: …; egress check names them",
        explain: "- many.example.com.: 10 addresses were left out at a cap: they are closed",
        page: "many.example.com.: 10 addresses were left out at a cap",
    },
    Fault {
        fault: "wildcards over a cap",
        about: "*.w100.example.com",
        check: "✗ Rules and names: *.w100.example.com.: it is left out: its namespaces have too many names",
        list: "*.w100.example.com.…LimitExceeded",
        explain: "- *.w100.example.com.: it is left out: its namespaces have more names or wildcards in rules than they may",
        page: "namespace many: it is at a cap: it has 0 addresses of names, and 1 names are left out",
    },
    Fault {
        fault: "name that no rule can have",
        about: "a_b.example.com",
        check: "✗ Rules and names: EgressFirewall team/default: 3 rules have no effect…\"a_b.example.com\" (label",
        list: "! problems of the collector: …; egress check names them",
        explain: "- a rule of team/default has it, but has no effect: \"a_b.example.com\" (label",
        page: "EgressFirewall team/default: 3 rules have no effect…\"a_b.example.com\" (label",
    },
    Fault {
        fault: "address in place of a name",
        about: "192.0.2.7",
        check: "✗ Rules and names: EgressFirewall team/default: 3 rules have no effect…\"192.0.2.7\" (it is an address: use cidrSelector)",
        list: "! problems of the collector: …; egress check names them",
        explain: "- a rule of team/default has it, but has no effect: \"192.0.2.7\" (it is an address: use cidrSelector)",
        page: "EgressFirewall team/default: 3 rules have no effect…\"192.0.2.7\" (it is an address: use cidrSelector)",
    },
    Fault {
        fault: "set without a rule",
        about: "unruled.example.com",
        check: "✗ Address sets: unruled.example.com.: no rule in OVN's database refers to its sets, so they pass no packets",
        list: "unruled.example.com.…192.0.2.11…1/1 no rule",
        explain: "- no rule refers to the sets that have it, so they pass no packets",
        page: "unreferenced: unruled.example.com.",
    },
    Fault {
        fault: "misspelt field",
        about: "misspelt.example.com",
        check: "✗ Rules and names: EgressFirewall …/misspelt.yaml: …unknown field `spec.egress.0.to.dnsname` has no effect",
        list: "! problems of the collector: …; egress check names them",
        explain: "- the EgressFirewall …/misspelt.yaml has a fault…unknown field `spec.egress.0.to.dnsname`",
        page: "EgressFirewall …/misspelt.yaml: …unknown field `spec.egress.0.to.dnsname` has no effect",
    },
    Fault {
        fault: "unreadable rule file",
        about: "unread.example.com",
        check: "✗ Rules and names: EgressFirewall …/rules.yaml: unclosed bracket '['",
        list: "! problems of the collector: …; egress check names them",
        explain: "- the EgressFirewall …/rules.yaml has a fault, so some of its rules are unknown: unclosed bracket '['",
        page: "EgressFirewall …/rules.yaml: unclosed bracket '['",
    },
    Fault {
        fault: "unreadable object",
        check: "✗ Rules and names: DNSNameResolver …/broken.yaml: unclosed bracket '[' at line 1",
        page: "DNSNameResolver …/broken.yaml: unclosed bracket '[' at line 1",
        ..THERE
    },
    Fault {
        fault: "database down",
        check: "✗ ovn-writers: northbound: unix:…: cannot connect: Connection refused",
        list: "www.example.com.…192.0.2.10…0/1",
        explain: "- there is no session with the northbound database",
        page: "northbound: unix:…: cannot connect: Connection refused",
        ..THERE
    },
    Fault {
        fault: "ovn-writer down",
        check: "? ovn-writers: no answer of the ovn-writer tcp://127.0.0.1:…: Connection refused (os error 111); does it run with --inspect",
        list: "? the ovn-writer tcp://127.0.0.1:…does not answer: Connection refused",
        explain: "? the ovn-writer tcp://127.0.0.1:…does not answer: Connection refused",
        page: "Err(…Connection refused",
        ..THERE
    },
    Fault {
        fault: "no dnstap line in one CoreDNS",
        check: "✗ dnstap streams: DNS server 127.0.0.1:…: flush.example.com.: no stream for 30 s, though it answers",
        list: "! problems of the collector: 1; egress check names them",
        page: "DNS server 127.0.0.1:…: flush.example.com.: no stream for 30 s, though it answers",
        ..THERE
    },
    Fault {
        fault: "folder of the store missing",
        check: "✗ ovn-writers: store: …/store: No such file or directory",
        list: "? no collector leads: the list is that of",
        explain: "- the store cannot be read: what was known of it holds",
        page: "egress-firewalls: they cannot be read, so their last known state applies: …/store: No such file or directory",
        ..THERE
    },
    Fault {
        fault: "collector down",
        check: "? Collectors: no answer of the collector tcp://127.0.0.1:…: Connection refused (os error 111); does it run with --inspect",
        list: "egress: no collector answers: …Connection refused",
        explain: "? the collector tcp://127.0.0.1:…does not answer: Connection refused",
        page: "Err(…Connection refused",
        ..THERE
    },
    Fault {
        fault: "sets without objects",
        check: "✗ ovn-writers: objects: 1 names in use have no DNSNameResolver object…: www.example.com.",
        list: "egress: no collector answers: …Connection refused",
        explain: "- 1 names in use have no DNSNameResolver object…: www.example.com.",
        page: "objects: 1 names in use have no DNSNameResolver object…: www.example.com.",
        ..THERE
    },
    Fault {
        fault: "folder of the store empty",
        check: "! Rules and names: no rule has a name, so no address set is made",
        list: "no name",
        explain: "- no rule has it",
        page: "objects: 1 names in use have no DNSNameResolver object…: www.example.com.",
        ..THERE
    },
    Fault {
        fault: "another program's URL",
        check: "? Collectors: no answer of the collector tcp://…: it is no collector, but the ovn-writer: give its URL by --ovn-writer",
        list: "it is no collector, but the ovn-writer: give its URL by --ovn-writer",
        explain: "it is no collector, but the ovn-writer: give its URL by --ovn-writer",
        page: "objects: 1 names in use have no DNSNameResolver object",
        ..THERE
    },
];
