//! Processor time of mirrored events in this crate alone: at the origin, at a mirror, and of snapshots.
//!
//! ```text
//! cargo bench -p treefold-mirror --bench events
//! ```
//!
//! Each figure is the median of `ROUNDS` interleaved rounds, in ns an event (of snapshots, in ms).

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock, which the library must not"
)]

use bytes::Bytes;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant as Clock;
use treefold_core::time::Instant;
use treefold_mirror::fields::Value;
use treefold_mirror::keyed::KeyedState;
use treefold_mirror::mirror::Mirror;
use treefold_mirror::origin::Origin;
use treefold_mirror::rules::RuleFile;
use treefold_mirror::rules::file::StateOptions;
use treefold_mirror::select::Functions;
use treefold_mirror::snapshot::Snapshot;
use treefold_mirror::state::Frozen;
use treefold_mirror::{Cut, Event, Fields, MirrorLimits, Name};

const EVENTS: u64 = 200_000;
/// Events that are ready at one time.
const AT_ONCE: u64 = 64;
const ROUNDS: usize = 7;
const RULES: [(&str, &str); 2] = [
    ("no rules", ""),
    (
        "overwrite, 20",
        "[[rule]]\nname = 'a'\noverwrite = { type = 'position', run = 20, max_age_ms = 60000 }",
    ),
];

struct Measured {
    origin_ns: f64,
    mirror_ns: f64,
    mirrored: u64,
    freeze_ms: f64,
    encode_ms: f64,
}

fn main() {
    println!(
        "{:>7}  {:>5}  {:<13}  {:>11}  {:>11}  {:>8}  {:>9}  {:>9}",
        "keys", "body", "rules", "origin (ns)", "mirror (ns)", "mirrored", "freeze ms", "encode ms"
    );
    for keys in [6_000, 100_000] {
        for body in [0, 1_000] {
            let events = events(keys, body);
            let mut rounds: Vec<Vec<Measured>> = RULES.iter().map(|_| Vec::new()).collect();
            for _ in 0..ROUNDS {
                for (of_rules, (_, rules)) in rounds.iter_mut().zip(RULES) {
                    of_rules.push(round(rules, &events));
                }
            }
            for (of_rules, (name, _)) in rounds.iter().zip(RULES) {
                let median = |figure: fn(&Measured) -> f64| {
                    let mut all: Vec<f64> = of_rules.iter().map(figure).collect();
                    all.sort_by(f64::total_cmp);
                    all[all.len() / 2]
                };
                println!(
                    "{keys:>7}  {body:>5}  {name:<13}  {:>11.0}  {:>11.0}  {:>8}  {:>9.3}  {:>9.2}",
                    median(|one| one.origin_ns),
                    median(|one| one.mirror_ns),
                    of_rules[0].mirrored,
                    median(|one| one.freeze_ms),
                    median(|one| one.encode_ms),
                );
            }
        }
    }
}

/// Events of about 100 bytes besides their body.
fn events(keys: u64, body: usize) -> Vec<Event> {
    let name = |text: &'static str| Name::new(text).expect("a name");
    let body = Bytes::from(vec![b'x'; body]);
    let event = |number: u64| {
        let fields = [
            ("lat", Value::Float(33.6 + number as f64 / 1e6)),
            ("lon", Value::Float(-84.4)),
            ("altitude_ft", Value::Integer((number % 40_000).into())),
            ("speed_kt", Value::Integer(450)),
        ];
        // A step that has no factor in common with the number of keys reaches all of them.
        let key = format!("flight-{:06}", number.wrapping_mul(7_919) % keys);
        let (stream, kind, fields) = (name("faa"), name("position"), Fields::from_iter(fields));
        Event { stream, number, key: key.into(), kind, fields, body: body.clone() }
    };
    (1..=EVENTS).map(event).collect()
}

fn round(rules: &str, events: &[Event]) -> Measured {
    let limits = MirrorLimits { backup_bytes_max: usize::MAX, resume_bytes_max: 0, ..MirrorLimits::DEFAULT };
    let rules = Arc::new(RuleFile::read(rules).expect("valid rules"));
    let start = Cut { epoch: 1, position: 0 };
    let mut origin = Origin::new(start, rules, Functions::new(), limits.clone(), 1).expect("no functions");
    let mut packets = Vec::new();
    let begun = Clock::now();
    for at_once in events.chunks(AT_ONCE as usize) {
        let now = Instant::from_nanos(at_once[0].number * 1_000);
        for event in at_once {
            origin.offer(now, event.clone()).expect("room");
        }
        packets.extend(std::iter::from_fn(|| origin.poll_packet(now, 1)).map(|sent| sent.packet));
    }
    let origin_ns = begun.elapsed().as_nanos() as f64 / events.len() as f64;

    let state = KeyedState::new(StateOptions::default(), &limits, 1);
    let snapshot = Snapshot::beginning(start, state);
    let mut mirror = Mirror::new(snapshot, &limits);
    let begun = Clock::now();
    for packet in &packets {
        black_box(mirror.take(packet).expect("in order"));
    }
    let mirrored = mirror.cut().position;
    let mirror_ns = begun.elapsed().as_nanos() as f64 / mirrored as f64;

    let begun = Clock::now();
    let snapshot = mirror.snapshot();
    let freeze_ms = begun.elapsed().as_secs_f64() * 1e3;
    let begun = Clock::now();
    black_box(snapshot.state.encode(60 << 10));
    let encode_ms = begun.elapsed().as_secs_f64() * 1e3;
    Measured { origin_ns, mirror_ns, mirrored, freeze_ms, encode_ms }
}
