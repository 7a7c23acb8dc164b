//! The root of a blocking tree, which is the launcher: sends orders, adds its own share, receives sums.

use crate::branches::Branches;
use crate::measure::{Spent, Tree};
use crate::options::Kind;
use crate::tree::{ORDER_BYTES, Order, Place, cpu_ns};
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// The launcher as the root node of its tree.
pub(crate) struct Root {
    place: Place,
    /// Every other node, if the root sends orders itself. Closed before `branches` waits for the processes.
    told: Vec<TcpStream>,
    branches: Branches,
}

impl Root {
    /// Starts the tree below this process.
    ///
    /// # Errors
    /// An error of the system, or a tree without some of its nodes.
    pub(crate) fn start(place: Place, kind: Kind) -> io::Result<Self> {
        if kind != Kind::Told {
            let (branches, below) = Branches::grow(kind, 0, place.child_places())?;
            place.check_started(below + 1)?;
            return Ok(Self { place, branches, told: Vec::new() });
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let others = place.nodes - 1;
        // The listener's queue is shorter than large trees.
        let accepting = std::thread::spawn(move || {
            (0..others).map(|_| listener.accept().map(|(socket, _)| socket)).collect::<io::Result<Vec<_>>>()
        });
        let (branches, below) = Branches::grow(kind, port, place.child_places())?;
        place.check_started(below + 1)?;
        let told = accepting.join().expect("it only accepts")?;
        told.iter().try_for_each(|socket| socket.set_nodelay(true))?;
        Ok(Self { place, branches, told })
    }

    fn send(&mut self, orders: &[u8]) -> io::Result<()> {
        if self.told.is_empty() {
            return self.branches.send(orders);
        }
        self.told.iter_mut().try_for_each(|socket| socket.write_all(orders))
    }

    /// Runs one wave. Returns its sum, and the time from the first byte down to the last byte up.
    fn wave(&mut self, order: Order) -> io::Result<(u64, Duration)> {
        let begun = Instant::now();
        self.send(&order.to_bytes())?;
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
            self.send(&orders)?;
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
