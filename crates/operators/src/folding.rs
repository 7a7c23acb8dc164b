//! Adapter between a [`Fold`] and its two uses: the filter of a stream, and the reduce of calls and pushes.

use crate::aggregation::{Partition, Placement};
use crate::codec::{Body, Codec};
use crate::erased::{Operator, Outcome};
use crate::error::{OperatorError, Result};
use crate::filter::{Filter, FilterKind, Wave};
use crate::fold::{Fold, Merge, Piece, Source, Typed, params};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use treefold_core::wave::slice::Slice;

/// Creates a fold from its parameters.
type Open<F> = Box<dyn Fn(&Bytes) -> Result<F> + Send + Sync>;

/// A named [`Fold`] with the function that reads its parameters. It is both a [`FilterKind`] and an
/// [`Operator`].
///
/// As an operator it has no locals; pushes do not need them. For calls, [`over`] adds the locals of a
/// service.
pub struct Folding<F> {
    name: &'static str,
    open: Open<F>,
    placement: Placement,
    empty_adds_nothing: bool,
}

/// Creates the fold of a typed partial, which endpoints and children both send.
///
/// Its errors begin with `name`. It takes no parameters.
///
/// ```
/// use treefold_operators::filter::{FilterKind, Piece, Source, Wave};
/// use treefold_operators::fold::GroupCount;
/// use treefold_operators::{Body, folding};
///
/// let words = |keys: &[&str]| {
///     let mut counts = GroupCount::<String>::new(1000);
///     keys.iter().for_each(|&key| counts.add(key.to_string(), 1).unwrap());
///     counts.encode().unwrap()
/// };
/// let mut filter = folding::<GroupCount<String>>("words").open(&Default::default()).unwrap();
/// let pieces = [
///     Piece { source: Source::Endpoint(0), payload: words(&["a", "b"]) },
///     Piece { source: Source::Child(0), payload: words(&["a"]) },
/// ];
/// let mut out = Vec::new();
/// filter.up(Wave { tag: 0, pieces: &pieces, now_ns: 0 }, &mut out).unwrap();
/// assert_eq!(GroupCount::<String>::decode(&out[0]).unwrap().groups()["a"], 2);
/// ```
pub fn folding<M: Body + Merge>(name: &'static str) -> Folding<Typed<M>> {
    Folding::plain(name)
}

impl<F: Fold> Folding<F> {
    /// Creates a folding whose fold `open` makes from the parameters.
    ///
    /// Its errors begin with `name`, unless `name` is empty.
    pub fn new(name: &'static str, open: impl Fn(&Bytes) -> Result<F> + Send + Sync + 'static) -> Self {
        Self { name, open: Box::new(open), placement: Placement::Measured, empty_adds_nothing: false }
    }

    /// Creates a folding whose fold takes no parameters.
    pub(crate) fn plain(name: &'static str) -> Self
    where
        F: Default,
    {
        Self::new(name, |params| Ok(params::none(params).map(|()| F::default())?))
    }

    /// Sets the place where it runs.
    #[must_use]
    pub fn placed(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Makes the reduce treat a partial of no bytes as one that adds nothing.
    pub(crate) fn with_empty(mut self) -> Self {
        self.empty_adds_nothing = true;
        self
    }

    fn opened(&self, params: &Bytes) -> Result<Opened<F>> {
        let fold = (self.open)(params).map_err(|error| named(self.name, error))?;
        Ok(Opened { name: self.name, fold })
    }
}

fn named(name: &str, error: OperatorError) -> OperatorError {
    if name.is_empty() { error } else { error.context(name) }
}

/// A fold that has read its parameters.
struct Opened<F> {
    name: &'static str,
    fold: F,
}

impl<F: Fold> Opened<F> {
    fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
        self.fold.fold(pieces).map_err(|error| named(self.name, error))
    }
}

impl<F: Fold> Filter for Opened<F> {
    fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        if !wave.pieces.is_empty() {
            out.push(self.fold(wave.pieces)?);
        }
        Ok(())
    }
}

impl<F: Fold> FilterKind for Folding<F> {
    fn open(&self, params: &Bytes) -> Result<Box<dyn Filter>> {
        Ok(Box::new(self.opened(params)?))
    }

    fn placement(&self) -> Placement {
        self.placement
    }
}

