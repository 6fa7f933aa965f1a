//! A value for each source of names.

use std::{collections::BTreeMap, sync::Arc};

use super::{Overview, Source};

/// A value for each source of `--rules`.
#[derive(Clone, Debug)]
pub struct BySource<T>(BTreeMap<Source, T>);

impl<T: Default> BySource<T> {
    /// The default value for each of these sources.
    pub fn of(sources: &[Source]) -> Self {
        let values = sources.iter().map(|source| (*source, T::default()));
        Self(values.collect())
    }

    /// The value of one source, which may be new.
    pub fn get_mut(&mut self, source: Source) -> &mut T {
        self.0.entry(source).or_default()
    }
}

impl<T> BySource<T> {
    pub fn get(&self, source: Source) -> Option<&T> {
        self.0.get(&source)
    }

    /// In the order of the sources.
    pub fn iter(&self) -> impl Iterator<Item = (Source, &T)> {
        self.0.iter().map(|(source, value)| (*source, value))
    }
}

impl BySource<Arc<Overview>> {
    /// Why the objects of some source cannot be read.
    pub fn out_of_sync(&self) -> impl Iterator<Item = (Source, &str)> {
        let all = self.iter();
        all.filter_map(|(source, it)| Some((source, it.out_of_sync.as_deref()?)))
    }
}

/// EgressFirewalls alone, as by default.
impl<T: Default> Default for BySource<T> {
    fn default() -> Self {
        T::default().into()
    }
}

/// The value of EgressFirewalls alone.
impl<T> From<T> for BySource<T> {
    fn from(value: T) -> Self {
        Self([(Source::EgressFirewall, value)].into())
    }
}
