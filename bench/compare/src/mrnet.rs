//! Figures of MRNet 5.0.1, measured twice from outside, on a machine with two processors.
//!
//! It is not part of a session, because building it needs an old C++ toolchain. So its lines are marked. They
//! show the order of magnitude and must not be compared exactly. The measurements used one integer, `sum`,
//! wait-for-all, and a process for every back-end.
//!
//! The first measurement flushed after each send. The second one, on 2026-11-22, kept 200 to 1,000 waves in
//! flight, on `kary:8`, with both back-ends of MRNet, beside a lean build of Treefold
//! (docs/evaluation-streams.md).

use crate::streams::Figures;

/// Back-ends, fan-out (0 is flat), start ms, round trip p50 and p99 in ms, round trips/s with 16 in flight,
/// waves/s, and processor ms per wave in the upward direction only.
type Record = (u32, u32, f64, f64, f64, f64, f64, f64);

const RECORDS: [Record; 10] = [
    (4, 0, 11.8, 0.28, 0.42, 5302.0, 10867.0, 0.18),
    (16, 0, 51.0, 1.07, 2.5, 1057.0, 2211.0, 0.87),
    (16, 4, 45.0, 1.21, 1.9, 1009.0, 1925.0, 1.03),
    (16, 8, 41.0, 1.16, 2.3, 1158.0, 2118.0, 0.94),
    (64, 0, 266.0, 8.6, 14.0, 135.0, 343.0, 5.1),
    (64, 4, 220.0, 7.4, 14.0, 141.0, 260.0, 7.7),
    (64, 8, 233.0, 7.4, 16.0, 177.0, 407.0, 4.9),
    (256, 0, 2219.0, 52.0, 62.0, 22.0, 34.0, 43.0),
    (256, 4, 1807.0, 43.0, 52.0, 29.0, 52.0, 39.0),
    (256, 8, 1229.0, 29.0, 35.0, 35.0, 64.0, 31.0),
];

/// Back-ends, start ms, round trip p50 in µs, waves/s, and processor µs per wave in the upward direction only,
/// on `kary:8`.
type Pipelined = (u32, f64, f64, f64, f64);

/// The C++ back-end.
const PIPELINED: [Pipelined; 4] = [
    (16, 31.0, 820.0, 8863.0, 216.0),
    (64, 131.0, 3533.0, 2766.0, 717.0),
    (256, 804.0, 27512.0, 519.0, 3604.0),
    (512, 2187.0, 71137.0, 233.0, 8182.0),
];
/// The lightweight C back-end.
const LIGHTWEIGHT: [Pipelined; 4] = [
    (16, 23.0, 514.0, 10340.0, 187.0),
    (64, 82.0, 2333.0, 2961.0, 636.0),
    (256, 444.0, 11834.0, 619.0, 3071.0),
    (512, 1287.0, 33496.0, 261.0, 7572.0),
];

/// Returns the recorded figures of a tree, each with its name.
pub(crate) fn recorded(backends: u32, fanout: &str) -> Vec<(&'static str, Figures)> {
    let mut found: Vec<(&'static str, Figures)> = Vec::new();
    found.extend(flushing(backends, fanout).map(|figures| ("mrnet*", figures)));
    if fanout == "8" {
        found.extend(pipelined(&PIPELINED, backends).map(|figures| ("mrnet-pipe*", figures)));
        found.extend(pipelined(&LIGHTWEIGHT, backends).map(|figures| ("mrnet-lite*", figures)));
    }
    found
}

fn pipelined(records: &[Pipelined], backends: u32) -> Option<Figures> {
    let &(_, start_ms, p50_us, waves_per_s, cpu_us) = records.iter().find(|record| record.0 == backends)?;
    Some(Figures {
        instantiate_ms: Some(start_ms),
        roundtrip_us_p50: Some(p50_us),
        waves_per_s: Some(waves_per_s),
        cpu_us_per_wave: Some(cpu_us),
        ..Figures::default()
    })
}

fn flushing(backends: u32, fanout: &str) -> Option<Figures> {
    let fanout = if fanout == "flat" { 0 } else { fanout.parse().ok()? };
    let record = RECORDS.iter().find(|record| (record.0, record.1) == (backends, fanout))?;
    let &(_, _, start_ms, p50_ms, p99_ms, roundtrips_per_s, waves_per_s, cpu_ms) = record;
    Some(Figures {
        instantiate_ms: Some(start_ms),
        roundtrip_us_p50: Some(p50_ms * 1e3),
        roundtrip_us_p99: Some(p99_ms * 1e3),
        roundtrips_per_s: Some(roundtrips_per_s),
        waves_per_s: Some(waves_per_s),
        cpu_us_per_wave: Some(cpu_ms * 1e3),
        ..Figures::default()
    })
}
