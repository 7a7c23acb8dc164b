//! The filter `hosts`: samples that endpoints send become the partial that calls give, wave by wave.
//!
//! A piece from an endpoint is a [`Sample`] and is lifted; a piece from a child is what this filter gave there and is
//! merged. It remembers nothing from wave to wave.

use crate::hosts::Hosts;
use crate::now::Ask;
use crate::sample::Sample;
use bytes::Bytes;
use treefold_operators::filter::{Filter, FilterKind, Source, Wave};
use treefold_operators::{Body, Merge, OperatorError, Result};

/// The kind of filter that folds hosts; its parameters are an [`Ask`], or nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Folding;

impl FilterKind for Folding {
    fn open(&self, params: &Bytes) -> Result<Box<dyn Filter>> {
        let ask =
            Option::<Ask>::decode(params).map_err(|error| OperatorError::caused_by("parameters", error))?;
        Ok(Box::new(Fold { top: Ask::top(ask)? }))
    }
}

/// One stream's filter at one node.
#[derive(Debug)]
struct Fold {
    top: u32,
}

impl Filter for Fold {
    fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        let mut folded = Hosts::default();
        for pieces in wave.pieces.chunk_by(|a, b| a.source == b.source) {
            match pieces[0].source {
                // A host is one host however often it spoke under this tag: its last word counts.
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
        out.push(folded.encode()?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::tests::samples;
    use proptest::prelude::*;
    use treefold_operators::filter::Piece;
    use treefold_operators::merge::laws::merged;

    fn filter(top: u32) -> Box<dyn Filter> {
        Folding.open(&Ask { top }.encode().unwrap()).unwrap()
    }

    fn up(filter: &mut dyn Filter, pieces: &[Piece]) -> Result<Bytes> {
        let mut out = Vec::new();
        filter.up(Wave { tag: 1, pieces, now_ns: 0 }, &mut out)?;
        assert_eq!(out.len(), 1, "a wave becomes one packet");
        Ok(out.remove(0))
    }

    fn sent(endpoint: u32, sample: &Sample) -> Piece {
        Piece { source: Source::Endpoint(endpoint), payload: sample.encode().unwrap() }
    }

    proptest! {
        #[test]
        fn a_stream_says_what_a_call_says(samples in proptest::collection::vec(samples(), 2..8), at in any::<usize>()) {
            let called = samples.iter().map(|sample| Hosts::of(sample, 3).unwrap()).reduce(merged).unwrap();
            let pieces: Vec<Piece> = (0..).zip(&samples).map(|(endpoint, sample)| sent(endpoint, sample)).collect();
            let (below, here) = pieces.split_at(1 + at % (pieces.len() - 1));
            let from_child = Piece { source: Source::Child(0), payload: up(&mut *filter(3), below).unwrap() };
            let streamed = up(&mut *filter(3), &[here, &[from_child]].concat()).unwrap();
            prop_assert_eq!(streamed, called.encode().unwrap());
        }

        #[test]
        fn a_host_that_spoke_twice_is_one_host(first in samples(), last in samples()) {
            let twice = up(&mut *filter(3), &[sent(1, &first), sent(1, &last)]).unwrap();
            prop_assert_eq!(twice, up(&mut *filter(3), &[sent(1, &last)]).unwrap());
        }
    }

    #[test]
    fn what_is_no_sample_is_an_error_and_the_filter_goes_on() {
        let mut filter = filter(3);
        let garbage = Piece { source: Source::Endpoint(1), payload: Bytes::from_static(b"\xc1") };
        let said = up(&mut *filter, &[garbage]).unwrap_err().to_string();
        assert!(said.starts_with("the packet of endpoint 1: can't read"), "{said}");
        let refused = Folding.open(&Ask { top: 0 }.encode().unwrap()).err().unwrap().to_string();
        assert_eq!(refused, "top is 0; allowed: 1 to 64");
    }
}
