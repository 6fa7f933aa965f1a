//! Objects from JSON. Each kind is compiled for one deserializer.

use serde::de::DeserializeOwned;
use serde_ignored::Path;
use serde_json::Value;
use serde_path_to_error::Track;

/// Why an object does not decode.
#[derive(Debug)]
pub(crate) struct Undecoded {
    /// The path of the field, such as `spec.egress[0].to`.
    pub(crate) field: String,
    pub(crate) error: serde_json::Error,
}

/// Decodes an object. `on_unknown` gets the fields that its kind does not have.
pub(crate) fn decode<K: DeserializeOwned>(
    value: &Value,
    on_unknown: &mut dyn FnMut(Path<'_>),
) -> Result<K, Undecoded> {
    let mut track = Track::new();
    let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
    serde_ignored::deserialize(tracked, on_unknown).map_err(|error| Undecoded {
        field: track.path().to_string(),
        error,
    })
}
