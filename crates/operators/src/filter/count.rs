//! How many endpoints' packets there were, whatever is in them.

use super::builtin::{Builtin, opens_inline};
use super::error::FilterError;
use super::{Filter, Source, Wave, params};
use crate::error::Result;
use crate::packet::{Packet, Row};
use bytes::Bytes;

pub(super) const ENTRY: Builtin = Builtin {
    name: "count",
    summary: "how many packets the endpoints sent",
    params: &[],
    kind: |name| opens_inline(name, Count::open),
};

/// Counts packets of any encoding; gives a packet `u64`.
pub(super) struct Count;

impl Count {
    fn open(params: &Bytes) -> Result<Self> {
        params::none(params)?;
        Ok(Self)
    }
}

impl Filter for Count {
    fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        let mut total = 0u64;
        for piece in wave.pieces {
            let of_piece = match piece.source {
                Source::Endpoint(_) => 1,
                Source::Child(_) => Packet::read(&piece.payload)
                    .and_then(|packet| packet.u64(0))
                    .map_err(FilterError::packet(piece.source))?,
            };
            total = total
                .checked_add(of_piece)
                .ok_or_else(|| FilterError::Overflow { figure: "count".into() })?;
        }
        out.push(Row::new().u64(total).packet().into_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_tree_gives_the_same_bytes(
            samples in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..8), 1..16),
            tree in laws::tree(),
        ) {
            let samples: Vec<Bytes> = samples.into_iter().map(Bytes::from).collect();
            laws::any_tree_gives_the_same_bytes("count", &(), &samples, &tree)?;
            let counted = laws::climbed("count", &(), &samples, &tree).remove(0);
            prop_assert_eq!(Packet::read(&counted).unwrap().u64(0), Ok(samples.len() as u64));
        }
    }

    #[test]
    fn a_child_that_gives_no_count_is_named() {
        let text = Row::new().str("x").packet().into_bytes();
        let refused = laws::up("count", &(), &[(Source::Child(2), text)]).unwrap_err().to_string();
        assert_eq!(refused, "count: the packet of child 2: field 0 of a packet `str` is no u64");
    }
}
