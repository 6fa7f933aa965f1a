//! Zones with 65,536 names each, which CoreDNS answers itself.

use hickory_proto::rr::RecordType;

/// A zone. `x3-7.s8.test.` has the addresses 11.3.7.1 to 11.3.7.8, for an hour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zone {
    origin: &'static str,
    /// The rule for its names.
    pub(super) wildcard: &'static str,
    /// Addresses of a name.
    pub(super) count: u32,
    is_v6: bool,
}

/// One address per name.
pub(super) const ONE: Zone = Zone::v4("s1.test.", "*.s1.test.", 1);

/// As many as in the answers of a large provider.
pub(super) const EIGHT: Zone = Zone::v4("s8.test.", "*.s8.test.", 8);

pub(super) const SIXTEEN: Zone = Zone::v4("s16.test.", "*.s16.test.", 16);

pub(super) const V6: Zone = Zone {
    is_v6: true,
    ..Zone::v4("v6.test.", "*.v6.test.", 8)
};

pub(super) const ALL: [Zone; 4] = [ONE, EIGHT, SIXTEEN, V6];

impl Zone {
    const fn v4(origin: &'static str, wildcard: &'static str, count: u32) -> Self {
        Self {
            origin,
            wildcard,
            count,
            is_v6: false,
        }
    }

    /// The name with this number, of 65,536.
    pub(super) fn name(self, number: u32) -> String {
        format!("x{}-{}.{}", number >> 8, number & 0xff, self.origin)
    }

    pub(super) fn kind(self) -> RecordType {
        match self.is_v6 {
            true => RecordType::AAAA,
            false => RecordType::A,
        }
    }

    /// The block of the zone in a Corefile. Other names fall through to another server.
    fn template(self) -> String {
        let [high, low] = [1, 2].map(|group| format!("{{{{ index .Match {group} }}}}"));
        let answers = (1..=self.count).map(|last| {
            let address = match self.is_v6 {
                true => format!("2001:db8:{high}:{low}::{last}"),
                false => format!("11.{high}.{low}.{last}"),
            };
            format!(
                "        answer \"{{{{ .Name }}}} 3600 IN {} {address}\"\n",
                self.kind()
            )
        });
        format!(
            "    template IN {} {} {{\n        match ^x([0-9]+)-([0-9]+)[.]\n{}        fallthrough\n    }}\n",
            self.kind(),
            self.origin,
            answers.collect::<String>()
        )
    }
}

pub(super) fn templates() -> String {
    ALL.into_iter().map(Zone::template).collect()
}
