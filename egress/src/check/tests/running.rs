//! What the running programs report.

use proto::{
    api::DnsName,
    facts::{Condition, Problem, Program, Status},
};

use super::{
    assert_found,
    facts::{reported, status, well, workload},
};
use crate::check::{
    programs::Programs,
    running::{collectors, local_policy_writers, names, policy_writers, sets, writers},
    seen::Unseen,
};

fn problem(subject: &str, sentence: &str) -> Problem {
    Problem::fault("NoAddress", subject, sentence, "ask the DNS server")
}

fn with_problems(program: Program, problems: impl IntoIterator<Item = Problem>) -> Status {
    let mut status = status(program);
    status.problems.extend(problems);
    status
}

fn of_collector(status: Status) -> Programs {
    Programs {
        collectors: reported("collector a", Ok(status)),
        ..Programs::default()
    }
}

fn name(text: &str) -> DnsName {
    DnsName::parse(text).unwrap()
}

#[test]
fn one_collector_leads_or_none_or_that_is_not_known() {
    let mut programs = of_collector(status(Program::Collector));
    assert_found(collectors(&programs), "✓", "the collector a leads");
    programs.collectors[0].answer.as_mut().unwrap().head.leader = false;
    assert_found(collectors(&programs), "✗", "none leads");
    let silent = reported("collector b", Err(Unseen("no".to_owned())));
    programs.collectors.extend(silent);
    assert_found(collectors(&programs), "??", "none that answers leads");
    assert_found(collectors(&Programs::default()), "✗", "none is running");
}

#[test]
fn names_with_the_same_problem_are_one_line_and_passing_ones_a_warning() {
    let nxdomain = "no address: the DNS server answered NXDOMAIN";
    let many = (0..1000).map(|it| problem(&format!("n{it:03}.test."), nxdomain));
    let new = problem("new.test.", "no address: it was not looked up yet").warning();
    let streams = Problem::fault("DnsServerSendsNoDnstap", "x", "no stream", "");
    let all = [new, streams].into_iter().chain(many);
    let found = names(&of_collector(with_problems(Program::Collector, all)));
    let line = format!("n003.test., n004.test. and 993 more: {nxdomain}");
    assert_found(found.clone(), "✗!?", &line);
    assert_found(found, "✗!?", "2 more problems");
    assert_found(names(&Programs::default()), "?", "no collector answers");
}

fn with_writer(status: Status) -> Programs {
    Programs {
        writers: reported("ovn-writer w", Ok(status)),
        ..of_collector(self::status(Program::Collector))
    }
}

#[test]
fn name_whose_set_no_rule_refers_to_is_a_fault_unless_its_rule_is_gone() {
    let mut unreferenced = status(Program::OvnWriter);
    let facts = unreferenced.ovn_writer.as_mut().unwrap();
    facts.unreferenced = vec![name("a.test."), name("gone.test.")];
    let mut programs = with_writer(unreferenced);
    let collector = programs.collectors[0].answer.as_mut().unwrap();
    let facts = collector.collector.as_mut().unwrap();
    facts.names_without_rule = vec![name("gone.test.")];
    let found = sets(&programs, None);
    assert_found(
        found,
        "✗",
        "a.test.: no rule in OVN's database refers to its sets",
    );
    let collector = programs.collectors[0].answer.as_mut().unwrap();
    let facts = collector.collector.as_mut().unwrap();
    facts.names_without_rule.push(name("a.test."));
    assert_found(sets(&programs, None), "✓", "the same as the statuses");
}

#[test]
fn sets_that_were_not_compared_are_unknown() {
    let mut unread = status(Program::OvnWriter);
    unread.conditions.push(Condition {
        name: "store".to_owned(),
        holds: false,
        reason: Some("it cannot be read".to_owned()),
    });
    let found = sets(&with_writer(unread), None);
    assert_found(found, "?", "w has not compared them: store: it cannot");
    let found = sets(&Programs::default(), None);
    assert_found(found, "?", "no ovn-writer answers");
}

#[test]
fn set_that_differs_is_a_fault_with_its_difference() {
    let differs = Problem::fault("SetDiffers", "a.test.", "IPv4 set x: missing 192.0.2.1", "");
    let programs = with_writer(with_problems(Program::OvnWriter, [differs]));
    let words = "a.test., IPv4 set x: missing 192.0.2.1: the set differs from the statuses";
    assert_found(sets(&programs, None), "✗", words);
    assert_found(writers(&programs, None), "✓", "");
}

#[test]
fn installation_without_a_policy_writer_has_no_lines_about_it() {
    let mut facts = well();
    assert_eq!(policy_writers(&facts), Vec::new());
    facts.settings.sources.push("dnsresolver".to_owned());
    assert_found(policy_writers(&facts), "!", "policyWriter.enabled=true");
    facts.workloads = Ok(vec![workload(Program::PolicyWriter, "policy-writer")]);
    assert_found(policy_writers(&facts), "✗?", "none is running");
}

#[test]
fn dns_resolvers_in_trouble_are_named_with_their_cure() {
    let of = |name: &str, sentence: &str| Problem::fault("DNSResolver", name, sentence, "mend it");
    let problems = [
        of("team-a/one", "DNSBlocked: no NetworkPolicy"),
        of("team-b/two", "DNSBlocked: no NetworkPolicy"),
        of("team-b/two", "Resolved: no answer yet").warning(),
    ];
    let programs = Programs {
        policy_writers: reported(
            "policy-writer p",
            Ok(with_problems(Program::PolicyWriter, problems)),
        ),
        ..Programs::default()
    };
    let found = local_policy_writers(&programs);
    let named = "team-a/one, team-b/two: DNSBlocked: no NetworkPolicy";
    assert_found(found.clone(), "✓✗!", named);
    assert_found(found, "✓✗!", "mend it");
}
