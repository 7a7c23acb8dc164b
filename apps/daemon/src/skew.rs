//! Measures the clocks of emulated hosts, whose clocks are off: `clock-skew` for an emulation.
//!
//! The filter `clock-skew` reads its node's clock, and assumes that the node's endpoints share it. In an
//! emulation, all nodes share one machine's clock, so there would be nothing to measure, and many daemons
//! share a node. [`EmulatedClockSkew`] is the same filter with two changes: it reads the clock of an
//! emulated host, and it treats endpoints as children, which answer a probe with stamps of their own
//! ([`reply`]). The measurement of a hop, the sum over hops and the choice of rounds are unchanged.

use crate::clock::{Clock, Injected};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use treefold_operators::filter::clock_skew::{Answer, ClockSkews, Probe, Skew};
use treefold_operators::filter::{ClockSkew, Descent, Filter, FilterKind, Piece, Source, Wave};
use treefold_operators::{Body, BodyError, Placement, Result};

/// The filter's name within its service.
pub const FILTER: &str = "clock-skew";

/// Endpoints are children numbered from here. A node never has so many other children.
const ENDPOINTS_FROM: u32 = 1 << 31;

/// The filter on an emulated host.
#[derive(Clone, Copy, Debug)]
pub struct EmulatedClockSkew {
    /// The host whose clock this node shows: its least daemon's; `None` for the true time, which the
    /// front-end has.
    pub host: Option<u32>,
}

/// The filter's parameters in a stream.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Params {
    /// As in `clock-skew`.
    pub window: u32,
    /// The errors of the clocks.
    pub injected: Injected,
}

/// The parameters of `clock-skew` itself.
#[derive(Serialize, Deserialize)]
struct Window {
    window: u32,
}

impl FilterKind for EmulatedClockSkew {
    fn open(&self, params: &Bytes) -> Result<Box<dyn Filter>> {
        let Params { window, injected } = Params::decode(params)?;
        let filter = ClockSkew.open(&Window { window }.encode()?)?;
        let clock = self.host.map_or_else(Clock::default, |host| Clock::of_host(&injected, host));
        Ok(Box::new(OnHost { clock, filter }))
    }

    fn placement(&self) -> Placement {
        ClockSkew.placement()
    }
}

struct OnHost {
    clock: Clock,
    filter: Box<dyn Filter>,
}

impl Filter for OnHost {
    fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        let as_child = |piece: &Piece| Piece { source: child(piece.source), payload: piece.payload.clone() };
        let pieces: Vec<Piece> = wave.pieces.iter().map(as_child).collect();
        let now_ns = self.clock.reading_ns(wave.now_ns);
        self.filter.up(Wave { tag: wave.tag, pieces: &pieces, now_ns }, out)
    }

    fn down(&mut self, descent: Descent<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        let now_ns = self.clock.reading_ns(descent.now_ns);
        self.filter.down(Descent { now_ns, ..descent }, out)
    }

    fn holds_from(&self) -> Option<u64> {
        self.filter.holds_from()
    }

    fn joined(&mut self, source: Source) {
        self.filter.joined(child(source));
    }

    fn replaced(&mut self, lost: Source, heirs: &[Source]) {
        let heirs: Vec<Source> = heirs.iter().map(|&heir| child(heir)).collect();
        self.filter.replaced(child(lost), &heirs);
    }
}

fn child(source: Source) -> Source {
    match source {
        Source::Endpoint(endpoint) => Source::Child(ENDPOINTS_FROM | endpoint),
        child @ Source::Child(_) => child,
    }
}

/// A daemon's reply to a probe, which arrived when its clock showed `received_ns`; the reply is sent at
/// `replied_ns`.
///
/// # Errors
/// If `probe` is not a probe.
pub fn reply(endpoint: u32, probe: &Bytes, received_ns: u64, replied_ns: u64) -> Result<Bytes, BodyError> {
    let answer = Answer { probe: Probe::decode(probe)?, received_ns, replied_ns };
    ClockSkews {
        skews: vec![Skew { endpoint, skew_ns: 0, error_ns: 0 }],
        hops: Vec::new(),
        answers: Some(answer),
    }
    .encode()
}

