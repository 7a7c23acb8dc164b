//! Figures of MRNet 5.0.1, measured once on an otherwise idle machine with two processors.
//!
//! It is not part of a session, because building it needs an old C++ toolchain. So its lines are marked. They
//! show the order of magnitude and must not be compared exactly. The measurement used one integer, `sum`,
//! wait-for-all, and a process for every back-end.

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

/// Returns the recorded figures of a tree, if there are any.
pub(crate) fn recorded(backends: u32, fanout: &str) -> Option<Figures> {
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
