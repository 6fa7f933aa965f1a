use proptest::{prelude::*, sample};

use super::*;

fn reason(text: &str) -> Option<&'static str> {
    check(text.parse().unwrap()).err().map(Forbidden::as_str)
}

#[test]
fn dangerous_addresses_are_forbidden_with_their_reason() {
    for (expected, addresses) in [
        ("unspecified", "0.0.0.0 0.255.255.255 ::"),
        ("loopback", "127.0.0.0 127.255.255.255 ::1 ::127.0.0.1"),
        (
            "link-local",
            "169.254.0.0 169.254.169.254 169.254.255.255 fe80:: febf:ffff::1",
        ),
        ("multicast", "224.0.0.0 239.255.255.255 ff00:: ff02::1"),
        ("broadcast", "255.255.255.255"),
        (
            "cloud-metadata",
            "168.63.129.16 100.100.100.200 192.0.0.192",
        ),
        ("cloud-metadata", "fd00:ec2::254 fd00:ec2::23 fd20:ce::254"),
    ] {
        for address in addresses.split(' ') {
            assert_eq!(reason(address), Some(expected), "{address}");
        }
    }
}

#[test]
fn neighbours_of_dangerous_addresses_and_private_ones_are_allowed() {
    let neighbours = "1.0.0.0 126.255.255.255 128.0.0.0 169.253.255.255 169.255.0.0 223.255.255.255 240.0.0.1 \
                      255.255.255.254 168.63.129.15 fe7f::1 fec0::1 feff::1 fd00:ec2::253 2606:2800::1";
    let private = "10.0.0.1 172.16.0.1 192.168.1.1 100.64.0.1 fd00::1";
    // Only the prefixes that carry an IPv4 address are looked into.
    let others = "64:ff9b:2::7f00:1 64:ff9b::1:7f00:1 2003:7f00:1::1 2001:db8::7f00:1 2001:db8::5eff:7f00:1 \
                  2001:db8::100:5efe:7f00:1 ::fffe:7f00:1 ::1:ffff:0:7f00:1";
    for text in [neighbours, private, others]
        .iter()
        .flat_map(|it| it.split(' '))
    {
        assert_eq!(reason(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn an_ipv4_address_is_judged_alike_in_every_disguise(
        address in prop_oneof![
            any::<u32>().prop_map(Ipv4Addr::from),
            (sample::select(&[0, 127, 169, 224, 255]), any::<[u8; 3]>())
                .prop_map(|(a, [b, c, d])| Ipv4Addr::new(a, b, c, d)),
            any::<u16>().prop_map(|low| Ipv4Addr::from(0xa9fe_0000 | u32::from(low))),
            sample::select(&CLOUD_V4),
            Just(Ipv4Addr::BROADCAST),
        ],
        rest in any::<u64>(),
    ) {
        let low = u128::from(u32::from(address));
        let expected = check(address.into());
        // The other address inside a Teredo address.
        let public = u128::from(u32::from(Ipv4Addr::new(192, 0, 2, 1)));
        let teredo = 0x2001_0000 << 96 | u128::from(rest & 0xffff_ffff) << 32;
        let rest = u128::from(rest);
        for disguise in [
            0xffff << 32 | low,
            0xffff_0000 << 32 | low,
            0x0064_ff9b << 96 | low,
            0x0064_ff9b_0001 << 80 | (rest & 0xffff_ffff_ffff) << 32 | low,
            0x2002 << 112 | low << 80 | rest,
            teredo | low << 64 | (!public & 0xffff_ffff),
            teredo | public << 64 | (!low & 0xffff_ffff),
            0x2001_0db8 << 96 | (rest & 0xffff_ffff) << 64 | 0x5efe << 32 | low,
            0x2001_0db8 << 96 | (rest & 0xffff_ffff) << 64 | 0x0200_5efe << 32 | low,
            0x2002_0808_0808 << 80 | (rest & 0xffff) << 64 | 0x0200_5efe << 32 | low,
        ] {
            let disguise = Ipv6Addr::from(disguise);
            prop_assert_eq!(check(disguise.into()), expected, "{}", disguise);
            prop_assert_eq!(check(canonical(disguise.into())), expected);
        }
    }
}
