//! A filter with state: passes on only the payloads that differ from the last one of the same endpoint.
//!
//! If nothing changed in a wave, it sends no packet. Packets do not name their sender, so this suits payloads
//! that contain it (`host7 degraded`).

use std::collections::BTreeMap;
use treefold_guest::{Error, Filter, Packets, Result, Source, Wave, export_filter};

/// The last payload of each endpoint on this node.
pub struct Changes(BTreeMap<Source, Vec<u8>>);

impl Filter for Changes {
    fn open(params: &[u8]) -> Result<Self> {
        if params.is_empty() {
            Ok(Self(BTreeMap::new()))
        } else {
            Err(Error::new("changes takes no parameters"))
        }
    }

    fn up(&mut self, wave: Wave<'_>, out: &mut Packets) -> Result {
        for piece in wave.pieces {
            let changed = match piece.source {
                // The same filter at the child has already dropped unchanged payloads.
                Source::Child(_) => true,
                Source::Endpoint(_) => match self.0.get_mut(&piece.source) {
                    Some(last) if last == piece.payload => false,
                    Some(last) => {
                        piece.payload.clone_into(last);
                        true
                    }
                    None => self.0.insert(piece.source, piece.payload.to_vec()).is_none(),
                },
            };
            if changed {
                out.push(piece.payload);
            }
        }
        Ok(())
    }

    fn replaced(&mut self, lost: Source, _heirs: &[Source]) {
        self.0.remove(&lost);
    }
}

export_filter!(Changes);
