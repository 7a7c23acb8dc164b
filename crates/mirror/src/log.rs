//! The log: a node's recent packets, as the backup queue of checkpoints and for readers that resume.
//!
//! The paper's backup queue holds mirrored events until they are committed (§3.2.1). A reader that lost its
//! connection wants the events since then, which may be committed already. One queue serves both: a packet
//! leaves it once it is committed and the packets behind it fill `resume_bytes_max`.

use bytes::Bytes;
use std::collections::VecDeque;

/// Recent packets of one feed, in order.
#[derive(Debug)]
pub struct Log {
    packets: VecDeque<Stored>,
    /// Packets at the front whose last event is committed.
    committed_packets: usize,
    committed: u64,
    bytes: usize,
    uncommitted_bytes: usize,
    resume_bytes_max: usize,
    /// Later packets are kept, also if they are committed.
    needless: u64,
    last: u64,
    /// Bytes of all packets that were ever pushed.
    pushed_bytes: u64,
}

#[derive(Clone, Debug)]
struct Stored {
    first: u64,
    last: u64,
    /// Bytes of all packets that were ever pushed before this one.
    offset: u64,
    bytes: Bytes,
}

/// The events after a position are not in the log any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error("the events after position {asked} are trimmed; the oldest event kept is {oldest}; take a snapshot")]
pub struct Trimmed {
    /// The position after which events were asked for.
    pub asked: u64,
    /// The oldest position in the log.
    pub oldest: u64,
}

impl Log {
    /// An empty log that begins after `position`.
    pub fn new(position: u64, resume_bytes_max: usize) -> Self {
        Self {
            packets: VecDeque::new(),
            committed_packets: 0,
            committed: position,
            bytes: 0,
            uncommitted_bytes: 0,
            resume_bytes_max,
            needless: u64::MAX,
            last: position,
            pushed_bytes: 0,
        }
    }

    /// Appends a packet with the events from `first` to `last`.
    ///
    /// # Panics
    /// If the events do not follow the last ones.
    pub fn push(&mut self, first: u64, last: u64, bytes: Bytes) {
        assert_eq!(first, self.last + 1, "a log has no gap");
        self.last = last;
        self.bytes += bytes.len();
        self.uncommitted_bytes += bytes.len();
        let offset = self.pushed_bytes;
        self.pushed_bytes += bytes.len() as u64;
        self.packets.push_back(Stored { first, last, offset, bytes });
        self.trim();
    }

    /// Marks the events up to a position as committed. A lesser position than before changes nothing.
    pub fn commit(&mut self, position: u64) {
        self.committed = self.committed.max(position.min(self.last));
        while let Some(packet) = self.packets.get(self.committed_packets)
            && packet.last <= self.committed
        {
            self.uncommitted_bytes -= packet.bytes.len();
            self.committed_packets += 1;
        }
        self.trim();
    }

    /// Keeps the packets after a position, although they are committed, until this is called with a later one.
    pub fn keep_after(&mut self, position: u64) {
        self.needless = position;
        self.trim();
    }

    fn trim(&mut self) {
        while self.committed_packets > 0
            && self.bytes - self.uncommitted_bytes > self.resume_bytes_max
            && let Some(packet) = self.packets.pop_front_if(|packet| packet.last <= self.needless)
        {
            self.bytes -= packet.bytes.len();
            self.committed_packets -= 1;
        }
    }

    /// The last committed position.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// The last position.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The oldest position in the log; the one after the last if it is empty.
    pub fn oldest(&self) -> u64 {
        self.packets.front().map_or(self.last + 1, |packet| packet.first)
    }

    /// Events that are not committed: the length of the backup queue.
    pub fn uncommitted(&self) -> u64 {
        self.last - self.committed
    }

    /// Bytes of packets that are not committed.
    pub fn uncommitted_bytes(&self) -> usize {
        self.uncommitted_bytes
    }

