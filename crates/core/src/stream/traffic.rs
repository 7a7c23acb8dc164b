//! The cost of a stream at a node so far: MRNet's performance data, counted rather than sampled.

use super::lane::PACKET_BYTES;
use crate::message::Payload;
use crate::time::Duration;

/// Packets and bytes of a stream that passed a node, and the work of its filter there, since the node joined the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamTraffic {
    /// Packets from endpoints here and from children.
    pub packets_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Waves that went up, or to the front-end's user.
    pub waves: u64,
    /// Packets of these waves.
    pub packets_up: u64,
    /// Their bytes.
    pub bytes_up: u64,
    /// Packets that came from the parent, or from the front-end's user.
    pub packets_down: u64,
    /// Their bytes.
    pub bytes_down: u64,
    /// Runs of the filter, in both directions.
    pub filter_runs: u64,
    /// Time that these runs took, in µs.
    pub filter_us: u64,
}

impl StreamTraffic {
    /// The number of figures.
    pub const LEN: usize = 9;

    /// The figures by name, in the order in which they travel.
    pub fn figures(&self) -> [(&'static str, u64); Self::LEN] {
        let mut copy = *self;
        copy.places().map(|(name, figure)| (name, *figure))
    }

    /// The figures from a row in the order in which they travel. Figures that the row lacks are 0.
    pub fn of_row(row: impl IntoIterator<Item = u64>) -> Self {
        let mut traffic = Self::default();
        traffic.places().into_iter().zip(row).for_each(|((_, place), figure)| *place = figure);
        traffic
    }

    fn places(&mut self) -> [(&'static str, &mut u64); Self::LEN] {
        [
            ("packets_in", &mut self.packets_in),
            ("bytes_in", &mut self.bytes_in),
            ("waves", &mut self.waves),
            ("packets_up", &mut self.packets_up),
            ("bytes_up", &mut self.bytes_up),
            ("packets_down", &mut self.packets_down),
            ("bytes_down", &mut self.bytes_down),
            ("filter_runs", &mut self.filter_runs),
            ("filter_us", &mut self.filter_us),
        ]
    }

    pub(crate) fn take_in<P: Payload>(&mut self, packets: &[P]) {
        self.packets_in += packets.len() as u64;
        self.bytes_in += bytes_of(packets);
    }

    /// Counts a wave on its way up, whose weight is known already.
    pub(crate) fn send_up(&mut self, packets: usize, weight: usize) {
        self.waves += 1;
        self.packets_up += packets as u64;
        self.bytes_up += bytes_in(packets, weight);
    }

    /// Counts packets on their way down, whose weight is known already.
    pub(crate) fn pass_down(&mut self, packets: usize, weight: usize) {
        self.packets_down += packets as u64;
        self.bytes_down += bytes_in(packets, weight);
    }

    pub(crate) fn run_filter(&mut self, cost: Duration) {
        self.filter_runs += 1;
        self.filter_us += cost.as_nanos() / 1_000;
    }
}

/// The bytes of packets of this weight, which counts a place for each packet, and one for none.
fn bytes_in(packets: usize, weight: usize) -> u64 {
    weight.saturating_sub(packets.max(1) * PACKET_BYTES) as u64
}

fn bytes_of<P: Payload>(packets: &[P]) -> u64 {
    packets.iter().map(|packet| packet.len() as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_travel_in_a_row() {
        let traffic = StreamTraffic::of_row(1..=9);
        assert_eq!((traffic.packets_in, traffic.waves, traffic.filter_us), (1, 3, 9));
        assert_eq!(StreamTraffic::of_row(traffic.figures().map(|(_, figure)| figure)), traffic);
        assert_eq!(StreamTraffic::of_row([]), StreamTraffic::default());
    }
}
