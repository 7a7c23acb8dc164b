//! Counters of traced calls and of slow calls.

use super::page::Page;
use crate::observers::Observers;
use treefold_traces::Figures;

pub(super) fn show(page: &mut Page, observers: &Observers) {
    let Figures { exported, failed, dropped, limited } = observers.traced();
    let (slow, unwritten) = observers.slow();
    for (name, help, count) in [
        ("treefold_traces_exported_total", "Traced calls whose spans were exported.", exported),
        ("treefold_traces_failed_total", "Traced calls whose spans a target has not taken.", failed),
        ("treefold_traces_dropped_total", "Traced calls whose spans found no room in the queue.", dropped),
        ("treefold_traces_limited_total", "Calls not traced because trace_per_second were.", limited),
        ("treefold_gateway_slow_calls_total", "Calls that took as long as slow_call.", slow),
        ("treefold_gateway_slow_calls_unwritten_total", "Slow calls without a line in the log.", unwritten),
    ] {
        page.single(name, "counter", help, count);
    }
}
