//! The costs of a site's work, in µs of its processor.
//!
//! They are calibrated once, from figure 4 of the paper: mirroring every event to one site adds about 15 % for the
//! smallest events (0.1 KB) and 20 % for the largest (8 KB). Everything else is an assumption, made before the first
//! run and not fitted afterwards:
//!
//! - An unmirrored event takes 300 µs and 0.05 µs a byte on the paper's machine (300 MHz), a third of the fixed part
//!   for receiving it, half of the bytes' part. The paper does not give times for single events.
//! - The paper names four causes of the overhead: event resubmission, thread scheduling, queue management, and the
//!   control mechanism. Each has a quarter of the fixed part. The bytes' part belongs to resubmission and to the
//!   copy in the backup queue, half each. Resubmission and control are paid for each mirror.
//! - A mirror's work on an event is that of the unmirrored site, because it runs the same business logic.
//! - A request takes 1 ms, as a web server of that time, and 0.025 µs for a byte that is encoded or sent.

/// Work with a fixed part, and a part for each byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// The fixed part, in µs.
    pub fixed_us: f64,
    /// The part for each byte, in µs.
    pub byte_us: f64,
}

impl Work {
    /// Returns the work on `bytes`, in µs.
    pub const fn of(self, bytes: usize) -> f64 {
        self.fixed_us + self.byte_us * bytes as f64
    }
}

/// The costs of all kinds of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Receiving an event at the origin, or a packet at a mirror.
    pub receive: Work,
    /// Business logic, for an event.
    pub logic: Work,
    /// Applying the rules to an event, in µs.
    pub rules_us: f64,
    /// Ready queue and backup queue, for a mirrored event.
    pub queue: Work,
    /// Handing a packet from thread to thread, in µs.
    pub scheduling_us: f64,
    /// Sending a packet to one mirror.
    pub resubmission: Work,
    /// One checkpoint at the origin for each mirror, and at a mirror, in µs: a third each for the request, the vote and
    /// the commit.
    pub checkpoint_us: f64,
    /// A request for an initial state, in µs, without its bytes.
    pub request_us: f64,
    /// Encoding a byte of a snapshot, or sending it to a reader, in µs.
    pub snapshot_byte_us: f64,
}

/// Figure 4's smallest and largest event, in bytes, each with the overhead of one mirror.
const FIGURE_4: [(f64, f64); 2] = [(100.0, 0.15), (8_000.0, 0.20)];
/// An event without mirrors.
const UNMIRRORED: Work = Work { fixed_us: 300.0, byte_us: 0.05 };
/// Share of the unmirrored work's fixed part that is receiving.
const RECEIVING: f64 = 1.0 / 3.0;
/// Events between the checkpoints of figure 4.
const EVENTS_A_CHECKPOINT: f64 = 50.0;

/// The overhead of one mirror for an event, by which figure 4's ends are met.
const OVERHEAD: Work = {
    let [(small, small_share), (large, large_share)] = FIGURE_4;
    let at_small = small_share * (UNMIRRORED.fixed_us + UNMIRRORED.byte_us * small);
    let at_large = large_share * (UNMIRRORED.fixed_us + UNMIRRORED.byte_us * large);
    let byte_us = (at_large - at_small) / (large - small);
    Work { fixed_us: at_small - byte_us * small, byte_us }
};

impl Costs {
    /// The paper's machine.
    pub const PAPER: Self = Self {
        receive: Work { fixed_us: UNMIRRORED.fixed_us * RECEIVING, byte_us: UNMIRRORED.byte_us / 2.0 },
        logic: Work { fixed_us: UNMIRRORED.fixed_us * (1.0 - RECEIVING), byte_us: UNMIRRORED.byte_us / 2.0 },
        rules_us: 5.0,
        queue: Work { fixed_us: OVERHEAD.fixed_us / 4.0, byte_us: OVERHEAD.byte_us / 2.0 },
        scheduling_us: OVERHEAD.fixed_us / 4.0,
        resubmission: Work { fixed_us: OVERHEAD.fixed_us / 4.0, byte_us: OVERHEAD.byte_us / 2.0 },
        checkpoint_us: OVERHEAD.fixed_us / 4.0 * EVENTS_A_CHECKPOINT,
        request_us: 1_000.0,
        snapshot_byte_us: 0.025,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mirror_costs_as_much_as_in_figure_4() {
        let costs = Costs::PAPER;
        for (bytes, share) in [(100, 0.15), (8_000, 0.20)] {
            let unmirrored = costs.receive.of(bytes) + costs.logic.of(bytes);
            let mirrored = costs.queue.of(bytes)
                + costs.scheduling_us
                + costs.resubmission.of(bytes)
                + costs.checkpoint_us / EVENTS_A_CHECKPOINT;
            assert!((mirrored / unmirrored - share).abs() < 1e-9, "{bytes}: {mirrored} of {unmirrored}");
        }
    }
}
