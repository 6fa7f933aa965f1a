//! The expiry of a program's certificates as a metric, so that an alert can warn before connections fail.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use metrics::gauge;
use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;
use tracing::debug;
use x509_parser::parse_x509_certificate;

use crate::{
    metrics::Label,
    tls::{certificates, read},
};

/// The interval between two reads of the files.
const INTERVAL: Duration = Duration::from_secs(60);

crate::metrics! {
    /// The metrics of certificates.
    pub const METRICS;

    gauge EXPIRATION = "egress_certificate_expiration_timestamp_seconds" [Label::one_of("certificate", &["listener", "client", "authority"])]
        "When a certificate file expires, in seconds since 1970. `listener`: `--certificate` of the collector. `client`: `--certificate` of the ovn-writer. `authority`: `--ca-cert` of the ovn-writer. Of a certificate chain the earliest expiry, of a file with authorities (CAs) the latest";
}

/// The use of a file of certificates.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Role {
    /// Shown to clients; all of them must be valid.
    Listener,
    /// Shown to servers; all of them must be valid.
    Client,
    /// Signers of server certificates; one valid certificate is enough.
    Authority,
}

impl Role {
    fn as_str(self) -> &'static str {
        match self {
            Self::Listener => "listener",
            Self::Client => "client",
            Self::Authority => "authority",
        }
    }
}

/// Reads the files once a minute until the token is cancelled. For an unreadable file the last values stay: the code
/// that uses the file reports the error.
///
/// # Errors
/// A thread that reads files failed.
pub async fn run(files: Vec<(Role, PathBuf)>, token: CancellationToken) -> anyhow::Result<()> {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while token.run_until_cancelled(ticks.tick()).await.is_some() {
        for (role, path) in files.clone() {
            let expiration = spawn_blocking(move || expiration(role, &path))
                .await
                .context("a thread that reads files failed")?;
            if let Some(at) = expiration {
                // Seconds since 1970: far below 2^52.
                #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
                gauge!(EXPIRATION, "certificate" => role.as_str()).set(at as f64);
            }
        }
    }
    Ok(())
}

/// The expiry of the certificates in a file, in seconds since 1970.
fn expiration(role: Role, path: &Path) -> Option<i64> {
    let found = read(path).and_then(|pem| certificates(path, &pem));
    let found = found
        .inspect_err(|error| debug!("cannot read when the certificate expires: {error:#}"))
        .ok()?;
    let ends = found.iter().filter_map(|certificate| {
        let (_, certificate) = parse_x509_certificate(certificate).ok()?;
        Some(certificate.validity().not_after.timestamp())
    });
    match role {
        Role::Listener | Role::Client => ends.min(),
        Role::Authority => ends.max(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use metrics::set_default_local_recorder;
    use metrics_exporter_prometheus::PrometheusBuilder;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn certificate(until: (i32, u8, u8)) -> String {
        let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.not_after = date_time_ymd(until.0, until.1, until.2);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem()
    }

    #[test]
    fn the_first_of_a_chain_and_the_last_of_authorities_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.pem");
        let both = certificate((2031, 1, 1)) + &certificate((2030, 1, 1));
        fs::write(&path, both).unwrap();
        assert_eq!(expiration(Role::Listener, &path), Some(1_893_456_000));
        assert_eq!(expiration(Role::Client, &path), Some(1_893_456_000));
        assert_eq!(expiration(Role::Authority, &path), Some(1_924_992_000));
        fs::write(&path, "nothing").unwrap();
        assert_eq!(expiration(Role::Client, &path), None);
    }

    #[tokio::test(start_paused = true)]
    async fn renewed_certificate_is_seen_and_broken_file_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.pem");
        fs::write(&path, certificate((2030, 1, 1))).unwrap();
        let token = CancellationToken::new();
        let recorder = PrometheusBuilder::new().build_recorder();
        let _recording = set_default_local_recorder(&recorder);
        let running = tokio::spawn(run(vec![(Role::Listener, path.clone())], token.clone()));
        let shows = async |seconds: &str| {
            let series = format!("{EXPIRATION}{{certificate=\"listener\"}} {seconds}\n");
            while !recorder.handle().render().contains(&series) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        shows("1893456000").await;
        fs::write(&path, "broken").unwrap();
        tokio::time::sleep(2 * INTERVAL).await;
        shows("1893456000").await;
        fs::write(&path, certificate((2031, 1, 1))).unwrap();
        shows("1924992000").await;
        token.cancel();
        running.await.unwrap().unwrap();
    }
}
