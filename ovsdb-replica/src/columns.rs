//! Declared tables: [`table!`](crate::table!), and the field types for columns.

use std::collections::{BTreeMap, BTreeSet};

use smol_str::SmolStr;
use uuid::Uuid;

use crate::{
    replica::toggle,
    replica_error::ColumnProblem,
    schema::{BaseType, Column, ColumnType},
    value::{Atom, Datum, TypeError},
};

/// Declares a table: a struct with one field per column, which is a [`Record`](crate::Record).
///
/// The name of a field is the name of its column (`r#match` is `match`). Its type is the required type of the column in
/// the server's schema: see [`ColumnValue`]. A column that the schema lacks, or has with another type, is a
/// [`SchemaError`](crate::SchemaError) that names it, before any row is read. A column with `= optional` may be
/// missing; its field then has its default in every row.
///
/// `key` is the field by which rows are found, apart from their `_uuid`; it need not be unique. With `where`, only rows
/// that meet one of these [conditions](crate::Condition) are replicated.
///
/// The struct derives [`Clone`], [`Debug`], [`Default`] and [`PartialEq`].
///
/// ```
/// use std::collections::{BTreeMap, BTreeSet};
/// use ovsdb_replica::Uuid;
///
/// ovsdb_replica::table! {
///     /// A bridge.
///     pub struct Bridge in "Bridge", key name: String {
///         /// Its name.
///         pub name: String,
///         /// The rows of its ports.
///         pub ports: BTreeSet<Uuid>,
///         /// Its behaviour without a controller.
///         pub fail_mode: Option<String>,
///         /// Notes.
///         pub external_ids: BTreeMap<String, String>,
///         /// Missing in older schemas.
///         pub auto_attach: Option<Uuid> = optional,
///     }
/// }
/// ```
#[macro_export]
macro_rules! table {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident in $table:literal, key $key:ident : $key_type:ty
        $(, where [$($condition:expr),+ $(,)?])?
        {
            $( $(#[$field_meta:meta])* $field_vis:vis $field:ident : $type:ty $(= $optional:ident)? ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        $vis struct $name {
            $( $(#[$field_meta])* $field_vis $field: $type, )*
        }

        impl $crate::Record for $name {
            const TABLE: &'static str = $table;
            const COLUMNS: &'static [$crate::Column] = &[
                $(
                    $crate::columns::column::<$type>(
                        ::std::stringify!($field),
                        &[$(::std::stringify!($optional))?],
                    ),
                )*
            ];
            type Key = $key_type;

            $(
                fn conditions() -> ::std::vec::Vec<$crate::Condition> {
                    ::std::vec![$($condition),+]
                }
            )?

            fn modify_column(
                &mut self,
                column: &str,
                difference: $crate::Datum,
            ) -> ::std::result::Result<(), $crate::ColumnProblem> {
                $(
                    if column == $crate::columns::column_name(::std::stringify!($field)) {
                        return $crate::columns::ColumnValue::modify(&mut self.$field, difference);
                    }
                )*
                ::std::result::Result::Err($crate::ColumnProblem::Unknown)
            }

            fn key(&self) -> ::std::option::Option<$key_type> {
                ::std::option::Option::Some(self.$key.clone())
            }
        }
    };
}

/// The column of a field, which is required without the word `optional`.
#[doc(hidden)]
pub const fn column<T: ColumnValue>(field: &'static str, options: &[&str]) -> Column {
    let name = column_name(field);
    match options {
        [] => Column::required(name, T::TYPE),
        _ => Column::optional(name, T::TYPE),
    }
}

/// The name of the column of a field, which may be a raw identifier.
#[doc(hidden)]
pub const fn column_name(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', ..] => field.split_at(2).1,
        _ => field,
    }
}

/// The Rust type of one element of a column (RFC 7047 section 3.2, `<atomic-type>`).
pub trait AtomValue: Sized {
    /// Its type in the schema.
    const TYPE: BaseType;

    /// Converts an element.
    ///
    /// # Errors
    /// [`TypeError`] if it is of another type.
    fn read(atom: Atom) -> Result<Self, TypeError>;
}

/// The Rust type of a column (RFC 7047 section 3.2, `<type>`).
///
/// | field | column |
/// |---|---|
/// | `i64`, `f64`, `bool`, [`String`], [`SmolStr`], [`Uuid`] | exactly one element |
/// | [`Option`] of these | one element or none |
/// | [`BTreeSet`] of these | a set that may have more than one element |
/// | [`BTreeMap`] of these | a map that may have more than one pair |
pub trait ColumnValue: Default {
    /// Its type in the schema.
    const TYPE: ColumnType;

    /// Applies a difference of `update3`.
    ///
    /// # Errors
    /// [`ColumnProblem`] if the value is of another type, or has an element twice.
    fn modify(&mut self, difference: Datum) -> Result<(), ColumnProblem>;
}

macro_rules! atoms {
    ($($type:ty: $base:ident, $what:literal, $($pattern:pat => $value:expr),+;)+) => {$(
        impl AtomValue for $type {
            const TYPE: BaseType = BaseType::$base;

            fn read(atom: Atom) -> Result<Self, TypeError> {
                match atom {
                    $($pattern => Ok($value),)+
                    _ => Err(TypeError($what)),
                }
            }
        }
    )+};
}

atoms! {
    i64: Integer, "an integer", Atom::Integer(value) => value;
    // The server may write a real number as an integer.
    f64: Real, "a real number", Atom::Real(value) => value, Atom::Integer(value) => value as f64;
    bool: Boolean, "a boolean", Atom::Boolean(value) => value;
    SmolStr: String, "a string", Atom::String(text) => text;
    String: String, "a string", Atom::String(text) => text.into();
    Uuid: Uuid, "a uuid", Atom::Uuid(uuid) => uuid;
}

impl<T: AtomValue + Default> ColumnValue for T {
    const TYPE: ColumnType = ColumnType::One(T::TYPE);

    fn modify(&mut self, difference: Datum) -> Result<(), ColumnProblem> {
        match difference {
            Datum::Atom(atom) => *self = T::read(atom)?,
            Datum::Set(_) | Datum::Map(_) => return Err(TypeError("one element").into()),
        }
        Ok(())
    }
}

impl<T: AtomValue> ColumnValue for Option<T> {
    const TYPE: ColumnType = ColumnType::Optional(T::TYPE);

    /// The update of a column with at most one element is its new value.
    fn modify(&mut self, difference: Datum) -> Result<(), ColumnProblem> {
        let mut atoms = difference.into_set()?.into_iter();
        *self = match (atoms.next(), atoms.next()) {
            (atom, None) => atom.map(T::read).transpose()?,
            _ => return Err(TypeError("a set of one at most").into()),
        };
        Ok(())
    }
}

impl<T: AtomValue + Ord> ColumnValue for BTreeSet<T> {
    const TYPE: ColumnType = ColumnType::Set(T::TYPE);

    /// Existing elements are removed, others are added.
    fn modify(&mut self, difference: Datum) -> Result<(), ColumnProblem> {
        let mut elements = BTreeSet::new();
        for atom in difference.into_set()? {
            if !elements.insert(T::read(atom)?) {
                return Err(ColumnProblem::Duplicate);
            }
        }
        for element in elements {
            toggle(self, element);
        }
        Ok(())
    }
}

impl<K: AtomValue + Ord, V: AtomValue + PartialEq> ColumnValue for BTreeMap<K, V> {
    const TYPE: ColumnType = ColumnType::Map(K::TYPE, V::TYPE);

    /// An existing pair is removed, an existing key gets its new value, other pairs are added.
    fn modify(&mut self, difference: Datum) -> Result<(), ColumnProblem> {
        let mut pairs = BTreeMap::new();
        for (key, value) in difference.into_map()? {
            if pairs.insert(K::read(key)?, V::read(value)?).is_some() {
                return Err(ColumnProblem::Duplicate);
            }
        }
        for (key, value) in pairs {
            if self.get(&key) == Some(&value) {
                self.remove(&key);
            } else {
                self.insert(key, value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
