//! Parents and children by number, and the two messages between them.
//!
//! Nodes are numbered breadth-first, and the root is 0. A place in the tree is therefore computed from the
//! number, and the tree is never sent. Each node adds `value + its number` to a sum, so the root can verify
//! that every node took part in every wave exactly once.

use std::fmt;
use std::io;
use std::ops::Range;

/// Bytes of an order, which goes down.
pub(crate) const ORDER_BYTES: usize = 32;
/// Bytes of a sum, which comes up.
pub(crate) const SUM_BYTES: usize = 8;

/// Children per inner node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fanout {
    /// At most this many, at least 1.
    Kary(u32),
    /// All other nodes are the root's children.
    Flat,
}

impl fmt::Display for Fanout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kary(k) => write!(f, "kary:{k}"),
            Self::Flat => f.write_str("flat"),
        }
    }
}

/// A node's place in a tree of `nodes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Breadth-first number; the root is 0.
    pub(crate) number: u32,
    /// Nodes in the whole tree.
    pub(crate) nodes: u32,
    /// Children per inner node.
    pub(crate) fanout: u32,
}

impl Place {
    /// Returns the place of the root.
    pub(crate) fn root(nodes: u32, fanout: Fanout) -> Self {
        let fanout = match fanout {
            Fanout::Kary(k) => k,
            Fanout::Flat => nodes.saturating_sub(1).max(1),
        };
        Self { number: 0, nodes, fanout }
    }

    /// Returns the number of the whole tree: its nodes in the upper half, its fan-out in the lower half.
    pub(crate) fn tree_number(self) -> u64 {
        u64::from(self.nodes) << 32 | u64::from(self.fanout)
    }

    /// Checks that as many nodes have started as the tree has.
    ///
    /// # Errors
    /// If there are fewer or more.
    pub(crate) fn check_started(self, nodes: u64) -> io::Result<()> {
        if nodes == u64::from(self.nodes) {
            Ok(())
        } else {
            Err(io::Error::other(format!("{nodes} of {} nodes started", self.nodes)))
        }
    }

    /// Returns the numbers of this node's children.
    pub(crate) fn children(self) -> Range<u32> {
        let first = u64::from(self.number) * u64::from(self.fanout) + 1;
        let bounded = |number: u64| u32::try_from(number).map_or(self.nodes, |number| number.min(self.nodes));
        bounded(first)..bounded(first + u64::from(self.fanout))
    }

    /// Returns the places of this node's children.
    pub(crate) fn child_places(self) -> impl Iterator<Item = Self> {
        self.children().map(move |number| Self { number, ..self })
    }
}

/// The number that an order asks every node to add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// `value + number`: a measured wave.
    Sum(u64),
    /// The CPU time of the process so far, in nanoseconds: a wave that collects CPU times.
    CpuTime,
}

impl Order {
    const SUM: u8 = 1;
    const CPU_TIME: u8 = 2;

    /// Encodes the order.
    pub(crate) fn to_bytes(self) -> [u8; ORDER_BYTES] {
        let (kind, value) = match self {
            Self::Sum(value) => (Self::SUM, value),
            Self::CpuTime => (Self::CPU_TIME, 0),
        };
        let mut bytes = [0; ORDER_BYTES];
        bytes[0] = kind;
        bytes[8..16].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    /// Decodes an order. Returns `None` for other bytes: the stream is then out of step.
    pub(crate) fn from_bytes(bytes: &[u8; ORDER_BYTES]) -> Option<Self> {
        let mut value = [0; 8];
        value.copy_from_slice(&bytes[8..16]);
        match bytes[0] {
            Self::SUM => Some(Self::Sum(u64::from_le_bytes(value))),
            Self::CPU_TIME => Some(Self::CpuTime),
            _ => None,
        }
    }

    /// Returns the share of node `number`.
    pub(crate) fn share(self, number: u32) -> u64 {
        match self {
            Self::Sum(value) => value.wrapping_add(u64::from(number)),
            Self::CpuTime => cpu_ns(),
        }
    }

    /// Returns the sum over `nodes` nodes, if it is predictable.
    pub(crate) fn total(self, nodes: u32) -> Option<u64> {
        let nodes = u64::from(nodes);
        match self {
            Self::Sum(value) => Some(value.wrapping_mul(nodes).wrapping_add(nodes * (nodes - 1) / 2)),
            Self::CpuTime => None,
        }
    }

    /// Checks the sum over `nodes` nodes.
    ///
    /// # Errors
    /// If it is not the predicted one.
    pub(crate) fn check(self, nodes: u32, sum: u64) -> io::Result<()> {
        match self.total(nodes) {
            Some(total) if total != sum => {
                Err(io::Error::other(format!("expected the sum {total} for {self:?}, found {sum}")))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the CPU time of this process, user and system, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    let mut spent = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `spent` is a valid timespec for the call to fill; the clock exists on every POSIX system.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut spent) };
    assert_eq!(status, 0, "the process CPU clock must be readable");
    spent.tv_sec.cast_unsigned() * 1_000_000_000 + spent.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_but_the_root_has_exactly_one_parent() {
        for nodes in [1, 2, 9, 16, 64, 256] {
            for fanout in [Fanout::Kary(1), Fanout::Kary(2), Fanout::Kary(8), Fanout::Flat] {
                let root = Place::root(nodes, fanout);
                let mut born: Vec<u32> =
                    (0..nodes).flat_map(|number| Place { number, ..root }.children()).collect();
                born.sort_unstable();
                assert!(born.into_iter().eq(1..nodes), "{nodes} nodes, {fanout}");
            }
        }
    }

    #[test]
    fn flat_means_that_the_root_has_all_the_others() {
        assert_eq!(Place::root(256, Fanout::Flat).children(), 1..256);
        assert_eq!(Place::root(1, Fanout::Flat).children(), 1..1);
    }

    #[test]
    fn an_order_survives_its_bytes_and_garbage_is_none() {
        for order in [Order::Sum(7), Order::Sum(u64::MAX), Order::CpuTime] {
            assert_eq!(Order::from_bytes(&order.to_bytes()), Some(order));
        }
        assert_eq!(Order::from_bytes(&[0xff; ORDER_BYTES]), None);
    }

    #[test]
    fn the_shares_of_all_nodes_are_the_total() {
        let order = Order::Sum(1_000_003);
        let sum = (0..64).map(|number| order.share(number)).fold(0, u64::wrapping_add);
        assert_eq!(order.total(64), Some(sum));
        assert!(order.check(64, sum).is_ok());
        let wrong = order.check(64, sum + 1).unwrap_err().to_string();
        assert_eq!(wrong, "expected the sum 64002208 for Sum(1000003), found 64002209");
    }
}
