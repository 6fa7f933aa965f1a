//! The ConfigMap that holds a Corefile.

use std::collections::BTreeMap;

use serde_json::Value;

pub(super) const KEY: &str = "Corefile";

/// Why a text is not a ConfigMap with a Corefile.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ConfigMapError {
    #[error("no YAML: {0}")]
    Yaml(String),
    /// Another kind of object.
    #[error("the input is not a ConfigMap, but {0}")]
    Kind(String),
    /// The ConfigMap has no Corefile.
    #[error("the ConfigMap has no data under `Corefile`")]
    NoCorefile,
}

fn parse(text: &str) -> Result<Value, ConfigMapError> {
    let map: Value =
        serde_saphyr::from_str(text).map_err(|error| ConfigMapError::Yaml(error.to_string()))?;
    match map.get("kind").and_then(Value::as_str) {
        Some("ConfigMap") => Ok(map),
        Some(kind) => Err(ConfigMapError::Kind(format!("a {}", kind.escape_debug()))),
        None => Err(ConfigMapError::Kind("something without a kind".to_owned())),
    }
}

/// The Corefile, and the other files of its folder when the ConfigMap is mounted.
pub(super) fn read(text: &str) -> Result<(String, BTreeMap<String, String>), ConfigMapError> {
    let map = parse(text)?;
    let data = map.get("data").and_then(Value::as_object);
    let data = data.into_iter().flatten();
    let mut files: BTreeMap<String, String> = data
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect();
    let corefile = files.remove(KEY).ok_or(ConfigMapError::NoCorefile)?;
    Ok((corefile, files))
}

/// The ConfigMap with another Corefile, for `kubectl apply`. Fields that the API server sets are
/// left out. `resourceVersion` stays, so that the apply fails if the ConfigMap was changed
/// meanwhile.
pub(super) fn with_corefile(text: &str, corefile: &str) -> Result<String, ConfigMapError> {
    let mut map = parse(text)?;
    if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
        for kept in ["managedFields", "creationTimestamp", "uid", "selfLink"] {
            metadata.remove(kept);
        }
    }
    match map.get_mut("data").and_then(Value::as_object_mut) {
        Some(data) => data.insert(KEY.to_owned(), corefile.into()),
        None => return Err(ConfigMapError::NoCorefile),
    };
    serde_saphyr::to_string(&map).map_err(|error| ConfigMapError::Yaml(error.to_string()))
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
