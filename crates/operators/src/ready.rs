//! Reduces that every node has, so that they need no code at the nodes.
//!
//! They serve applications whose workers push partials, and calls whose locals give [samples](sampled()).
//! Every [built-in operator](crate::filter::builtins) that folds partials is such a reduce, under its own
//! name. Its partials are the packets that the filter of that name sends up, and its parameters are the
//! filter's. Only `merge-sorted` has another format: as a reduce, a run is one packet of keys and values; in
//! a stream, it is many chunks.
//!
//! Each reduce is associative and, except for the order in `append` and `concatenate`, commutative. A body of
//! no bytes adds nothing to any of them. A partial that violates its format or order is an error, because it
//! would corrupt every result above it.

use crate::aggregation::{Partition, Placement};
use crate::builtin::{Stateless, builtins};
use crate::codec::{Body, Codec};
use crate::declared::{Declared, ReduceParams};
use crate::erased::{Operator, Outcome, params_of};
use crate::error::{OperatorError, Result};
use crate::filter::Wave;
use crate::fold::{Piece, Source};
use bytes::Bytes;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use treefold_core::wave::slice::Slice;

/// Returns all ready reduces with their names.
///
/// ```
/// use bytes::Bytes;
/// use treefold_operators::ready;
///
/// let (_, reduce) = ready::reduces().find(|(name, _)| *name == "sum-lines").unwrap();
/// let run = |text: &'static str| Bytes::from_static(text.as_bytes());
/// let both = reduce.reduce(run("a\t2\nc\t1\n"), run("a\t1\nb\t5\n"), &Bytes::new());
/// assert_eq!(both.now().unwrap().unwrap(), "a\t3\nb\t5\nc\t1\n");
/// ```
pub fn reduces() -> impl Iterator<Item = (&'static str, Arc<dyn Operator>)> {
    builtins().iter().filter_map(|entry| Some((entry.name, entry.reduce()?)))
}

/// Creates a call whose locals give the samples that the endpoints of a stream would send.
///
/// The reduce with the name `name` folds the samples. `params` are the parameters of the reduce; the locals
/// get the call's.
///
/// ```
/// use treefold_operators::packet::Row;
/// use treefold_operators::{Partition, ready};
///
/// let mean_length = ready::sampled("average", &(), |partition: &Partition, (): &()| {
///     Ok(Row::new().u64(partition.data_as::<String>()?.len() as u64).packet())
/// });
/// # mean_length.unwrap();
/// ```
///
/// # Errors
/// If no reduce has that name, or if the reduce rejects its parameters.
pub fn sampled<P: Body + Sync, S: Body>(
    name: &str,
    params: &impl Body,
    sample: impl Fn(&Partition, &P) -> Result<S> + Send + Sync + 'static,
) -> Result<Arc<dyn Operator>> {
    let (fold, params) = (Ready::of(name)?, params.encode()?);
    fold.check(&params)?;
    let sample = move |partition: &Partition, params: &P, _: Slice| sample(partition, params);
    Ok(Arc::new(Sampled { fold, params, sample, gives_slices: false, types: PhantomData }))
}

/// As [`sampled()`], for locals that give one slice of the sample: the whole is slice 0 of 1. A caller can then ask for one
/// slice after another ([`Operator::local_slice`]).
///
/// ```
/// use treefold_operators::{Partition, Raw, Slice, ready, slice_range};
///
/// let lines = ready::sampled_in_slices("append", &(), |partition: &Partition, (): &(), slice: Slice| {
///     let lines = partition.data_as::<Vec<&str>>()?;
///     Ok(Raw(lines[slice_range(lines.len(), slice)].concat().into()))
/// });
/// # lines.unwrap();
/// ```
///
/// # Errors
/// As [`sampled()`].
pub fn sampled_in_slices<P: Body + Sync, S: Body>(
    name: &str,
    params: &impl Body,
    sample: impl Fn(&Partition, &P, Slice) -> Result<S> + Send + Sync + 'static,
) -> Result<Arc<dyn Operator>> {
    let (fold, params) = (Ready::of(name)?, params.encode()?);
    fold.check(&params)?;
    Ok(Arc::new(Sampled { fold, params, sample, gives_slices: true, types: PhantomData }))
}

/// A ready reduce, and how samples become its partials. Its parameters are given each time, so they may be a part of
/// the parameters of each call.
#[derive(Clone)]
pub struct Ready {
    name: &'static str,
    uses: Stateless,
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ready").field(&self.name).finish()
    }
}

impl Ready {
    /// The ready reduce with this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn of(name: &str) -> Result<Self> {
        let entry = builtins().iter().find(|entry| entry.name == name);
        let ready = entry.and_then(|entry| Some(Self { name: entry.name, uses: entry.both_uses()? }));
        ready.ok_or_else(|| OperatorError::new(format!("no built-in reduce is named `{name}`")))
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Checks its parameters.
    ///
    /// # Errors
    /// If the reduce rejects them.
    pub fn check(&self, params: &Bytes) -> Result<()> {
        self.uses.0.open(params).map(drop)
    }

    /// Makes a partition's sample a partial.
    ///
    /// # Errors
    /// If the reduce rejects its parameters, or cannot fold the sample.
    pub fn partial(&self, partition: u32, sample: Bytes, params: &Bytes) -> Result<Bytes> {
        let pieces = [Piece { source: Source::Endpoint(partition), payload: sample }];
        let mut out = Vec::with_capacity(1);
        self.uses.0.open(params)?.up(Wave { tag: 0, pieces: &pieces, now_ns: 0 }, &mut out)?;
        Ok(out.pop().expect("invariant: a fold gives one packet"))
    }

