//! Values in OVSDB's JSON (RFC 7047 section 5.1): atoms, sets and maps.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use smol_str::SmolStr;
use uuid::Uuid;

/// One scalar value (RFC 7047 section 5.1, `<atom>`).
#[derive(Clone, Debug, PartialEq)]
pub enum Atom {
    /// A 64-bit integer.
    Integer(i64),
    /// A real number that is not an integer.
    Real(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// Text. Short ones, such as addresses, need no allocation.
    String(SmolStr),
    /// The `_uuid` of a row.
    Uuid(Uuid),
}

/// The value of a column (RFC 7047 section 5.1, `<value>`).
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// One scalar. The server also writes a set of one element like this.
    Atom(Atom),
    /// A set, in no order.
    Set(Vec<Atom>),
    /// A map, in no order.
    Map(Vec<(Atom, Atom)>),
}

/// Columns by name: a row, or a part of it (RFC 7047 section 5.1, `<row>`).
pub type Row = BTreeMap<SmolStr, Datum>;

/// A value does not have the type of its column.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the value is not {0}")]
pub struct TypeError(pub &'static str);

impl Atom {
    /// The text of a string.
    ///
    /// # Errors
    /// [`TypeError`] if it is another kind of atom.
    pub fn text(&self) -> Result<&str, TypeError> {
        match self {
            Self::String(text) => Ok(text),
            _ => Err(TypeError("a string")),
        }
    }

    /// The text of a string.
    ///
    /// # Errors
    /// [`TypeError`] if it is another kind of atom.
    pub fn into_string(self) -> Result<SmolStr, TypeError> {
        match self {
            Self::String(text) => Ok(text),
            _ => Err(TypeError("a string")),
        }
    }
}

impl Datum {
    /// A set of strings.
    pub fn strings(items: impl IntoIterator<Item = impl Into<SmolStr>>) -> Self {
        Self::Set(items.into_iter().map(|s| Atom::String(s.into())).collect())
    }

    /// A map of strings to strings.
    pub fn string_map(
        pairs: impl IntoIterator<Item = (impl Into<SmolStr>, impl Into<SmolStr>)>,
    ) -> Self {
        let atom = |(key, value): (_, _)| (Atom::String(key), Atom::String(value));
        Self::Map(
            pairs
                .into_iter()
                .map(|(k, v)| atom((k.into(), v.into())))
                .collect(),
        )
    }

    /// The number of elements or pairs; 1 for an atom.
    #[expect(clippy::len_without_is_empty, reason = "nothing asks for it")]
    pub fn len(&self) -> usize {
        match self {
            Self::Atom(_) => 1,
            Self::Set(atoms) => atoms.len(),
            Self::Map(pairs) => pairs.len(),
        }
    }

    /// The elements of a set; a bare atom is a set of one.
    ///
    /// # Errors
    /// [`TypeError`] if it is a map.
    pub fn into_set(self) -> Result<Vec<Atom>, TypeError> {
        match self {
            Self::Atom(atom) => Ok(vec![atom]),
            Self::Set(atoms) => Ok(atoms),
            Self::Map(_) => Err(TypeError("a set")),
        }
    }

    /// The pairs of a map; an empty set counts as an empty map.
    ///
    /// # Errors
    /// [`TypeError`] if it is no map.
    pub fn into_map(self) -> Result<Vec<(Atom, Atom)>, TypeError> {
        match self {
            Self::Map(pairs) => Ok(pairs),
            Self::Set(atoms) if atoms.is_empty() => Ok(Vec::new()),
            _ => Err(TypeError("a map")),
        }
    }

    /// The text of a string.
    ///
    /// # Errors
    /// [`TypeError`] if it is anything else.
    pub fn into_string(self) -> Result<SmolStr, TypeError> {
        match self {
            Self::Atom(atom) => atom.into_string(),
            _ => Err(TypeError("a string")),
        }
    }
}

impl From<&str> for Datum {
    fn from(text: &str) -> Self {
        Self::Atom(Atom::String(text.into()))
    }
}

impl From<i64> for Datum {
    fn from(number: i64) -> Self {
        Self::Atom(Atom::Integer(number))
    }
}

impl From<Uuid> for Datum {
    fn from(uuid: Uuid) -> Self {
        Self::Atom(Atom::Uuid(uuid))
    }
}

impl Serialize for Atom {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(value) => serializer.serialize_i64(*value),
            Self::Real(value) => serializer.serialize_f64(*value),
            Self::Boolean(value) => serializer.serialize_bool(*value),
            Self::String(text) => serializer.serialize_str(text),
            Self::Uuid(uuid) => ("uuid", uuid.hyphenated().to_string()).serialize(serializer),
        }
    }
}

impl Serialize for Datum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Atom(atom) => atom.serialize(serializer),
            Self::Set(atoms) => ("set", atoms).serialize(serializer),
            Self::Map(pairs) => ("map", pairs).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Atom {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Datum::deserialize(deserializer)? {
            Datum::Atom(atom) => Ok(atom),
            _ => Err(D::Error::custom("expected an atom, found a set or a map")),
        }
    }
}

impl<'de> Deserialize<'de> for Datum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DatumVisitor)
    }
}

struct DatumVisitor;

impl<'de> Visitor<'de> for DatumVisitor {
    type Value = Datum;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an OVSDB value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Datum, E> {
        Ok(Datum::Atom(Atom::Boolean(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Datum, E> {
        Ok(Datum::Atom(Atom::Integer(value)))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Datum, E> {
        let value = i64::try_from(value).map_err(|_| E::custom("an integer over 2^63-1"))?;
        Ok(Datum::Atom(Atom::Integer(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Datum, E> {
        Ok(Datum::Atom(Atom::Real(value)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Datum, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Datum, E> {
        Ok(Datum::Atom(Atom::String(text.into())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Datum, A::Error> {
        let short = || A::Error::custom("a tagged value is an array of two elements");
        let tag: SmolStr = seq.next_element()?.ok_or_else(short)?;
        let datum = match tag.as_str() {
            "uuid" => {
                let text: String = seq.next_element()?.ok_or_else(short)?;
                let uuid = Uuid::try_parse(&text).map_err(A::Error::custom)?;
                Datum::Atom(Atom::Uuid(uuid))
            }
            "set" => Datum::Set(seq.next_element()?.ok_or_else(short)?),
            "map" => Datum::Map(seq.next_element()?.ok_or_else(short)?),
            other => return Err(A::Error::custom(format_args!("unknown tag {other:?}"))),
        };
        if seq.next_element::<serde::de::IgnoredAny>()?.is_some() {
            return Err(short());
        }
        Ok(datum)
    }
}

/// A JSON object: serde alone also accepts an array for the members of a struct, in their order.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}
