//! Objects from JSON. Each kind is compiled for one deserializer.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Track;

/// Why an object does not decode.
#[derive(Debug)]
pub(crate) struct Undecoded {
    /// The path of the field, such as `spec.egress[0].to`.
    pub(crate) field: String,
    pub(crate) error: serde_json::Error,
}

/// An object, and the fields that it does not have.
pub(crate) fn decode<K: DeserializeOwned>(value: &Value) -> Result<(K, Vec<String>), Undecoded> {
    let (mut unknown, mut track) = (Vec::new(), Track::new());
    let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
    let decoded = serde_ignored::deserialize(tracked, |field| unknown.push(field.to_string()));
    match decoded {
        Ok(object) => Ok((object, unknown)),
        Err(error) => Err(Undecoded {
            field: track.path().to_string(),
            error,
        }),
    }
}
