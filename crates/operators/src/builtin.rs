//! Table of the operators that every node has, by name.
//!
//! A stream names its filter, and a call or a push names its reduce, so every node must know the name. Every
//! node of this version knows the operators listed here. Each operator's file has its own entry, so adding an
//! operator adds one line to the table. A [fold](crate::fold) is entered as both a filter and a reduce; a
//! [filter](crate::filter) with state is entered as a filter only.

use crate::aggregation::Placement;
use crate::erased::Operator;
use crate::error::Result;
use crate::filter::{
    Descent, Filter, FilterKind, Source, Wave, by_node, clock_skew, identity, merge_sorted, time_aligned,
};
use crate::fold::{
    Fold, average, classes, concatenate, count, distinct, extremes, histogram, lines, quantiles, sum, top_k,
};
#[cfg(feature = "arrow")]
use crate::fold::{concat_batches, group};
use crate::folding::Folding;
use bytes::Bytes;
use std::sync::Arc;

/// In the order of docs/filters.md.
const BUILTINS: &[Builtin] = &[
    identity::ENTRY,
    sum::ENTRY,
    extremes::MIN,
    extremes::MAX,
    average::ENTRY,
    count::ENTRY,
    concatenate::fields::ENTRY,
    top_k::rows::ENTRY,
    histogram::ENTRY,
    classes::ENTRY,
    lines::MERGE_LINES,
    lines::SUM_LINES,
    lines::APPEND,
    merge_sorted::ENTRY,
    quantiles::ENTRY,
    distinct::ENTRY,
    #[cfg(feature = "arrow")]
    group::ENTRY,
    #[cfg(feature = "arrow")]
    concat_batches::ENTRY,
    time_aligned::ENTRY,
    clock_skew::ENTRY,
    by_node::ENTRY,
];

/// An operator that every node has.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// The name that streams, calls and pushes use for it.
    pub name: &'static str,
    /// One-line description of the operator.
    pub summary: &'static str,
    /// The parameters it accepts.
    pub params: &'static [Param],
    /// Creates the operator, given its name.
    pub(crate) made: Made,
}

/// How an operator is created, given its name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Made {
    /// An operator with state: a filter only.
    Filter(fn(&'static str) -> Arc<dyn FilterKind>),
    /// An operator without state: a filter and a reduce.
    Fold(fn(&'static str) -> Stateless),
    /// An operator that has state in a stream, where a partial is split over several packets, but none as a
    /// reduce.
    Both(fn(&'static str) -> Arc<dyn FilterKind>, fn(&'static str) -> Stateless),
}

/// The two uses of one operator without state.
pub(crate) type Stateless = (Arc<dyn FilterKind>, Arc<dyn Operator>);

/// A parameter of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// The field's name in the parameters.
    pub name: &'static str,
    /// Its meaning, its allowed values, and its default.
    pub meaning: &'static str,
}

impl Builtin {
    /// Returns the operator as a stream's filter.
    pub fn kind(&self) -> Arc<dyn FilterKind> {
        match self.made {
            Made::Filter(made) | Made::Both(made, _) => made(self.name),
            Made::Fold(made) => made(self.name).0,
        }
    }

    /// Returns the operator as the reduce of calls and pushes, or `None` if it has state.
    ///
    /// The reduce treats a partial of no bytes as one that adds nothing.
    pub fn reduce(&self) -> Option<Arc<dyn Operator>> {
        self.both_uses().map(|(_, reduce)| reduce)
    }

    /// Returns the operator as a filter and as a reduce, or `None` if it is a filter only.
    pub(crate) fn both_uses(&self) -> Option<Stateless> {
        match self.made {
            Made::Filter(_) => None,
            Made::Fold(made) | Made::Both(_, made) => Some(made(self.name)),
        }
    }
}

/// Returns the filter with this name if it is one that every node has.
pub fn builtin(name: &str) -> Option<Arc<dyn FilterKind>> {
    BUILTINS.iter().find(|entry| entry.name == name).map(Builtin::kind)
}

/// Returns all operators that every node has.
pub fn builtins() -> &'static [Builtin] {
    BUILTINS
}

/// Both uses of a fold, with [`Placement::Measured`].
pub(crate) fn stateless<F: Fold>(name: &'static str, open: fn(&Bytes) -> Result<F>) -> Stateless {
    uses(Folding::new(name, open))
}

/// Both uses of a fold without parameters.
pub(crate) fn plain<F: Fold + Default>(name: &'static str) -> Stateless {
    uses(Folding::<F>::plain(name))
}

/// As [`plain`], for a fold so quick that its time is not worth measuring.
pub(crate) fn plain_inline<F: Fold + Default>(name: &'static str) -> Stateless {
    uses(Folding::<F>::plain(name).placed(Placement::Inline))
}

fn uses<F: Fold>(folding: Folding<F>) -> Stateless {
    let folding = Arc::new(folding.with_empty());
    (Arc::<Folding<F>>::clone(&folding), folding)
}

/// A kind of filter with state, under a name.
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

/// A filter whose error messages begin with its name.
struct Named {
    name: &'static str,
    filter: Box<dyn Filter>,
}

impl Filter for Named {
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
    fn builtin_names_are_unique_and_open_a_filter() {
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
