//! The open waves of a process, by number.
//!
//! The launcher numbers waves without gaps, and every process gets them in this order, so a queue that begins
//! with the oldest open wave finds each by its number. A wave that ends before an older one keeps its entry until
//! the older one has ended.

use crate::options::DEPTH_MAX;
use std::collections::VecDeque;
use std::io;

/// Most entries: the launcher has no more waves in flight.
const OPEN_MAX: usize = DEPTH_MAX as usize;

/// Waves that wait for sums.
#[derive(Debug, Default)]
pub(crate) struct Waves {
    /// Number of the oldest wave in `open`, or of the next wave if there is none.
    first: u64,
    open: VecDeque<Open>,
}

/// One wave.
#[derive(Debug)]
struct Open {
    /// The sum so far.
    sum: u64,
    /// Number of children whose sums are missing. The wave has ended if it is 0.
    missing: usize,
}

impl Waves {
    /// Opens the next wave, with the process's own share.
    ///
    /// # Errors
    /// If the number is not the next one, or too many waves are open: the peer is out of step.
    pub(crate) fn open(&mut self, wave: u64, share: u64, children: usize) -> io::Result<()> {
        let next = self.first + self.open.len() as u64;
        if wave != next {
            return Err(out_of_step(format!("expected wave {next}, found {wave}")));
        }
        if self.open.len() == OPEN_MAX {
            return Err(out_of_step(format!("more than {OPEN_MAX} waves are open")));
        }
        self.open.push_back(Open { sum: share, missing: children });
        Ok(())
    }

    /// Adds a child's sum to its wave. Returns the whole sum if it was the last missing one.
    ///
    /// # Errors
    /// If no such wave waits for a sum.
    pub(crate) fn add(&mut self, wave: u64, sum: u64) -> io::Result<Option<u64>> {
        let at = wave.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let open = at.and_then(|at| self.open.get_mut(at)).filter(|open| open.missing > 0);
        let open = open.ok_or_else(|| out_of_step(format!("no wave {wave} waits for a sum")))?;
        open.sum = open.sum.wrapping_add(sum);
        open.missing -= 1;
        let whole = (open.missing == 0).then_some(open.sum);
        while self.open.front().is_some_and(|open| open.missing == 0) {
            self.open.pop_front();
            self.first += 1;
        }
        Ok(whole)
    }
}

fn out_of_step(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_end_in_any_order() {
        let mut waves = Waves::default();
        for wave in 0..3 {
            waves.open(wave, 100 * wave, 2).unwrap();
        }
        assert_eq!(waves.add(2, 1).unwrap(), None);
        assert_eq!(waves.add(2, 2).unwrap(), Some(203));
        assert_eq!(waves.add(0, 1).unwrap(), None);
        assert_eq!(waves.add(1, 5).unwrap(), None);
        assert_eq!(waves.add(0, 1).unwrap(), Some(2));
        assert_eq!(waves.add(1, 5).unwrap(), Some(110));
        assert!(waves.open.is_empty());
        waves.open(3, 0, 1).unwrap();
        assert_eq!(waves.add(3, 7).unwrap(), Some(7));
    }

    #[test]
    fn sums_for_waves_that_do_not_wait_are_refused() {
        let mut waves = Waves::default();
        waves.open(0, 0, 1).unwrap();
        waves.open(1, 0, 1).unwrap();
        assert_eq!(waves.add(1, 0).unwrap(), Some(0));
        for wave in [1, 2, u64::MAX] {
            let refused = waves.add(wave, 0).unwrap_err().to_string();
            assert_eq!(refused, format!("no wave {wave} waits for a sum"));
        }
    }

    #[test]
    fn open_waves_are_bounded_and_have_no_gap() {
        let mut waves = Waves::default();
        assert_eq!(waves.open(1, 0, 1).unwrap_err().to_string(), "expected wave 0, found 1");
        let next = (0..).find(|&wave| waves.open(wave, 0, 1).is_err()).unwrap();
        assert_eq!(next, OPEN_MAX as u64);
        assert_eq!(waves.open(next, 0, 1).unwrap_err().to_string(), "more than 1024 waves are open");
        waves.add(0, 0).unwrap();
        waves.open(next, 0, 1).unwrap();
    }
}
