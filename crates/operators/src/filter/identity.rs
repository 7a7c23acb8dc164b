//! Everything, as it came: MRNet's null filter.

use super::builtin::{Builtin, opens_inline};
use super::{Filter, Wave, params};
use crate::error::Result;
use bytes::Bytes;

pub(super) const ENTRY: Builtin = Builtin {
    name: "identity",
    summary: "every packet goes up as it is",
    params: &[],
    kind: |name| opens_inline(name, Identity::open),
};

/// Passes on every packet of a wave, of whatever encoding, without looking inside.
pub(super) struct Identity;

impl Identity {
    fn open(params: &Bytes) -> Result<Self> {
        params::none(params)?;
        Ok(Self)
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
    use crate::filter::laws;
    use bytes::Bytes;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_is_lost_or_changed_in_any_tree(
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
