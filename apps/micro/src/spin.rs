//! Work that uses a processor: the paper's MICRO as it was run.

use crate::folded::Folded;
use crate::work::{Misbehaviour, Work};
use crate::{cpu, draw};
use std::thread;
use std::time::Duration;
use treefold_operators::{Aggregation, Merge, OperatorError, Partition, Placement, Result};

/// Length of one sleep of a stalled local, which sleeps again and again for ever.
const STALL_NAP: Duration = Duration::from_secs(3600);

/// Spins a processor for each local and each reduce.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spin;

impl Aggregation for Spin {
    type Params = Work;
    type Partial = Folded;

    /// # Panics
    /// For the partitions listed in `panic`.
    fn local(&self, partition: &Partition, work: &Work) -> Result<Folded> {
        match work.misbehaviour(partition) {
            Some(Misbehaviour::Fail) => return Err(failure(partition)),
            Some(Misbehaviour::Panic) => panic!("partition {} was asked to panic", partition.id),
            Some(Misbehaviour::Stall) => loop {
                thread::sleep(STALL_NAP);
            },
            None => {}
        }
        spin(work.duration(work.local_ms, draw::local_of(partition.id)))?;
        Ok(Folded::of(partition, work))
    }

    fn reduce(&self, mut a: Folded, b: Folded, work: &Work) -> Result<Folded> {
        spin(work.duration(work.reduce_ms, draw::reduce_of(a.mark(), b.mark())))?;
        a.merge(b)?;
        Ok(a)
    }

    /// Always on a worker, however short: its purpose is to load workers.
    fn placement(&self) -> Placement {
        Placement::Pool
    }
}

/// Spins, unless nobody wants the result any longer.
fn spin(duration: Duration) -> Result<()> {
    if cpu::spin(duration) { Ok(()) } else { Err(OperatorError::cancelled()) }
}

/// The error of a partition that was asked to fail.
pub(crate) fn failure(partition: &Partition) -> OperatorError {
    OperatorError::new(format!("partition {} was asked to fail", partition.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distribution;
    use std::sync::Arc;
    use treefold_operators::cancel::Cancellation;

    fn partition(id: u32) -> Partition {
        Partition::new("micro".into(), id, 8, Arc::new(()))
    }

    fn quick() -> Work {
        Work { local_ms: 0.01, reduce_ms: 0.01, ..Work::default() }
    }

    #[test]
    fn sums_counts_and_carries_its_payload() {
        let work = Work { payload_bytes: 300, distribution: Distribution::Exponential, ..quick() };
        let local = |id| Spin.local(&partition(id), &work).unwrap();
        let folded = Spin.reduce(local(3), local(4), &work).unwrap();
        assert_eq!((folded.sum, folded.partitions, folded.payload.len()), (7, 2, 300));
    }

    #[test]
    fn a_cancelled_local_ends_at_once() {
        let cancellation = Cancellation::default();
        cancellation.cancel();
        let long = Work { local_ms: 3_600_000.0, ..Work::default() };
        let refused = cancellation.during(|| Spin.local(&partition(0), &long));
        assert_eq!(refused.unwrap_err().to_string(), OperatorError::cancelled().to_string());
    }

    #[test]
    fn partitions_asked_to_fail_or_to_panic_do() {
        let work = Work { fail: vec![1], panic: vec![2], ..quick() };
        let refused = Spin.local(&partition(1), &work).unwrap_err().to_string();
        assert_eq!(refused, "partition 1 was asked to fail");
        assert!(std::panic::catch_unwind(|| Spin.local(&partition(2), &work)).is_err());
        assert!(Spin.local(&partition(3), &work).is_ok());
    }

    #[test]
    fn a_partition_asked_to_stall_gives_nothing() {
        let (reply, replies) = std::sync::mpsc::channel();
        // This thread is never joined: the process ends without waiting for it.
        thread::spawn(move || {
            let stalled = Work { stall: vec![0], ..quick() };
            let _ = reply.send(Spin.local(&partition(0), &stalled).is_ok());
        });
        let healthy = Spin.local(&partition(1), &quick());
        assert!(healthy.is_ok() && replies.try_recv().is_err());
    }
}
