//! Compressed names.

use super::*;

#[test]
fn compression_pointers_are_followed_backwards_only() {
    let owner = |name: &[u8]| read(&raw(&[name, FIXED].concat()));
    let one = Ok(vec![("192.0.2.1".to_owned(), 60)]);
    assert_eq!(owner(b"\xc0\x0c"), one);
    assert_eq!(owner(b"\x01A\xc0\x0e"), one);
    assert_eq!(owner(b"\x01a\x01b\xc0\x10"), one);
    // Another name, by its pointer into the middle of the question.
    assert_eq!(owner(b"\xc0\x0e"), Ok(vec![]));
    let refused = Err(Error::Pointer { at: RAW });
    assert_eq!(owner(b"\xc0\x15"), refused, "to itself");
    assert_eq!(owner(b"\xc0\x16"), refused, "into itself");
    assert_eq!(owner(b"\xc0\x40"), refused, "forwards");
    assert_eq!(owner(b"\xff\xff"), refused, "behind the message");
    assert_eq!(owner(b"\xc0\x00"), refused, "into the header");
    assert_eq!(owner(b"\xc0\x0b"), refused, "into the header");
    let refused = Err(Error::Pointer { at: RAW + 2 });
    assert_eq!(owner(b"\x01a\xc0\x15"), refused, "to its own start");
    assert_eq!(owner(b"\x40a\0"), Err(Error::LabelType { at: RAW }));
    assert_eq!(owner(b"\x01a\x80"), Err(Error::LabelType { at: RAW + 2 }));
    assert_eq!(read(&raw(b"\xc0")), Err(Error::Truncated { at: RAW }));
}

#[test]
fn pointers_to_pointers_are_followed_127_times() {
    let chain = |hops: usize| {
        // Data of unknown types that hold a pointer to the pointer before; then the address.
        let mut answer = Vec::new();
        let mut target = 12;
        for _ in 1..hops {
            answer.extend(b"\0\xff\x01\0\x01\0\0\0\0\0\x02");
            let at = RAW + answer.len();
            answer.extend((0xc000 | target as u16).to_be_bytes());
            target = at;
        }
        answer.extend((0xc000 | target as u16).to_be_bytes());
        answer.extend(FIXED);
        let mut message = raw(&answer);
        message[6..8].copy_from_slice(&(hops as u16).to_be_bytes());
        read(&message)
    };
    let most = usize::from(MAX_HOPS);
    expect(&chain(1).unwrap(), &[("192.0.2.1", 60)]);
    expect(&chain(most).unwrap(), &[("192.0.2.1", 60)]);
    assert_eq!(chain(most + 1), Err(Error::Hops { at: 12 + 9 + 11 }));
}

#[test]
fn pointers_into_one_long_name_cost_no_more_than_it_may_take() {
    let records = |count: u16| {
        // Data of an unknown type: 126 labels. Then owners that begin with its first and its second label in turn.
        let mut answer = b"\0\xff\x01\0\x01\0\0\0\0\0\xfd".to_vec();
        answer.extend(b"\x01x".repeat(126));
        answer.push(0);
        for number in 0..count {
            answer.extend((0xc000 | (RAW as u16 + 11 + 2 * (number & 1))).to_be_bytes());
            answer.extend(FIXED);
        }
        let mut message = raw(&answer);
        message[6..8].copy_from_slice(&(count + 1).to_be_bytes());
        read(&message)
    };
    // A pointer and its labels each.
    let most = MAX_STEPS / 253 * 2;
    assert_eq!(records(most), Ok(vec![]));
    let result = records(most + 2);
    assert!(matches!(result, Err(Error::Steps { .. })), "{result:?}");
}

#[test]
fn a_name_has_at_most_255_octets_with_what_its_pointers_lead_to() {
    let label = |length: u8| [&[length][..], &vec![b'x'; usize::from(length)]].concat();
    let owner = |last: u8| {
        let labels = [label(63), label(63), label(63), label(last)].concat();
        // `b.` of the question adds three octets.
        read(&raw(&[&labels[..], b"\xc0\x0e", FIXED].concat()))
    };
    assert_eq!(owner(59), Ok(vec![]));
    // The label too many is the question's.
    assert_eq!(owner(60), Err(Error::NameLength { at: 14 }));
}
