//! Which addresses an answer may bring in.

use std::net::IpAddr;

use ipnet::IpNet;

/// The addresses that are refused whatever the rules say: those of [`proto::address`], and the administrator's own.
#[derive(Clone, Debug, Default)]
pub struct Guards {
    denied: Vec<IpNet>,
}

impl Guards {
    /// The fixed guards, and these networks (`--deny-answer`).
    pub fn new(denied: Vec<IpNet>) -> Self {
        Self { denied }
    }

    /// The address in canonical form, if it may be programmed.
    ///
    /// # Errors
    /// A word that says why not, fit for a metric label.
    pub fn admit(&self, address: IpAddr) -> Result<IpAddr, &'static str> {
        let address = proto::address::canonical(address);
        proto::address::check(address).map_err(proto::address::Forbidden::as_str)?;
        if self.denied.iter().any(|net| net.contains(&address)) {
            return Err("deny-answer");
        }
        Ok(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_a_denied_network_is_refused_in_either_spelling() {
        let guards = Guards::new(vec!["10.96.0.0/16".parse().unwrap()]);
        let admit = |text: &str| guards.admit(text.parse().unwrap());
        assert_eq!(admit("10.96.0.1"), Err("deny-answer"));
        assert_eq!(admit("::ffff:10.96.0.1"), Err("deny-answer"));
        assert_eq!(admit("127.0.0.1"), Err("loopback"));
        assert_eq!(admit("10.97.0.1"), Ok("10.97.0.1".parse().unwrap()));
    }
}