/// One reply's measurement, for the sender of the probe, if the reply arrived at `now_ns`: how far the
/// daemon's clock is ahead, and the largest error of that (as a hop of `clock-skew`; RFC 5905 §8). `None`
/// if a clock jumped.
pub fn measured(answer: &Answer, now_ns: u64) -> Option<(i64, u64)> {
    let [t0, t1, t2, t3] =
        [answer.probe.sent_ns, answer.received_ns, answer.replied_ns, now_ns].map(i128::from);
    let delay_ns = (t3 - t0) - (t2 - t1);
    let skew_ns = i64::try_from(((t1 - t0) + (t2 - t3)).div_euclid(2)).ok()?;
    Some((skew_ns, u64::try_from(delay_ns).ok()? / 2 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON_NS: u64 = 1_800_000_000_000_000_000;

    fn injected() -> Injected {
        Injected { seed: 3, skew_us_max: 80_000, since_ns: NOON_NS, ..Injected::default() }
    }

    /// One round over the front-end, host 0 and daemon 4, with these delays on the way, in ns.
    fn round(delays_ns: [u64; 4]) -> Skew {
        let params = Params { window: 4, injected: injected() }.encode().unwrap();
        let open = |host| EmulatedClockSkew { host }.open(&params).unwrap();
        let (mut front, mut host) = (open(None), open(Some(0)));
        let mut now_ns = NOON_NS;
        let mut pass = |filter: &mut Box<dyn Filter>, payload: Bytes, delay_ns: u64| {
            let mut out = Vec::new();
            filter.down(Descent { tag: 1, payload: &payload, now_ns }, &mut out).unwrap();
            now_ns += delay_ns;
            (out.remove(0), now_ns)
        };
        let (probe, _) = pass(&mut front, Bytes::new(), delays_ns[0]);
        let (probe, at_ns) = pass(&mut host, probe, delays_ns[1]);
        let own_ns = Clock::of_daemon(&injected(), 4).reading_ns(at_ns);
        let climb = |filter: &mut Box<dyn Filter>, source, payload, at_ns| {
            let mut out = Vec::new();
            let pieces = [Piece { source, payload }];
            filter.up(Wave { tag: 1, pieces: &pieces, now_ns: at_ns }, &mut out).unwrap();
            out.remove(0)
        };
        let sent = reply(4, &probe, own_ns, own_ns).unwrap();
        let at_ns = at_ns + delays_ns[2];
        let up = climb(&mut host, Source::Endpoint(4), sent, at_ns);
        let up = climb(&mut front, Source::Child(0), up, at_ns + delays_ns[3]);
        ClockSkews::decode(&up).unwrap().skews[0]
    }

    #[test]
    fn skew_is_exact_over_even_links_for_any_host_clock() {
        let skew = round([700, 300, 300, 700]);
        let truth_ns = Clock::of_daemon(&injected(), 4).ahead_ns(NOON_NS);
        assert_eq!(skew.endpoint, 4);
        assert!(skew.skew_ns.abs_diff(truth_ns) <= 2, "{skew:?}, true skew {truth_ns}");
    }

    #[test]
    fn skew_error_is_within_its_bound_over_uneven_links() {
        let skew = round([90_000, 5_000, 400_000, 1_000]);
        let truth_ns = Clock::of_daemon(&injected(), 4).ahead_ns(NOON_NS);
        let off_ns = skew.skew_ns.abs_diff(truth_ns);
        assert!(off_ns > 1_000 && off_ns <= skew.error_ns, "{skew:?}, true skew {truth_ns}");
    }

    #[test]
    fn single_reply_measures_like_one_hop() {
        let probe = Probe { round: 1, sent_ns: 1_000 };
        let answer = Answer { probe, received_ns: 5_300, replied_ns: 5_300 };
        assert_eq!(measured(&answer, 1_600), Some((4_000, 301)));
        assert_eq!(measured(&answer, 900), None, "it arrived before it was sent");
    }
}
