//! Problems of DNS servers and of objects with rules.

use proto::{
    facts::{Problem, SourceFacts, StreamFacts, StreamState},
    text::printable,
};

use crate::{
    flush::BlockView,
    rules::{Overview, Source},
};

/// The most faults of the objects of one namespace. A namespace may have any number of DNSResolvers.
const MOST_FAULTS: usize = 100;

/// The response code REFUSED (RFC 1035 section 4.1.1).
const REFUSED: u8 = 5;

pub(super) fn stream(block: &BlockView) -> StreamFacts {
    StreamFacts {
        server: block.server,
        name: block.name.clone(),
        state: block.state,
        reported_seconds: block.reported.map(|it| it.as_secs_f64()),
        delay_seconds: block.delay.map(|it| it.as_secs_f64()),
        rcode: block.rcode,
    }
}

/// The fault of a server block.
pub(super) fn of_stream(stream: &StreamFacts) -> Option<Problem> {
    let sentence = match (stream.state, stream.rcode) {
        (StreamState::Forwards, _) => "it forwards the probe, so its stream may be a second late",
        (StreamState::NotStreaming, None) => "no stream for 30 s, and it does not answer",
        (StreamState::NotStreaming, Some(REFUSED)) => {
            "no stream for 30 s: it has no server block for this name"
        }
        (StreamState::NotStreaming, Some(_)) => "no stream for 30 s, though it answers",
        _ => return None,
    };
    let subject = format!("DNS server {}", stream.server);
    let sentence = format!("{}: {sentence}", stream.name);
    Some(match stream.state {
        StreamState::Forwards => {
            let remedy = "give a name that it answers by itself (--flush-name)";
            Problem::fault("DnsServerForwardsProbes", subject, sentence, remedy).warning()
        }
        _ => {
            let remedy = "check the `dnstap` line of this server block: docs/troubleshooting.md#egressdnsserversendsnodnstap";
            Problem::fault("DnsServerSendsNoDnstap", subject, sentence, remedy)
        }
    })
}

pub(super) fn source(kind: Source, overview: &Overview) -> SourceFacts {
    SourceFacts {
        kind: kind.to_string(),
        objects: overview.objects,
        unknown: overview
            .undecodable
            .iter()
            .map(ToString::to_string)
            .collect(),
        out_of_sync: overview.out_of_sync.clone(),
    }
}

/// The faults of the objects of one kind.
pub(super) fn of_rules(kind: Source, overview: &Overview) -> Vec<Problem> {
    let all = overview.faults.iter();
    let all = all.flat_map(|(key, faults)| faults.iter().map(move |found| (key, found)));
    let (mut namespace, mut count) = ("", 0);
    let all = all.filter(|(key, _)| {
        if namespace != key.namespace {
            (namespace, count) = (&key.namespace, 0);
        }
        count += 1;
        count <= MOST_FAULTS
    });
    let problems = all.map(|(key, (fault, subjects))| {
        let sentence = format!("{} {}{subjects}", subjects.count, fault.meaning());
        let remedy = "see docs/egress.md#reasons";
        let subject = format!("{kind} {key}");
        let problem = Problem::fault(fault.reason(), subject, printable(&sentence), remedy);
        if fault.is_advice() {
            problem.warning()
        } else {
            problem
        }
    });
    problems.collect()
}