impl<F: Fold> Operator for Folding<F> {
    fn local(&self, partition: &Partition, _: &Bytes) -> Outcome {
        let why =
            format!("it is only a reduce and has no local for {partition:?}; register the service's local");
        Outcome::Now(Err(named(self.name, OperatorError::new(why))))
    }

    fn reduce(&self, a: Bytes, b: Bytes, params: &Bytes) -> Outcome {
        if self.empty_adds_nothing && (a.is_empty() || b.is_empty()) {
            return Outcome::Now(Ok(if a.is_empty() { b } else { a }));
        }
        let pieces = [(0, a), (1, b)].map(|(at, payload)| Piece { source: Source::Child(at), payload });
        Outcome::Now(self.opened(params).and_then(|opened| opened.fold(&pieces)))
    }

    fn reduce_all(&self, parts: Vec<Bytes>, params: &Bytes) -> Outcome {
        let counts = |part: &Bytes| !(self.empty_adds_nothing && part.is_empty());
        let piece = |(at, payload)| Piece { source: Source::Child(at), payload };
        let pieces: Vec<Piece> = (0..).zip(parts.into_iter().filter(counts)).map(piece).collect();
        let folded = || match &pieces[..] {
            [] => Ok(Bytes::new()),
            [only] => Ok(only.payload.clone()),
            more => self.opened(params)?.fold(more),
        };
        Outcome::Now(folded())
    }

    fn finish(&self, partial: Bytes, _: &Bytes) -> Result<Bytes> {
        Ok(partial)
    }

    fn placement(&self) -> Placement {
        self.placement
    }

    fn holds_processor(&self) -> bool {
        true
    }

    fn codecs(&self) -> (Codec, Codec) {
        F::CODECS
    }
}

impl<F> fmt::Debug for Folding<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folding")
            .field("name", &self.name)
            .field("placement", &self.placement)
            .finish_non_exhaustive()
    }
}

/// Combines two operators into one aggregation: `reduce` merges partials, and `locals` does everything else.
///
/// The reduce of `locals` is not used. Both operators receive the call's parameters, unless the call has other
/// parameters for its reduce. A call can thus use an
/// [operator that every node has](crate::ready), or a guest, on the partials of a service's own locals. If
/// the locals give samples, [`sampled`](crate::ready::sampled) is shorter.
pub fn over(reduce: Arc<dyn Operator>, locals: Arc<dyn Operator>) -> Arc<dyn Operator> {
    Arc::new(Over { reduce, locals })
}

struct Over {
    reduce: Arc<dyn Operator>,
    locals: Arc<dyn Operator>,
}

impl Operator for Over {
    fn local(&self, partition: &Partition, params: &Bytes) -> Outcome {
        self.locals.local(partition, params)
    }

    fn reduce(&self, a: Bytes, b: Bytes, params: &Bytes) -> Outcome {
        self.reduce.reduce(a, b, params)
    }

    fn reduce_all(&self, parts: Vec<Bytes>, params: &Bytes) -> Outcome {
        self.reduce.reduce_all(parts, params)
    }

    fn reduces_in_pairs(&self) -> bool {
        self.reduce.reduces_in_pairs()
    }

    fn finish(&self, partial: Bytes, params: &Bytes) -> Result<Bytes> {
        self.locals.finish(partial, params)
    }

    fn placement(&self) -> Placement {
        self.reduce.placement()
    }

    fn holds_processor(&self) -> bool {
        self.locals.holds_processor()
    }

    fn gives_slices(&self) -> bool {
        self.locals.gives_slices()
    }

    fn local_slice(&self, partition: &Partition, slice: Slice, params: &Bytes, reduce: &Bytes) -> Outcome {
        self.locals.local_slice(partition, slice, params, reduce)
    }

