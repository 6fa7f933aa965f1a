//! The ConfigMap that holds a Corefile.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow, bail};
use serde_json::Value;

use super::KEY;

const NO_COREFILE: &str = "the ConfigMap has no data under `Corefile`";

fn parse(text: &str) -> anyhow::Result<Value> {
    let map: Value = serde_saphyr::from_str(text).map_err(|error| anyhow!("no YAML: {error}"))?;
    match map.get("kind").and_then(Value::as_str) {
        Some("ConfigMap") => Ok(map),
        Some(kind) => bail!(
            "the input is not a ConfigMap, but a {}",
            kind.escape_debug()
        ),
        None => bail!("the input is not a ConfigMap, but something without a kind"),
    }
}

/// The Corefile, and the other files of its folder when the ConfigMap is mounted.
pub(super) fn read(text: &str) -> anyhow::Result<(String, BTreeMap<String, String>)> {
    let map = parse(text)?;
    let data = map.get("data").and_then(Value::as_object);
    let data = data.into_iter().flatten();
    let mut files: BTreeMap<String, String> = data
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect();
    let corefile = files.remove(KEY).context(NO_COREFILE)?;
    Ok((corefile, files))
}

/// The ConfigMap with another Corefile, for `kubectl apply`. Fields that the API server sets are
/// left out. `resourceVersion` stays, so that the apply fails if the ConfigMap was changed
/// meanwhile.
pub(super) fn with_corefile(text: &str, corefile: &str) -> anyhow::Result<String> {
    let mut map = parse(text)?;
    if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
        for kept in ["managedFields", "creationTimestamp", "uid", "selfLink"] {
            metadata.remove(kept);
        }
    }
    let data = map.get_mut("data").and_then(Value::as_object_mut);
    let data = data.context(NO_COREFILE)?;
    data.insert(KEY.to_owned(), corefile.into());
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
            ("kind: Secret", "a Secret"),
            ("a: b", "without a kind"),
            ("kind: ConfigMap", "no data"),
            ("{", "no YAML"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
