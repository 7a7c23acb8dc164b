//! The launcher of an event-driven tree: a client of the root, or the root itself.

use super::below::Below;
use super::frame::write_order;
use super::link::READ_BYTES;
use super::poll::Poll;
use crate::branches::Branches;
use crate::measure::{Spent, Tree};
use crate::options::Kind;
use crate::tree::{Order, Place, cpu_ns};
use std::io;
use std::time::{Duration, Instant};

/// The launcher. It sends orders and waits for sums with the loop of the nodes.
pub(crate) struct Client {
    /// The root of the tree.
    root: Place,
    /// Whether this process is the root.
    is_root: bool,
    poll: Poll,
    /// The root's process, or the root's children.
    below: Below,
    buffer: Box<[u8; READ_BYTES]>,
    /// Number of the next wave.
    next: u64,
    /// Frames of the orders of one batch.
    orders: Vec<u8>,
    /// Numbers and sums of the waves that have ended in this turn.
    ended: Vec<(u64, u64)>,
    /// Declared last, so that the sockets close before it waits for the processes.
    _branches: Branches,
}

impl Client {
    /// Starts the tree, with its root in another process or in this one.
    ///
    /// # Errors
    /// An error of the system, or a tree without some of its nodes.
    pub(crate) fn start(root: Place, kind: Kind) -> io::Result<Self> {
        let is_root = kind == Kind::EventsRoot;
        let (mut branches, below) = if is_root {
            Branches::grow(kind, 0, root.child_places())?
        } else {
            Branches::grow(kind, 0, [root])?
        };
        root.check_started(below + u64::from(is_root))?;
        let poll = Poll::new()?;
        let below = Below::new(branches.take_sockets(), root.tree_number(), &poll)?;
        Ok(Self {
            root,
            is_root,
            poll,
            below,
            buffer: Box::new([0; READ_BYTES]),
            next: 0,
            orders: Vec::new(),
            ended: Vec::new(),
            _branches: branches,
        })
    }

    /// Opens the next wave and adds its order to the batch.
    fn begin(&mut self, order: Order) -> io::Result<()> {
        write_order(&mut self.orders, self.next, self.root.tree_number(), order);
        self.below.open(self.next, if self.is_root { order.share(self.root.number) } else { 0 })?;
        self.next += 1;
        Ok(())
    }

    /// Sends the batch of orders.
    fn send(&mut self) -> io::Result<()> {
        self.below.send(&self.orders, &self.poll)?;
        self.orders.clear();
        Ok(())
    }

    /// Waits, and collects the waves that end.
    fn turn(&mut self) -> io::Result<()> {
        let Self { poll, below, buffer, ended, .. } = self;
        for at in 0..poll.wait()? {
            below.turn(poll.ready(at), poll, buffer, |wave, sum| ended.push((wave, sum)))?;
        }
        Ok(())
    }

    /// Runs one wave. Returns its sum, and the time from the first byte down to the last byte up.
    fn wave(&mut self, order: Order) -> io::Result<(u64, Duration)> {
        let begun = Instant::now();
        self.begin(order)?;
        self.send()?;
        let sum = loop {
            self.turn()?;
            if let Some((_, sum)) = self.ended.pop() {
                break sum;
            }
        };
        let took = begun.elapsed();
        order.check(self.root.nodes, sum)?;
        Ok((sum, took))
    }
}

impl Tree for Client {
    fn one_at_a_time(&mut self, rounds: u32) -> io::Result<Vec<Duration>> {
        (0..rounds).map(|round| Ok(self.wave(Order::Sum(u64::from(round)))?.1)).collect()
    }

    /// After the waves that end in one turn, it sends as many orders in one batch.
    fn pipelined(&mut self, waves: u32, depth: u32) -> io::Result<Duration> {
        let begun = Instant::now();
        let (first, nodes) = (self.next, self.root.nodes);
        let (mut sent, mut answered) = (0, 0);
        while answered < waves {
            if sent < waves && sent - answered < depth {
                while sent < waves && sent - answered < depth {
                    self.begin(Order::Sum(u64::from(sent)))?;
                    sent += 1;
                }
                self.send()?;
            }
            self.turn()?;
            for (wave, sum) in self.ended.drain(..) {
                Order::Sum(wave - first).check(nodes, sum)?;
                answered += 1;
            }
        }
        Ok(begun.elapsed())
    }

    fn spent(&mut self) -> io::Result<Spent> {
        let (sum_ns, _) = self.wave(Order::CpuTime)?;
        let launcher_ns = cpu_ns();
        // As the root, the launcher has added its own share.
        let all_ns = if self.is_root { sum_ns } else { sum_ns + launcher_ns };
        Ok(Spent { all_ns, launcher_ns })
    }
}
