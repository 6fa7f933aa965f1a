//! Who of several does a thing: all agree without a word, as long as they know of the same ones, and when one leaves only what was
//! its own moves (highest random weight).

use std::net::SocketAddr;

/// The one of `replicas` that probes the server; nothing if there is none.
pub fn owner<'a>(
    replicas: impl IntoIterator<Item = &'a str>,
    server: SocketAddr,
) -> Option<&'a str> {
    let server = server.to_string();
    replicas
        .into_iter()
        .max_by_key(|replica| (weight(replica, &server), *replica))
}

/// The same in every version of the program: replicas of two versions are to agree, too. FNV-1a, and the finalizer of MurmurHash3,
/// without which names that differ in their last characters alone would all rank alike.
fn weight(replica: &str, server: &str) -> u64 {
    let bytes = replica.bytes().chain([0]).chain(server.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn server(i: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, (i >> 8) as u8, i as u8], 53))
    }

    fn names(replicas: &BTreeSet<u16>) -> Vec<String> {
        let names = replicas.iter();
        names
            .map(|i| format!("collector-7d4b9c-{i:04x}_0a1b"))
            .collect()
    }

    proptest! {
        #[test]
        fn all_agree_whatever_the_order_and_a_leaving_one_moves_only_its_own(
            replicas in prop::collection::btree_set(0_u16..1000, 2..10),
            servers in prop::collection::vec(0_u16..5000, 1..50),
            leaving: prop::sample::Index,
        ) {
            let names = names(&replicas);
            let leaving = &names[leaving.index(names.len())];
            for i in servers {
                let all = names.iter().map(String::as_str);
                let owner = owner(all.clone(), server(i)).unwrap();
                prop_assert_eq!(Some(owner), super::owner(all.clone().rev(), server(i)));
                let rest = all.filter(|name| name != leaving);
                let next = super::owner(rest, server(i)).unwrap();
                prop_assert!(owner == next || owner == leaving);
            }
        }
    }

    #[test]
    fn servers_are_shared_out_evenly() {
        let names = names(&(0..4).collect());
        let mut shares = [0; 4];
        for i in 0..4000 {
            let owner = owner(names.iter().map(String::as_str), server(i)).unwrap();
            shares[names.iter().position(|name| name == owner).unwrap()] += 1;
        }
        assert!(
            shares.iter().all(|share| (850..1150).contains(share)),
            "{shares:?}"
        );
        assert_eq!(owner([], server(1)), None);
    }

    /// Replicas of two versions must agree.
    #[test]
    fn weights_do_not_change_from_version_to_version() {
        assert_eq!(weight("a", "10.0.0.1:53"), 2_177_170_228_506_280_650);
    }
}
