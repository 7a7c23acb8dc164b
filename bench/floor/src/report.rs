//! Formats the figures as text or as JSON.

use crate::measure::{Cost, Figures};
use std::fmt::Write;

/// Titles of the columns.
const TITLES: &str = "\
-- tree -------------------          -- one at a time  -- its cpu µs --  -- pipelined -- -- its cpu µs --
nodes  shape    kind        start ms   p50 µs   p99 µs   node  launcher  depth   waves/s   node  launcher
";
/// Printed under the table.
const NOTE: &str = "\
CPU per wave: node is that of all processes but the launcher, divided by their number; launcher is the launcher's.
";

/// Formats a table with one row per tree.
pub(crate) fn text(figures: &[Figures]) -> String {
    let mut page = String::from(TITLES);
    for one in figures {
        let processes = f64::from(one.kind.processes(one.nodes));
        let of_node = |cost: Cost| (cost.all_us - cost.launcher_us) / processes;
        writeln!(
            page,
            "{:>5}  {:<8} {:<11} {:>8.1} {:>8.0} {:>8.0} {:>6.1} {:>9.1} {:>6} {:>9.0} {:>6.2} {:>9.2}",
            one.nodes,
            one.fanout.to_string(),
            one.kind.to_string(),
            one.startup_ms,
            one.roundtrip_us_p50,
            one.roundtrip_us_p99,
            of_node(one.roundtrip_cost),
            one.roundtrip_cost.launcher_us,
            one.depth,
            one.waves_per_s,
            of_node(one.pipelined_cost),
            one.pipelined_cost.launcher_us,
        )
        .expect("writing to a String never fails");
    }
    page.push_str(NOTE);
    page
}

/// Formats one JSON object per line, with the field names of `treefold bench call -o json`.
pub(crate) fn json(figures: &[Figures]) -> String {
    let mut page = String::new();
    for one in figures {
        writeln!(
            page,
            "{{\"nodes\":{},\"shape\":\"{}\",\"kind\":\"{}\",\"startup_ms\":{:.3},\"roundtrip_us_p50\":{:.1},\
             \"roundtrip_us_p99\":{:.1},\"roundtrip_cpu_us\":{:.1},\"client_roundtrip_cpu_us\":{:.1},\"depth\":{},\
             \"waves_per_s\":{:.1},\"cpu_us_per_wave\":{:.2},\"client_cpu_us_per_wave\":{:.2}}}",
            one.nodes,
            one.fanout,
            one.kind,
            one.startup_ms,
            one.roundtrip_us_p50,
            one.roundtrip_us_p99,
            one.roundtrip_cost.all_us,
            one.roundtrip_cost.launcher_us,
            one.depth,
            one.waves_per_s,
            one.pipelined_cost.all_us,
            one.pipelined_cost.launcher_us,
        )
        .expect("writing to a String never fails");
    }
    page
}
