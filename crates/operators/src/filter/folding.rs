//! A filter of any partial that merges: what calls fold with ([`merge`](crate::merge)), streams fold with too.

use super::{Filter, FilterKind, Wave, params};
use crate::aggregation::Placement;
use crate::codec::Body;
use crate::error::{OperatorError, Result};
use crate::merge::Merge;
use bytes::Bytes;
use std::fmt;
use std::marker::PhantomData;

/// A filter whose packets are bodies of type `M`, from endpoints and children alike, folded into one; see
/// [`folding`].
pub struct Folding<M> {
    name: &'static str,
    placement: Placement,
    merge: PhantomData<fn() -> M>,
}

/// The filter that merges the packets of a wave into one. Its errors begin with `name`; it takes no parameters.
///
/// ```
/// use treefold_operators::filter::{FilterKind, Piece, Source, Wave, folding};
/// use treefold_operators::merge::GroupCount;
/// use treefold_operators::Body;
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
pub fn folding<M: Body + Merge>(name: &'static str) -> Folding<M> {
    Folding { name, placement: Placement::Measured, merge: PhantomData }
}

impl<M> Folding<M> {
    /// The same, run elsewhere.
    #[must_use]
    pub fn placed(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }
}

impl<M: Body + Merge> FilterKind for Folding<M> {
    fn open(&self, params: &Bytes) -> Result<Box<dyn Filter>> {
        params::none(params).map_err(|error| OperatorError::from(error).context(self.name))?;
        Ok(Box::new(Opened::<M> { name: self.name, merge: PhantomData }))
    }

    fn placement(&self) -> Placement {
        self.placement
    }
}

impl<M> fmt::Debug for Folding<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folding").field("name", &self.name).field("placement", &self.placement).finish()
    }
}

struct Opened<M> {
    name: &'static str,
    merge: PhantomData<fn() -> M>,
}

impl<M: Body + Merge> Filter for Opened<M> {
    fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        let mut total: Option<M> = None;
        for piece in wave.pieces {
            let partial = piece.read::<M>().map_err(|error| error.context(self.name))?;
            match &mut total {
                Some(total) => {
                    total.merge(partial).map_err(|error| piece.refused(error).context(self.name))?;
                }
                None => total = Some(partial),
            }
        }
        if let Some(total) = total {
            out.push(total.encode()?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{Piece, Source};
    use crate::merge::{MergeError, Sum};

    fn folded(pieces: &[(Source, Bytes)]) -> Result<Vec<Bytes>> {
        let mut filter = folding::<Sum>("total").open(&Bytes::new()).unwrap();
        let piece = |(source, payload): &(Source, Bytes)| Piece { source: *source, payload: payload.clone() };
        let (pieces, mut out) = (pieces.iter().map(piece).collect::<Vec<_>>(), Vec::new());
        filter.up(Wave { tag: 0, pieces: &pieces, now_ns: 0 }, &mut out)?;
        Ok(out)
    }

    #[test]
    fn merges_what_decodes_and_names_who_sent_what_does_not() {
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
}
