//! The fold `hosts`: turns the samples that endpoints send into the partial that calls give, wave by wave.
//!
//! A piece from an endpoint is a [`Sample`] and is lifted into a partial. A piece from a child is a partial
//! of this same fold and is merged.

use crate::hosts::Hosts;
use crate::now::Ask;
use crate::sample::Sample;
use bytes::Bytes;
use treefold_operators::fold::{Fold, Piece, Source};
use treefold_operators::{Body, Codec, Folding, Merge, OperatorError, Result};

/// Folds hosts. Its parameters are an [`Ask`], or nothing.
#[derive(Debug)]
pub struct HostsFold {
    top: u32,
}

/// The operator that folds hosts, for streams and for pushes.
pub fn folding() -> Folding<HostsFold> {
    Folding::new("", HostsFold::open)
}

impl HostsFold {
    fn open(params: &Bytes) -> Result<Self> {
        let ask = Option::<Ask>::decode(params).map_err(OperatorError::invalid_params)?;
        Ok(Self { top: Ask::top(ask)? })
    }
}

impl Fold for HostsFold {
    const CODECS: (Codec, Codec) = (Codec::MessagePack, Codec::MessagePack);

    fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
        let mut folded = Hosts::default();
        for pieces in pieces.chunk_by(|a, b| a.source == b.source) {
            match pieces[0].source {
                // A host counts once, even if it sent several samples under this tag: the last one is used.
                Source::Endpoint(_) => {
                    let last = pieces.last().expect("invariant: chunks are not empty");
                    let sample: Sample = last.read()?;
                    let host = Hosts::of(&sample, self.top).map_err(|error| last.refused(error))?;
                    folded.merge(host).map_err(|error| last.refused(error))?;
                }
                Source::Child(_) => {
                    for piece in pieces {
                        folded.merge(piece.read()?).map_err(|error| piece.refused(error))?;
                    }
                }
            }
        }
        Ok(folded.encode()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::tests::samples;
    use proptest::prelude::*;
    use treefold_operators::merge::laws::merged;
    use treefold_operators::{FilterKind, Operator};

    fn up(top: u32, pieces: &[Piece]) -> Result<Bytes> {
        HostsFold::open(&Ask { top }.encode().unwrap())?.fold(pieces)
    }

    fn sent(endpoint: u32, sample: &Sample) -> Piece {
        Piece { source: Source::Endpoint(endpoint), payload: sample.encode().unwrap() }
    }

    proptest! {
        #[test]
        fn stream_and_call_give_the_same_partial(samples in proptest::collection::vec(samples(), 2..8), at in any::<usize>()) {
            let called = samples.iter().map(|sample| Hosts::of(sample, 3).unwrap()).reduce(merged).unwrap();
            let pieces: Vec<Piece> = (0..).zip(&samples).map(|(endpoint, sample)| sent(endpoint, sample)).collect();
            let (below, here) = pieces.split_at(1 + at % (pieces.len() - 1));
            let from_child = Piece { source: Source::Child(0), payload: up(3, below).unwrap() };
            let streamed = up(3, &[here, std::slice::from_ref(&from_child)].concat()).unwrap();
            prop_assert_eq!(&streamed, &called.encode().unwrap());
            let rest = up(3, here).unwrap();
            let pushed = folding().reduce(rest, from_child.payload, &Bytes::new()).now().unwrap().unwrap();
            prop_assert_eq!(pushed, streamed);
        }

        #[test]
        fn host_with_two_samples_counts_once(first in samples(), last in samples()) {
            let twice = up(3, &[sent(1, &first), sent(1, &last)]).unwrap();
            prop_assert_eq!(twice, up(3, &[sent(1, &last)]).unwrap());
        }
    }

    #[test]
    fn invalid_sample_is_an_error() {
        let garbage = Piece { source: Source::Endpoint(1), payload: Bytes::from_static(b"\xc1") };
        let said = up(3, &[garbage]).unwrap_err().to_string();
        assert!(said.starts_with("the packet of endpoint 1: can't read"), "{said}");
        let refused = folding().open(&Ask { top: 0 }.encode().unwrap()).err().unwrap().to_string();
        assert_eq!(refused, "top is 0; allowed: 1 to 64");
    }
}
