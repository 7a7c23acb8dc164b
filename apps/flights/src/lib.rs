//! The airline of the mirroring paper (§2, §4), generated: radar positions of flights, and the airline's own
//! events about them.
//!
//! The paper replays 100,000 positions of 50 flights that the FAA recorded; the recording is not public. Here
//! every flight goes through the same life again and again:
//!
//! ```text
//! boarding ─▶ all boarded ─▶ departed ─▶ … positions … ─▶ landed ─▶ at runway ─▶ at gate ─▶ boarding
//! ```
//!
//! Positions are stream `faa`, all others stream `airline`. A few positions of a flight arrive after its
//! landing, as radar's do. Equal options give equal events.
#![forbid(unsafe_code)]

use bytes::Bytes;
use bytestring::ByteString;
use std::collections::VecDeque;
use treefold_core::random::Random;
use treefold_mirror::fields::Value;
use treefold_mirror::{Event, Fields, Name};

/// Options of the generated streams.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Number of flights, at least 1. The paper: 50.
    pub flights: u32,
    /// Positions of a flight between departure and landing.
    pub positions: u32,
    /// Bytes of opaque body of each position. The paper varies events from 0.1 to 8 KB.
    pub body_bytes: usize,
    /// Events per second of both streams together, for the times of events.
    pub per_second: f64,
    /// Seed of everything random.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { flights: 50, positions: 200, body_bytes: 0, per_second: 1_000.0, seed: 1 }
    }
}

/// An event with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    /// Time since the start, in ms.
    pub at_ms: f64,
    /// The event.
    pub event: Event,
}

/// Both streams, without end.
#[derive(Debug)]
pub struct Flights {
    options: Options,
    names: Names,
    flights: Vec<Flight>,
    random: Random,
    /// Events of the present turn that are not given out yet: flight, type, fields.
    ready: VecDeque<(usize, Name, Fields)>,
    faa: u64,
    airline: u64,
    given: u64,
    body: Bytes,
}

#[derive(Debug)]
struct Names {
    faa: Name,
    airline: Name,
    position: Name,
    status: Name,
    gate: Name,
}

#[derive(Debug)]
struct Flight {
    key: ByteString,
    stage: Stage,
    boarded: i128,
    seats: i128,
    lat: f64,
    lon: f64,
    heading: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Boarding,
    /// Positions that are left until landing.
    Flying(u32),
    /// Positions that are left after landing, until the gate.
    Landed(u32),
}

/// Positions that radar still reports after a landing.
const LATE_POSITIONS: u32 = 3;
/// Most passengers that one event of the gate reports.
const BOARDING_AT_ONCE: usize = 40;

impl Flights {
    /// Starts the streams.
    ///
    /// # Panics
    /// If there are no flights.
    pub fn new(options: Options) -> Self {
        assert!(options.flights > 0, "expected at least one flight");
        let name = |text: &'static str| Name::new(text).expect("invariant: these are names");
        let names = Names {
            faa: name("faa"),
            airline: name("airline"),
            position: name("position"),
            status: name("status"),
            gate: name("gate"),
        };
        let mut random = Random::new(options.seed);
        let flights = (0..options.flights).map(|number| Flight {
            key: format!("DL{}", 100 + number).into(),
            // Flights begin at different places of their lives.
            stage: Stage::Flying(1 + random.below(options.positions.max(1) as usize) as u32),
            boarded: 0,
            seats: 80 + random.below(200) as i128,
            lat: random.between(25.0, 48.0),
            lon: random.between(-122.0, -71.0),
            heading: random.between(0.0, 360.0),
        });
        let flights = flights.collect();
        let body: Bytes = (0..options.body_bytes).map(|_| b' ' + random.below(95) as u8).collect();
        Self { options, names, flights, random, ready: VecDeque::new(), faa: 0, airline: 0, given: 0, body }
    }

    /// Lets a random flight do its next step.
    fn step(&mut self) {
        let at = self.random.below(self.flights.len());
        let flight = &mut self.flights[at];
        let names = &self.names;
        let status = |text: &'static str| {
            (at, names.status.clone(), Fields::from_iter([("status", Value::Text(text))]))
        };
        match flight.stage {
            Stage::Boarding => {
                flight.boarded += 1 + self.random.below(BOARDING_AT_ONCE) as i128;
                flight.boarded = flight.boarded.min(flight.seats);
                let boarded =
                    [("boarded", Value::Integer(flight.boarded)), ("expected", Value::Integer(flight.seats))];
                self.ready.push_back((at, names.gate.clone(), Fields::from_iter(boarded)));
                if flight.boarded == flight.seats {
                    flight.stage = Stage::Flying(self.options.positions);
                    self.ready.push_back(status("departed"));
                }
            }
            Stage::Flying(0) => {
                flight.stage = Stage::Landed(LATE_POSITIONS);
                self.ready.push_back(status("landed"));
            }
            Stage::Flying(left) => {
                flight.stage = Stage::Flying(left - 1);
                let position = flight.position(&mut self.random, false);
                self.ready.push_back((at, names.position.clone(), position));
            }
            Stage::Landed(0) => {
                let gate = 1 + self.random.below(30) as i128;
                let at_gate = [("status", Value::Text("at gate")), ("gate", Value::Integer(gate))];
                self.ready.push_back((at, names.status.clone(), Fields::from_iter(at_gate)));
                flight.stage = Stage::Boarding;
                flight.boarded = 0;
                self.ready.push_back(status("boarding"));
            }
            Stage::Landed(left) => {
                flight.stage = Stage::Landed(left - 1);
                if left == LATE_POSITIONS {
                    self.ready.push_back(status("at runway"));
                }
                let position = flight.position(&mut self.random, true);
                self.ready.push_back((at, names.position.clone(), position));
            }
        }
    }
}

