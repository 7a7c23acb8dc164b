//! What was answered is kept until its deadline, within bounds.
//!
//! Should a parent die after its child has answered, the grandparent asks the child again, and the child must
//! still have its partial (DESIGN 4.6). Kept partials are bounded in number and bytes; the oldest go first, since
//! they are the least likely to be asked for. A wave that is gone is simply run again when asked.

use crate::id::Tag;
use alloc::collections::BTreeMap;

/// Names a kept wave: the how-manieth it is.
pub(crate) type KeptId = u64;

/// The answered waves, oldest first.
#[derive(Debug)]
pub(crate) struct Kept {
    waves: BTreeMap<KeptId, (Tag, usize)>,
    next: KeptId,
    bytes: usize,
    waves_max: usize,
    bytes_max: usize,
}

impl Kept {
    pub(crate) const fn new(waves_max: usize, bytes_max: usize) -> Self {
        Self { waves: BTreeMap::new(), next: 0, bytes: 0, waves_max, bytes_max }
    }

    /// How many waves are kept.
    pub(crate) fn len(&self) -> usize {
        self.waves.len()
    }

    /// Bytes of their partials.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A wave is kept from now on.
    pub(crate) fn push(&mut self, tag: Tag, bytes: usize) -> KeptId {
        self.next += 1;
        self.waves.insert(self.next, (tag, bytes));
        self.bytes += bytes;
        self.next
    }

    /// A wave is no longer kept.
    pub(crate) fn remove(&mut self, id: KeptId) {
        if let Some((_, bytes)) = self.waves.remove(&id) {
            self.bytes -= bytes;
        }
    }

    /// Takes out the oldest wave while there are too many or they are too large.
    pub(crate) fn pop_over_limit(&mut self) -> Option<Tag> {
        if self.waves.len() <= self.waves_max && self.bytes <= self.bytes_max {
            return None;
        }
        let (_, (tag, bytes)) = self.waves.pop_first()?;
        self.bytes -= bytes;
        Some(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::WaveId;

    #[test]
    fn the_oldest_goes_first_when_there_is_too_much() {
        let tag = |sequence| Tag { wave: WaveId { origin: 1, sequence }, branch: 0 };
        let mut kept = Kept::new(2, 100);
        let first = kept.push(tag(1), 10);
        kept.push(tag(2), 10);
        assert_eq!(kept.pop_over_limit(), None);
        kept.push(tag(3), 95);
        assert_eq!(kept.pop_over_limit(), Some(tag(1)), "three are too many");
        assert_eq!(kept.pop_over_limit(), Some(tag(2)), "105 bytes are too many");
        assert_eq!(kept.pop_over_limit(), None);
        kept.remove(first);
        assert_eq!((kept.len(), kept.bytes()), (1, 95), "what is gone is not taken off twice");
    }
}
