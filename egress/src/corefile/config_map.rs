//! The ConfigMap that holds a Corefile.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;

use super::KEY;

fn parse(text: &str) -> anyhow::Result<ConfigMap> {
    serde_saphyr::from_str(text).map_err(|error| anyhow!("the input is not a ConfigMap: {error}"))
}

/// The Corefile, and the other files of its folder when the ConfigMap is mounted.
pub(super) fn read(text: &str) -> anyhow::Result<(String, BTreeMap<String, String>)> {
    let mut files = parse(text)?.data.unwrap_or_default();
    let corefile = files.remove(KEY);
    let corefile = corefile.context("the ConfigMap has no data under `Corefile`")?;
    Ok((corefile, files))
}

/// The ConfigMap with another Corefile, for `kubectl apply`. Fields that the API server sets are
/// left out. `resourceVersion` stays, so that the apply fails if the ConfigMap was changed
/// meanwhile.
pub(super) fn with_corefile(text: &str, corefile: &str) -> anyhow::Result<String> {
    let mut map = parse(text)?;
    map.metadata = ObjectMeta {
        managed_fields: None,
        creation_timestamp: None,
        uid: None,
        self_link: None,
        ..map.metadata
    };
    let data = map.data.get_or_insert_default();
    data.insert(KEY.to_owned(), corefile.to_owned());
    serde_saphyr::to_string(&map).map_err(|error| anyhow!("no YAML: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "
apiVersion: v1
kind: ConfigMap
metadata:
  name: coredns
  namespace: kube-system
  resourceVersion: \"17\"
  uid: 9d1b
data:
  Corefile: |
    .:53 {
        # a comment
        forward . /etc/resolv.conf
    }
  more.server: |
    errors
";

    #[test]
    fn a_corefile_comes_out_and_goes_in_again() {
        let (corefile, files) = read(MAP).unwrap();
        assert!(corefile.contains("# a comment\n"));
        assert_eq!(files["more.server"], "errors\n");
        let map = with_corefile(MAP, "x {\n    log\n}\n").unwrap();
        assert_eq!(read(&map).unwrap().0, "x {\n    log\n}\n");
        assert!(map.contains("17") && map.contains("more.server") && !map.contains("9d1b"));
    }

    #[test]
    fn what_is_no_config_map_is_told() {
        for (text, words) in [
            ("kind: Secret", "Secret"),
            ("a: b", "no data"),
            ("kind: ConfigMap", "no data"),
            ("data: {Corefile: [1]}", "not a ConfigMap"),
            ("{", "not a ConfigMap"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
