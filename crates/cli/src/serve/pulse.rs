//! Endpoints of `micro`.
//!
//! They cost next to nothing, so that measurements show the cost of the stream itself.
//!
//! The stream's `params` select their part:
//!
//! - [`Part::Echo`], also the default without params: each packet down is answered with one number, the
//!   endpoint's own, in the wave of the packet's tag.
//! - [`Part::Tick`]: the same number is pushed as fast as the window allows, until the stream is closed.
//! - [`Part::Flood`]: the same with packets of a given size.
//! - [`Part::Witness`]: each packet down carries the number of its round. The endpoint answers with its own
//!   number, the round it received, and a [`mark`] of both. The `sum` filter adds up these three, so that the
//!   sums of a wave prove which endpoints are in it, and for which round each of them answered.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use treefold::Body;
use treefold::endpoint::{Endpoint, EndpointKind, Opening, Outlet, Packet, Took};
use treefold::operators::packet::{self, Row};

/// The part of a stream's endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    Echo,
    Tick,
    Flood { bytes: u32 },
    Witness,
}

/// Size of the largest packet of a flood.
const FLOOD_BYTES_MAX: u32 = 1 << 20;

/// Number of bits of a mark.
///
/// The sum over as many endpoints as the remaining bits of an `i64` can count is exact.
const MARK_BITS: u32 = 40;

/// Returns a number that is specific to this endpoint and this round.
pub fn mark(endpoint: i64, round: i64) -> i64 {
    // The finaliser of splitmix64 (Steele, Lea, Flood 2014), over both numbers as one word.
    let mut mixed = (endpoint as u64).rotate_left(40) ^ (round as u64);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) >> (u64::BITS - MARK_BITS)) as i64
}

/// Makes the endpoints.
pub struct Pulse;

impl EndpointKind for Pulse {
    fn open(&self, opening: &Opening) -> Box<dyn Endpoint> {
        let number = i64::from(opening.endpoint);
        let own = Row::new().i64(number).packet().into_bytes();
        let params = &opening.spec.params;
        let part = if params.is_empty() { Ok(Part::Echo) } else { Part::decode(params) };
        match part {
            Ok(Part::Echo) => answering(move |_| own.clone()),
            Ok(Part::Tick) => Box::new(Ticker { own }),
            Ok(Part::Flood { bytes }) => {
                Box::new(Ticker { own: vec![0; bytes.min(FLOOD_BYTES_MAX) as usize].into() })
            }
            Ok(Part::Witness) => answering(move |payload| testimony(number, payload)),
            // An endpoint can't refuse the stream, so it takes part and sends no packets.
            Err(_) => Box::new(Mute),
        }
    }
}

/// Returns an endpoint's answer.
///
/// If a packet names no round, the answer has round 0, which does not exist.
fn testimony(number: i64, payload: &Bytes) -> Bytes {
    let round = packet::Packet::read(payload).and_then(|packet| packet.i64(0)).unwrap_or(0);
    Row::new().i64(number).i64(round).i64(mark(number, round)).packet().into_bytes()
}

fn answering(answer: impl Fn(&Bytes) -> Bytes + 'static) -> Box<dyn Endpoint> {
    Box::new(Answering { answer, unsent: VecDeque::new() })
}

/// Answers each packet in the wave of its tag.
///
/// The front-end's own window bounds the unsent answers.
struct Answering<F> {
    answer: F,
    unsent: VecDeque<(u64, Bytes)>,
}

impl<F: Fn(&Bytes) -> Bytes + 'static> Endpoint for Answering<F> {
    fn packet(&mut self, outlet: &mut Outlet<'_>, packet: Packet) -> Took {
        self.unsent.push_back((packet.tag, (self.answer)(&packet.payload)));
        self.room(outlet);
        Took::Now
    }

    fn room(&mut self, outlet: &mut Outlet<'_>) {
        while let Some((tag, answer)) = self.unsent.front() {
            if outlet.send_tagged(*tag, answer.clone()).is_err() {
                return;
            }
            self.unsent.pop_front();
        }
    }
}

/// Pushes the same packet whenever there is room.
struct Ticker {
    own: Bytes,
}

impl Endpoint for Ticker {
    fn opened(&mut self, outlet: &mut Outlet<'_>) {
        self.room(outlet);
    }

    fn packet(&mut self, _: &mut Outlet<'_>, _: Packet) -> Took {
        Took::Now
    }

    fn room(&mut self, outlet: &mut Outlet<'_>) {
        while outlet.send(self.own.clone()).is_ok() {}
    }
}

/// Takes all packets and sends none.
struct Mute;

impl Endpoint for Mute {
    fn packet(&mut self, _: &mut Outlet<'_>, _: Packet) -> Took {
        Took::Now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_marks_differ_by_round_and_endpoint() {
        let sum = |round| (0..1024).map(|endpoint| mark(endpoint, round)).sum::<i64>();
        let mut sums: Vec<i64> = (0..1024).map(sum).collect();
        sums.sort_unstable();
        sums.dedup();
        assert_eq!(sums.len(), 1024);
        assert!((0..1024).all(|endpoint| (0..1 << MARK_BITS).contains(&mark(endpoint, 7))));
        // Both sides have the same endpoints and the same sum of rounds, but their marks differ.
        assert_ne!(mark(1, 7) + mark(2, 9), mark(1, 9) + mark(2, 7));
    }

    #[test]
    fn testimony_has_the_round_of_its_packet() {
        let asked = Row::new().i64(41).packet().into_bytes();
        let sworn = packet::Packet::read(&testimony(3, &asked)).unwrap();
        assert_eq!([0, 1, 2].map(|field| sworn.i64(field).unwrap()), [3, 41, mark(3, 41)]);
    }

    #[test]
    fn parts_are_read_back_from_a_streams_params() {
        for part in [Part::Echo, Part::Tick, Part::Flood { bytes: 7 }, Part::Witness] {
            assert_eq!(Part::decode(&part.encode().unwrap()), Ok(part));
        }
    }
}
