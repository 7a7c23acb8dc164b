//! A filter with state: of each source, only what differs from the last.
//!
//! A wave in which nothing changed gives no packet at all. Packets bear no word of who sent them, so this is for
//! payloads that say so themselves (`host7 degraded`).

use std::collections::BTreeMap;
use treefold_guest::{Error, Filter, Packets, Result, Source, Wave, export_filter};

/// The last payload of each endpoint that lives here.
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
                // or this same filter would not have sent it from there
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
