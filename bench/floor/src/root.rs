//! The root of a blocking tree, which is the launcher: sends orders, adds its own share, receives sums.

use crate::branches::Branches;
use crate::measure::{Spent, Tree};
use crate::options::Kind;
use crate::tree::{ORDER_BYTES, Order, Place, cpu_ns};
use std::io;
use std::time::{Duration, Instant};

/// The launcher as the root node of its tree.
pub(crate) struct Root {
    place: Place,
    branches: Branches,
}

impl Root {
    /// Starts the tree below this process.
    ///
    /// # Errors
    /// An error of the system, or a tree without some of its nodes.
    pub(crate) fn start(place: Place) -> io::Result<Self> {
        let (branches, below) = Branches::grow(Kind::Blocking, place.child_places())?;
        place.check_started(below + 1)?;
        Ok(Self { place, branches })
    }

    /// Runs one wave. Returns its sum, and the time from the first byte down to the last byte up.
    fn wave(&mut self, order: Order) -> io::Result<(u64, Duration)> {
        let begun = Instant::now();
        self.branches.send(&order.to_bytes())?;
        let mut sum = [order.share(self.place.number)];
        self.branches.fold(&mut sum)?;
        let took = begun.elapsed();
        order.check(self.place.nodes, sum[0])?;
        Ok((sum[0], took))
    }
}

impl Tree for Root {
    fn one_at_a_time(&mut self, rounds: u32) -> io::Result<Vec<Duration>> {
        (0..rounds).map(|round| Ok(self.wave(Order::Sum(u64::from(round)))?.1)).collect()
    }

    /// After a batch of answers, it sends as many orders in one batch.
    fn pipelined(&mut self, waves: u32, depth: u32) -> io::Result<Duration> {
        let begun = Instant::now();
        let (mut sent, mut answered) = (0, 0);
        let mut orders = Vec::with_capacity(depth as usize * ORDER_BYTES);
        let mut sums = Vec::with_capacity(depth as usize);
        while answered < waves {
            orders.clear();
            while sent < waves && sent - answered < depth {
                orders.extend_from_slice(&Order::Sum(u64::from(sent)).to_bytes());
                sent += 1;
            }
            self.branches.send(&orders)?;
            sums.clear();
            sums.extend((answered..sent).map(|wave| Order::Sum(u64::from(wave)).share(self.place.number)));
            let ready = self.branches.fold_ready(&mut sums)?;
            for (wave, &sum) in (answered..).zip(&sums[..ready]) {
                Order::Sum(u64::from(wave)).check(self.place.nodes, sum)?;
            }
            answered += u32::try_from(ready).expect("at most `depth` waves are in flight");
        }
        Ok(begun.elapsed())
    }

    fn spent(&mut self) -> io::Result<Spent> {
        // The launcher is a node, so its share is in the sum.
        let (all_ns, _) = self.wave(Order::CpuTime)?;
        Ok(Spent { all_ns, launcher_ns: cpu_ns() })
    }
}