    fn codecs(&self) -> (Codec, Codec) {
        self.locals.codecs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::{MergeError, Sum};
    use crate::{Aggregation, Raw, erase, ready};

    fn folded(pieces: &[(Source, Bytes)]) -> Result<Vec<Bytes>> {
        let mut filter = folding::<Sum>("total").open(&Bytes::new()).unwrap();
        let piece = |(source, payload): &(Source, Bytes)| Piece { source: *source, payload: payload.clone() };
        let (pieces, mut out) = (pieces.iter().map(piece).collect::<Vec<_>>(), Vec::new());
        filter.up(Wave { tag: 0, pieces: &pieces, now_ns: 0 }, &mut out)?;
        Ok(out)
    }

    #[test]
    fn undecodable_packets_are_reported_with_their_source() {
        let sum = |sum: i64| Sum(sum).encode().unwrap();
        let (endpoint, child) = (Source::Endpoint(1), Source::Child(2));
        assert_eq!(folded(&[(endpoint, sum(40)), (child, sum(2))]).unwrap(), [sum(42)]);
        let refused =
            folded(&[(endpoint, sum(1)), (child, Bytes::from_static(b"\xc1"))]).unwrap_err().to_string();
        assert!(refused.starts_with("total: the packet of child 2: can't read"), "{refused}");
        let refused = folded(&[(endpoint, sum(i64::MAX)), (child, sum(1))]).unwrap_err();
        let cause = refused.cause().and_then(|cause| cause.downcast_ref::<MergeError>());
        assert_eq!(cause, Some(&MergeError::Overflow { figure: "sum" }));
    }

    #[test]
    fn partials_folded_at_once_give_the_same_as_in_pairs() {
        let lines = |text: &'static str| Bytes::from_static(text.as_bytes());
        let (_, reduce) = ready::reduces().find(|(name, _)| *name == "sum-lines").unwrap();
        let words = over(reduce, erase(Words));
        let all = |parts: &[Bytes]| words.reduce_all(parts.to_vec(), &Bytes::new()).now().unwrap().unwrap();
        let parts = [lines("a\t1\nb\t2\n"), Bytes::new(), lines("b\t1\n"), lines("a\t5\n")];
        assert_eq!(all(&parts), lines("a\t6\nb\t3\n"));
        assert_eq!(all(&parts[..2]), parts[0], "nothing is folded");
        assert_eq!(all(&parts[1..2]), Bytes::new());
    }

    #[test]
    fn only_a_partial_that_is_invalid_by_itself_is_blamed() {
        let reduced = |name: &str, a: Bytes, b: Bytes| {
            let (_, reduce) = ready::reduces().find(|(ready, _)| *ready == name).unwrap();
            reduce.reduce(a, b, &Bytes::new()).now().unwrap().unwrap_err().faulty_partial()
        };
        let lines = |text: &'static str| Bytes::from_static(text.as_bytes());
        assert_eq!(reduced("sum-lines", lines("a\t1\n"), lines("b\t1\na\t1\n")), Some(1));
        assert_eq!(reduced("sum-lines", lines("a\n"), lines("a\t1\n")), Some(0));
        let greatest = lines("a\t9223372036854775807\n");
        assert_eq!(reduced("sum-lines", greatest, lines("a\t1\n")), None, "each is valid by itself");

        let sums = folding::<Sum>("total");
        let reduced = |a: Bytes, b: Bytes| sums.reduce(a, b, &Bytes::new()).now().unwrap().unwrap_err();
        let sum = |sum: i64| Sum(sum).encode().unwrap();
        assert_eq!(reduced(Bytes::from_static(b"\xc1"), sum(1)).faulty_partial(), Some(0));
        assert_eq!(reduced(sum(i64::MAX), sum(1)).faulty_partial(), None);
    }

    #[test]
    fn named_operator_folds_partials_of_a_services_locals() {
        let (_, lines) = ready::reduces().find(|(name, _)| *name == "sum-lines").unwrap();
        let words = over(lines, erase(Words));
        let local = |text: &str| {
            let partition = Partition::new("texts".into(), 0, 2, Arc::new(text.to_string()));
            words.local(&partition, &Bytes::new()).now().unwrap().unwrap()
        };
        let both = words.reduce(local("a"), local("b"), &Bytes::new()).now().unwrap().unwrap();
        assert_eq!(words.finish(both, &Bytes::new()).unwrap(), "a\t1\nb\t1\n");
        assert_eq!(words.codecs(), (Codec::Raw, Codec::Raw));
    }

    /// Counts the only word of a partition.
    struct Words;

    impl Aggregation for Words {
        type Params = Raw;
        type Partial = Raw;

        fn local(&self, partition: &Partition, _: &Raw) -> Result<Raw> {
            Ok(Raw(format!("{}\t1\n", partition.data_as::<String>()?).into()))
        }

        fn reduce(&self, _: Raw, _: Raw, _: &Raw) -> Result<Raw> {
            unreachable!("the named operator must reduce instead")
        }
    }
}