    /// The packets that hold the events after `position`. The first packet may begin with events before it.
    ///
    /// # Errors
    /// If some of these events are not in the log any more.
    pub fn after(&self, position: u64) -> Result<impl Iterator<Item = &Bytes>, Trimmed> {
        Ok(self.packets_after(position)?.map(|(_, _, bytes)| bytes))
    }

    /// As [`after`](Self::after), each packet with its first and last position.
    ///
    /// # Errors
    /// If some of these events are not in the log any more.
    pub fn packets_after(&self, position: u64) -> Result<impl Iterator<Item = (u64, u64, &Bytes)>, Trimmed> {
        let packets = self.packets.range(self.index_after(position)?..);
        Ok(packets.map(|packet| (packet.first, packet.last, &packet.bytes)))
    }

    /// The packet with the event after `position`, and the position of its last event. `None` if there is none.
    ///
    /// # Errors
    /// If the event is not in the log any more.
    pub fn next_after(&self, position: u64) -> Result<Option<(u64, &Bytes)>, Trimmed> {
        let packet = self.packets.get(self.index_after(position)?);
        Ok(packet.map(|packet| (packet.last, &packet.bytes)))
    }

    /// Bytes of the packets with the events after `position`.
    ///
    /// # Errors
    /// If some of these events are not in the log any more.
    pub fn bytes_after(&self, position: u64) -> Result<u64, Trimmed> {
        let packet = self.packets.get(self.index_after(position)?);
        Ok(packet.map_or(0, |packet| self.pushed_bytes - packet.offset))
    }

    fn index_after(&self, position: u64) -> Result<usize, Trimmed> {
        let oldest = self.oldest();
        if position.saturating_add(1) < oldest {
            return Err(Trimmed { asked: position, oldest });
        }
        Ok(self.packets.partition_point(|packet| packet.last <= position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Log {
        let mut log = Log::new(10, 25);
        for first in [11, 13, 15, 17] {
            log.push(first, first + 1, Bytes::from_static(&[0; 10]));
        }
        log
    }

    #[test]
    fn uncommitted_packets_are_never_trimmed() {
        let mut log = log();
        assert_eq!((log.uncommitted(), log.uncommitted_bytes()), (8, 40));
        log.commit(13);
        assert_eq!((log.committed(), log.uncommitted(), log.uncommitted_bytes()), (13, 5, 30));
        assert_eq!(log.after(10).unwrap().count(), 4);
        log.commit(99);
        assert_eq!((log.committed(), log.uncommitted_bytes()), (18, 0));
        assert_eq!(log.after(14).unwrap().count(), 2);
        assert_eq!(log.after(13).map(|_| ()).unwrap_err(), Trimmed { asked: 13, oldest: 15 });
        log.commit(12);
        assert_eq!(log.committed(), 18, "a commit never goes back");
    }

    #[test]
    fn packets_that_a_new_origin_would_need_are_kept() {
        let mut log = log();
        log.keep_after(12);
        log.commit(18);
        assert_eq!(log.oldest(), 13, "the log is beyond its bytes");
        log.keep_after(18);
        assert_eq!(log.oldest(), 15);
    }

    #[test]
    fn packet_that_a_position_divides_is_given_whole() {
        assert_eq!(log().after(11).unwrap().count(), 4);
        assert_eq!(log().after(12).unwrap().count(), 3);
        assert_eq!(log().after(18).unwrap().count(), 0);
    }

    #[test]
    fn bytes_after_a_position_count_whole_packets() {
        let mut log = log();
        let after = |log: &Log, position| log.bytes_after(position).unwrap();
        assert_eq!([10, 11, 12, 17, 18].map(|position| after(&log, position)), [40, 40, 30, 10, 0]);
        assert_eq!(log.next_after(13).unwrap().map(|(last, _)| last), Some(14));
        assert_eq!(log.next_after(18), Ok(None));
        log.commit(18);
        assert_eq!(after(&log, 15), 20, "trimmed packets do not count");
    }
}
