//! A filter that passes on every packet unchanged: MRNet's null filter.

use super::{Filter, FilterKind, Wave};
use crate::aggregation::Placement;
use crate::builtin::{Builtin, Made, named};
use crate::error::Result;
use crate::fold::params;
use bytes::Bytes;

pub(crate) const ENTRY: Builtin = Builtin {
    name: "identity",
    summary: "passes every packet up unchanged",
    params: &[],
    made: Made::Filter(|name| named(name, Identity)),
};

/// Passes on every packet of a wave, in any encoding, without looking inside.
struct Identity;

impl FilterKind for Identity {
    fn open(&self, params: &Bytes) -> Result<Box<dyn Filter>> {
        params::none(params)?;
        Ok(Box::new(Self))
    }

    fn placement(&self) -> Placement {
        Placement::Inline
    }
}

impl Filter for Identity {
    fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        out.extend(wave.pieces.iter().map(|piece| piece.payload.clone()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::fold::laws;
    use bytes::Bytes;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_tree_passes_all_packets_unchanged(
            samples in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..8), 1..12),
            tree in laws::tree(),
        ) {
            let mut samples: Vec<Bytes> = samples.into_iter().map(Bytes::from).collect();
            let mut came = laws::climbed("identity", &(), &samples, &tree);
            samples.sort();
            came.sort();
            prop_assert_eq!(came, samples);
        }
    }
}
