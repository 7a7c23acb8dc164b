//! The law of a stateless filter, checked by random trees: whatever the tree between the endpoints and the front-end,
//! the front-end gets the same. Each filter's tests call it.

use super::{Filter, Piece, Source, Wave, builtin};
use crate::codec::Body;
use crate::error::Result;
use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// A built-in filter, opened.
pub(crate) fn opened(name: &str, params: &impl Body) -> Box<dyn Filter> {
    let kind = builtin::builtin(name).expect("a built-in filter");
    kind.open(&params.encode().expect("parameters can be written")).expect("parameters are right")
}

/// What one node makes of one wave.
pub(crate) fn up(name: &str, params: &impl Body, pieces: &[(Source, Bytes)]) -> Result<Vec<Bytes>> {
    let mut out = Vec::new();
    let piece = |(source, payload): &(Source, Bytes)| Piece { source: *source, payload: payload.clone() };
    let pieces: Vec<Piece> = pieces.iter().map(piece).collect();
    opened(name, params).up(Wave { tag: 0, pieces: &pieces, now_ns: 0 }, &mut out)?;
    Ok(out)
}

/// Draws that make a random tree; see [`climbed`].
pub(crate) fn tree() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(any::<usize>(), 0..40)
}

enum Part {
    Sample(u32, Bytes),
    Partial(Vec<Bytes>),
}

/// What the front-end gets of `samples`, one of each endpoint, through a random tree.
///
/// Each draw makes a node: of the samples and partials that are left, some (one to four) meet there, in any order.
pub(crate) fn climbed(name: &str, params: &impl Body, samples: &[Bytes], tree: &[usize]) -> Vec<Bytes> {
    let mut draws = tree.iter().copied();
    let mut parts: Vec<Part> =
        (0..).zip(samples).map(|(id, sample)| Part::Sample(id, sample.clone())).collect();
    loop {
        if let [Part::Partial(packets)] = &parts[..] {
            return packets.clone();
        }
        let draw = draws.next();
        let meeting = draw.map_or(3, |draw| 1 + draw % 4).min(parts.len());
        let mut pieces = Vec::new();
        for child in 0..meeting as u32 {
            let at = draw.unwrap_or(0) / 4 % parts.len();
            match parts.swap_remove(at) {
                Part::Sample(id, sample) => pieces.push((Source::Endpoint(id), sample)),
                Part::Partial(packets) => {
                    pieces.extend(packets.into_iter().map(|packet| (Source::Child(child), packet)));
                }
            }
        }
        parts.push(Part::Partial(up(name, params, &pieces).expect("these samples fold")));
    }
}

/// One node with all endpoints on it, against a random tree.
pub(crate) fn any_tree_gives_the_same_bytes(
    name: &str,
    params: &impl Body,
    samples: &[Bytes],
    tree: &[usize],
) -> Result<(), TestCaseError> {
    let pieces: Vec<_> = (0..).map(Source::Endpoint).zip(samples.iter().cloned()).collect();
    let flat = up(name, params, &pieces).expect("these samples fold");
    prop_assert_eq!(climbed(name, params, samples, tree), flat);
    Ok(())
}
