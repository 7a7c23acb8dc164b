//! Formats the figures as text or as JSON.

use crate::measure::Figures;
use std::fmt::Write;

/// Formats a table with one row per tree.
pub(crate) fn text(figures: &[Figures]) -> String {
    let mut page = String::from(
        "                       one at a time                      pipelined\n\
         nodes  shape    start-up ms   p50 µs   p99 µs  cpu µs/node   depth   waves/s  cpu µs/node\n",
    );
    for one in figures {
        let nodes = f64::from(one.nodes);
        writeln!(
            page,
            "{:>5}  {:<8} {:>10.1} {:>8.0} {:>8.0} {:>12.1} {:>7} {:>9.0} {:>12.1}",
            one.nodes,
            one.fanout.to_string(),
            one.startup_ms,
            one.roundtrip_us_p50,
            one.roundtrip_us_p99,
            one.roundtrip_cpu_us / nodes,
            one.depth,
            one.waves_per_s,
            one.cpu_us_per_wave / nodes,
        )
        .expect("writing to a String never fails");
    }
    page
}

/// Formats one JSON object per line, with the field names of `treefold bench call -o json`.
pub(crate) fn json(figures: &[Figures]) -> String {
    let mut page = String::new();
    for one in figures {
        writeln!(
            page,
            "{{\"nodes\":{},\"shape\":\"{}\",\"startup_ms\":{:.3},\"roundtrip_us_p50\":{:.1},\
             \"roundtrip_us_p99\":{:.1},\"roundtrip_cpu_us\":{:.1},\"depth\":{},\"waves_per_s\":{:.1},\
             \"cpu_us_per_wave\":{:.1}}}",
            one.nodes,
            one.fanout,
            one.startup_ms,
            one.roundtrip_us_p50,
            one.roundtrip_us_p99,
            one.roundtrip_cpu_us,
            one.depth,
            one.waves_per_s,
            one.cpu_us_per_wave,
        )
        .expect("writing to a String never fails");
    }
    page
}