impl Flight {
    fn position(&mut self, random: &mut Random, is_on_ground: bool) -> Fields {
        let rounded = |degrees: f64| (degrees * 1e4).round() / 1e4;
        let (speed, altitude) = if is_on_ground { (20.0, 0.0) } else { (450.0, 33_000.0) };
        self.heading = (self.heading + random.between(-2.0, 2.0)).rem_euclid(360.0);
        // A degree is 60 nautical miles; a position is reported about every 4 seconds.
        let step = speed * 4.0 / 3_600.0 / 60.0;
        self.lat = rounded((self.lat + step * self.heading.to_radians().cos()).clamp(24.0, 49.0));
        self.lon = rounded((self.lon + step * self.heading.to_radians().sin()).clamp(-125.0, -66.0));
        let altitude = (altitude + random.between(-200.0, 200.0)).max(0.0) as i128;
        Fields::from_iter([
            ("lat", Value::Float(self.lat)),
            ("lon", Value::Float(self.lon)),
            ("altitude_ft", Value::Integer(altitude)),
            ("speed_kt", Value::Integer((speed + random.between(-10.0, 10.0)) as i128)),
        ])
    }
}

impl Iterator for Flights {
    type Item = Timed;

    fn next(&mut self) -> Option<Timed> {
        while self.ready.is_empty() {
            self.step();
        }
        let (flight, kind, fields) = self.ready.pop_front()?;
        let is_position = kind == self.names.position;
        let (stream, number, body) = if is_position {
            (&self.names.faa, &mut self.faa, self.body.clone())
        } else {
            (&self.names.airline, &mut self.airline, Bytes::new())
        };
        *number += 1;
        let key = self.flights[flight].key.clone();
        let event = Event { stream: stream.clone(), number: *number, key, kind, fields, body };
        let at_ms = self.given as f64 * 1e3 / self.options.per_second;
        self.given += 1;
        Some(Timed { at_ms, event })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use treefold_mirror::MirrorLimits;

    #[test]
    fn numbers_of_each_stream_are_consecutive_and_events_are_valid() {
        let mut last: BTreeMap<Name, u64> = BTreeMap::new();
        let options = Options { body_bytes: 100, ..Options::default() };
        for Timed { event, .. } in Flights::new(options).take(20_000) {
            let last = last.entry(event.stream.clone()).or_default();
            *last += 1;
            assert_eq!(event.number, *last);
            event.check(&MirrorLimits::DEFAULT).unwrap();
            assert_eq!(event.body.len(), if &*event.kind == "position" { 100 } else { 0 });
        }
        let [airline, faa] = last.values().collect::<Vec<_>>()[..] else { panic!("two streams: {last:?}") };
        assert!(*faa > 9 * airline, "most events are positions: {last:?}");
    }

    #[test]
    fn every_flight_lives_its_stages_in_order() {
        let text = |event: &Event| match event.fields.value("status") {
            Some(Value::Text(text)) => text.to_owned(),
            _ => panic!("a status has a text: {event:?}"),
        };
        let order = ["departed", "landed", "at runway", "at gate", "boarding"];
        let mut last: BTreeMap<ByteString, usize> = BTreeMap::new();
        let events = Flights::new(Options { positions: 10, ..Options::default() }).take(20_000);
        for Timed { event, .. } in events.filter(|timed| &*timed.event.kind == "status") {
            let place = order.iter().position(|known| *known == text(&event)).unwrap();
            if let Some(before) = last.insert(event.key.clone(), place) {
                assert_eq!(place, (before + 1) % order.len(), "{}", event.key);
            }
        }
        assert_eq!(last.len(), 50);
    }

    #[test]
    fn equal_options_give_equal_events() {
        let some = |seed| Flights::new(Options { seed, ..Options::default() }).take(500).collect::<Vec<_>>();
        assert_eq!(some(7), some(7));
        assert_ne!(some(7), some(8));
    }
}
