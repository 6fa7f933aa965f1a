use super::*;

/// A query for the A records of `Www.example.com` with an OPT record.
const QUERY: &[u8] = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x03Www\x07example\x03com\0\0\x01\0\x01\0\0\x29\x04\xd0\0\0\x80\0\0\0";

/// The end of its question.
const END: usize = HEADER + 17 + 4;

fn query() -> Query {
    Query::new(QUERY).unwrap()
}

/// The reply with these flags and this question.
fn reply(id: u16, flags: u16, question: &[u8]) -> Vec<u8> {
    let count = u16::from(!question.is_empty());
    let header = [id, flags, count, 0, 0, 0].map(u16::to_be_bytes).concat();
    [&header, question].concat()
}

#[test]
fn reply_must_repeat_identifier_and_question() {
    let question = &QUERY[HEADER..END];
    let is_reply =
        |id, flags, question: &[u8]| query().is_answered_by(7, &reply(id, flags, question));
    assert!(is_reply(7, 0x8180, question));
    assert!(!is_reply(8, 0x8180, question), "another identifier");
    assert!(!is_reply(7, 0x0100, question), "a query");
    assert!(!is_reply(7, 0x8180, &[]), "no question");
    let lower = question.to_ascii_lowercase();
    assert!(!is_reply(7, 0x8180, &lower), "another case");
    let mut other = question.to_vec();
    other[18] = 28;
    assert!(!is_reply(7, 0x8180, &other), "another type");
    assert!(!query().is_answered_by(7, &[0, 7, 0x81]), "cut off");
}

#[test]
fn error_without_a_question_is_a_reply() {
    for (flags, is_reply) in [
        (0x8181, true),
        (0x8185, true),
        (0x8180, false),
        (0x8183, false),
    ] {
        let found = query().is_answered_by(7, &reply(7, flags, &[]));
        assert_eq!(found, is_reply, "{flags:x}");
    }
}

#[test]
fn response_and_cut_off_header_are_no_queries() {
    assert!(Query::new(&reply(7, 0x8180, &QUERY[HEADER..END])).is_none());
    assert!(Query::new(&QUERY[..HEADER - 1]).is_none());
    assert!(Query::new(&[]).is_none());
}
