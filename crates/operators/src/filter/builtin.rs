//! The filters that every node has, by name.
//!
//! A stream names its filter, and every node must know the name; what is listed here, every node of this version
//! knows. Each filter's file has its own entry, so that adding one is a line in the table.

use super::{Descent, Filter, FilterKind, Source, Wave};
use super::{average, classes, clock_skew, concatenate, count, distinct, histogram, identity};
#[cfg(feature = "arrow")]
use super::{concat_batches, group};
use super::{max, merge_sorted, min, quantiles, sum, time_aligned, top_k};
use crate::aggregation::Placement;
use crate::error::Result;
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// In the order of docs/filters.md.
const BUILTINS: &[Builtin] = &[
    identity::ENTRY,
    sum::ENTRY,
    min::ENTRY,
    max::ENTRY,
    average::ENTRY,
    count::ENTRY,
    concatenate::ENTRY,
    top_k::ENTRY,
    histogram::ENTRY,
    classes::ENTRY,
    merge_sorted::ENTRY,
    quantiles::ENTRY,
    distinct::ENTRY,
    #[cfg(feature = "arrow")]
    group::ENTRY,
    #[cfg(feature = "arrow")]
    concat_batches::ENTRY,
    time_aligned::ENTRY,
    clock_skew::ENTRY,
];

/// A filter that every node has.
#[derive(Clone, Copy)]
pub struct Builtin {
    /// What streams call it.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What can be asked of it.
    pub params: &'static [Param],
    /// Makes its kind, given its name.
    pub(crate) kind: fn(&'static str) -> Arc<dyn FilterKind>,
}

/// A parameter of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// The field's name.
    pub name: &'static str,
    /// What it means, what it may be, and what it is when it is left out.
    pub meaning: &'static str,
}

impl Builtin {
    /// The filter itself.
    pub fn kind(&self) -> Arc<dyn FilterKind> {
        (self.kind)(self.name)
    }
}

impl fmt::Debug for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, summary, params, kind: _ } = self;
        f.debug_struct("Builtin")
            .field("name", name)
            .field("summary", summary)
            .field("params", params)
            .finish()
    }
}

/// The filter of this name, if every node has one.
pub fn builtin(name: &str) -> Option<Arc<dyn FilterKind>> {
    BUILTINS.iter().find(|entry| entry.name == name).map(Builtin::kind)
}

/// All filters that every node has.
pub fn builtins() -> &'static [Builtin] {
    BUILTINS
}

/// A kind whose filters are opened by a function, and run inline once they are seen to be quick.
pub(crate) fn opens<F: Filter + 'static>(
    name: &'static str,
    open: fn(&Bytes) -> Result<F>,
) -> Arc<dyn FilterKind> {
    Arc::new(Opens { name, open, placement: Placement::Measured })
}

/// As [`opens`], for what takes no time worth measuring.
pub(crate) fn opens_inline<F: Filter + 'static>(
    name: &'static str,
    open: fn(&Bytes) -> Result<F>,
) -> Arc<dyn FilterKind> {
    Arc::new(Opens { name, open, placement: Placement::Inline })
}

/// An existing kind by its name.
pub(crate) fn named<K: FilterKind>(name: &'static str, kind: K) -> Arc<dyn FilterKind> {
    Arc::new(NamedKind { name, kind })
}

struct NamedKind<K> {
    name: &'static str,
    kind: K,
}

impl<K: FilterKind> FilterKind for NamedKind<K> {
    fn open(&self, params: &Bytes) -> Result<Box<dyn Filter>> {
        let filter = self.kind.open(params).map_err(|error| error.context(self.name))?;
        Ok(Box::new(Named { name: self.name, filter }))
    }

    fn placement(&self) -> Placement {
        self.kind.placement()
    }
}

struct Opens<F> {
    name: &'static str,
    open: fn(&Bytes) -> Result<F>,
    placement: Placement,
}

impl<F: Filter + 'static> FilterKind for Opens<F> {
    fn open(&self, params: &Bytes) -> Result<Box<dyn Filter>> {
        let filter = (self.open)(params).map_err(|error| error.context(self.name))?;
        Ok(Box::new(Named { name: self.name, filter }))
    }

    fn placement(&self) -> Placement {
        self.placement
    }
}

/// A filter whose errors begin with its name.
struct Named<F> {
    name: &'static str,
    filter: F,
}

impl Filter for Box<dyn Filter> {
    fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        (**self).up(wave, out)
    }

    fn down(&mut self, descent: Descent<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        (**self).down(descent, out)
    }

    fn holds_from(&self) -> Option<u64> {
        (**self).holds_from()
    }

    fn joined(&mut self, source: Source) {
        (**self).joined(source);
    }

    fn replaced(&mut self, lost: Source, heirs: &[Source]) {
        (**self).replaced(lost, heirs);
    }
}

impl<F: Filter> Filter for Named<F> {
    fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        self.filter.up(wave, out).map_err(|error| error.context(self.name))
    }

    fn down(&mut self, descent: Descent<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        self.filter.down(descent, out).map_err(|error| error.context(self.name))
    }

    fn holds_from(&self) -> Option<u64> {
        self.filter.holds_from()
    }

    fn joined(&mut self, source: Source) {
        self.filter.joined(source);
    }

    fn replaced(&mut self, lost: Source, heirs: &[Source]) {
        self.filter.replaced(lost, heirs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Body;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn every_name_is_there_once_and_opens_its_filter() {
        let names: BTreeSet<&str> = builtins().iter().map(|entry| entry.name).collect();
        assert_eq!(names.len(), builtins().len());
        for entry in builtins() {
            assert!(builtin(entry.name).is_some(), "{entry:?}");
        }
        assert!(builtin("no such filter").is_none());
    }

    #[test]
    fn errors_begin_with_the_filters_name_and_unknown_parameters_are_errors() {
        for entry in builtins() {
            let misspelt = BTreeMap::from([("no_such_field".to_string(), 1)]).encode().unwrap();
            let refused = entry.kind().open(&misspelt).err().expect(entry.name).to_string();
            assert!(refused.starts_with(&format!("{}: ", entry.name)), "{refused}");
            assert!(refused.contains("no_such_field"), "{refused}");
        }
    }
}