    /// The reduce with these parameters, as an operator that folds and has no locals.
    ///
    /// # Errors
    /// If the reduce rejects parameters that are the same in every call.
    pub fn given(&self, params: ReduceParams) -> Result<Arc<dyn Operator>> {
        if let ReduceParams::Fixed(params) = &params {
            self.check(params)?;
        }
        Ok(params.given_to(Arc::clone(self.reduce())))
    }

    /// The reduce as an operator, to fold partials.
    pub fn reduce(&self) -> &Arc<dyn Operator> {
        &self.uses.1
    }
}

struct Sampled<F, P, S> {
    fold: Ready,
    params: Bytes,
    sample: F,
    gives_slices: bool,
    types: PhantomData<fn(&P) -> S>,
}

impl<F, P, S> Operator for Sampled<F, P, S>
where
    F: Fn(&Partition, &P, Slice) -> Result<S> + Send + Sync,
    P: Body + Sync,
    S: Body,
{
    fn local(&self, partition: &Partition, params: &Bytes) -> Outcome {
        self.local_slice(partition, Slice::WHOLE, params, params)
    }

    fn gives_slices(&self) -> bool {
        self.gives_slices
    }

    fn local_slice(&self, partition: &Partition, slice: Slice, params: &Bytes, _: &Bytes) -> Outcome {
        let partial = || {
            let sample = (self.sample)(partition, &params_of(params)?, slice)?.encode()?;
            self.fold.partial(partition.id, sample, &self.params)
        };
        Outcome::Now(partial())
    }

    fn reduce(&self, a: Bytes, b: Bytes, _: &Bytes) -> Outcome {
        self.fold.reduce().reduce(a, b, &self.params)
    }

    fn reduce_all(&self, parts: Vec<Bytes>, _: &Bytes) -> Outcome {
        self.fold.reduce().reduce_all(parts, &self.params)
    }

    fn finish(&self, partial: Bytes, _: &Bytes) -> Result<Bytes> {
        Ok(partial)
    }

    fn placement(&self) -> Placement {
        self.fold.reduce().placement()
    }

    fn holds_processor(&self) -> bool {
        true
    }

    fn declared(&self) -> Option<Declared> {
        Some(Declared { reduce: self.fold.name.to_owned(), params: ReduceParams::Fixed(self.params.clone()) })
    }

    fn codecs(&self) -> (Codec, Codec) {
        (P::CODEC, self.fold.reduce().codecs().1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Packet, Row};
    use std::collections::BTreeMap;

    fn reduced(name: &str, a: &Bytes, b: &Bytes, params: &Bytes) -> Result<Bytes> {
        let (_, reduce) = reduces().find(|(known, _)| *known == name).expect("a reduce of that name");
        reduce.reduce(a.clone(), b.clone(), params).now().expect("a ready reduce never waits")
    }

    #[test]
    fn reduces_fold_packets_as_filters_do_in_streams() {
        let packet = |n: i64| Row::new().i64(n).f64s(&[1.0, 2.0]).packet().into_bytes();
        let sum = reduced("sum", &packet(2), &packet(40), &Bytes::new()).unwrap();
        assert_eq!(Packet::read(&sum).unwrap(), Row::new().i64(42).f64s(&[2.0, 4.0]).packet());
        let refused = reduced("sum", &packet(2), &Bytes::from_static(b"\x01"), &Bytes::new()).unwrap_err();
        assert!(refused.to_string().starts_with("sum: "), "{refused}");
        let refused = reduced("top-k", &packet(2), &packet(1), &Bytes::new()).unwrap_err();
        assert!(refused.to_string().starts_with("top-k: "), "{refused}");
    }

    #[test]
    fn empty_partial_adds_nothing_in_every_reduce() {
        let some = Bytes::from_static(b"some bytes");
        for (name, _) in reduces() {
            assert_eq!(reduced(name, &some, &Bytes::new(), &Bytes::new()).unwrap(), some, "{name}");
            assert_eq!(reduced(name, &Bytes::new(), &some, &Bytes::new()).unwrap(), some, "{name}");
        }
    }

    #[test]
    fn parameters_of_each_call_are_those_of_the_samples_fold() {
        let top = Ready::of("top-k").unwrap();
        let params = |k: u32| BTreeMap::from([("k".to_string(), k)]).encode().unwrap();
        let sample = Row::new().f64s(&[1.0, 3.0, 2.0]).strs(&["a", "c", "b"]).packet().into_bytes();
        for k in [1, 2] {
            let partial = top.partial(0, sample.clone(), &params(k)).unwrap();
            assert_eq!(Packet::read(&partial).unwrap().f64s(0).unwrap().iter().count(), k as usize);
        }
        assert!(top.check(&params(0)).unwrap_err().to_string().contains("not within"));
        assert!(top.partial(0, sample, &params(0)).is_err());
        assert!(Ready::of("identity").is_err());
    }

    #[test]
    fn parameters_of_a_reduce_without_parameters_are_refused() {
        let some = Bytes::from_static(b"a\n");
        let refused = reduced("merge-lines", &some, &some, &some).unwrap_err().to_string();
        assert!(refused.starts_with("merge-lines: parameters: "), "{refused}");
    }
}
