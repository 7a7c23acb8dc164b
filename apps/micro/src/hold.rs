//! Work that takes time but no processor.
//!
//! A machine with two processors cannot spin for sixty-four nodes, but it can wait for them. A held local
//! occupies one of the k processors that its node *claims* to have, so queues, load indices and trees
//! behave as on a real cluster. The runtime's timer counts milliseconds, so use durations of several
//! milliseconds.

use crate::draw;
use crate::folded::Folded;
use crate::spin::failure;
use crate::work::{Misbehaviour, Work};
use std::future::pending;
use std::sync::Arc;
use treefold_operators::{AsyncAggregation, Merge, Partition, Result};

/// Sleeps for each local and each reduce, and holds one of its node's processors meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hold;

impl AsyncAggregation for Hold {
    type Params = Work;
    type Partial = Folded;

    /// # Panics
    /// For the partitions listed in `panic`.
    async fn local(&self, partition: Partition, work: Arc<Work>) -> Result<Folded> {
        match work.misbehaviour(&partition) {
            Some(Misbehaviour::Fail) => return Err(failure(&partition)),
            Some(Misbehaviour::Panic) => panic!("partition {} was asked to panic", partition.id),
            Some(Misbehaviour::Stall) => pending().await,
            None => {}
        }
        tokio::time::sleep(work.duration(work.local_ms, draw::local_of(partition.id))).await;
        Ok(Folded::of(&partition, &work))
    }

    async fn reduce(&self, mut a: Folded, b: Folded, work: Arc<Work>) -> Result<Folded> {
        tokio::time::sleep(work.duration(work.reduce_ms, draw::reduce_of(a.mark(), b.mark()))).await;
        a.merge(b)?;
        Ok(a)
    }

    fn holds_processor(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    //! Tests on the runtime's paused clock, which jumps to the next timer when all tasks are idle.
    use super::*;
    use std::time::Duration;
    use tokio::time::{Instant, timeout};

    fn partition(id: u32) -> Partition {
        Partition::new("micro".into(), id, 8, Arc::new(()))
    }

    #[tokio::test(start_paused = true)]
    async fn takes_the_time_asked_and_sums() {
        let work = Arc::new(Work { local_ms: 25.0, reduce_ms: 5.0, payload_bytes: 10, ..Work::default() });
        let from = Instant::now();
        let (a, b) = tokio::join!(
            Hold.local(partition(3), Arc::clone(&work)),
            Hold.local(partition(4), Arc::clone(&work))
        );
        assert_eq!(
            from.elapsed(),
            Duration::from_millis(25),
            "side by side, on a clock that only timers move"
        );
        let folded = Hold.reduce(a.unwrap(), b.unwrap(), work).await.unwrap();
        assert_eq!(from.elapsed(), Duration::from_millis(30));
        assert_eq!((folded.sum, folded.partitions, folded.payload.len()), (7, 2, 10));
    }

    #[tokio::test(start_paused = true)]
    async fn partitions_asked_to_misbehave_do() {
        let work = Arc::new(Work { fail: vec![1], stall: vec![2], panic: vec![3], ..Work::default() });
        let local = |id| Hold.local(partition(id), Arc::clone(&work));
        assert_eq!(local(1).await.unwrap_err().to_string(), "partition 1 was asked to fail");
        assert!(timeout(Duration::from_secs(1_000_000), local(2)).await.is_err(), "never returns");
        let work = Arc::clone(&work);
        let panicked = tokio::spawn(async move { Hold.local(partition(3), work).await }).await;
        assert!(panicked.unwrap_err().is_panic());
    }
}
