//! The experiments of NetAgg's testbed (§4.2), each a list of cases on one running testbed.
//!
//! All cases of an experiment are measured on the same nodes, one after the other. The whole list is
//! repeated, alternately forwards and backwards, so that drift of the machine affects all of them. The series
//! differ only in the shape that calls request.
//!
//! - [`search`]: search with bulky partial results, on one rack and on two, with one relay and with two.
//! - [`batch`]: a word count of sorted runs.
//! - [`trees`]: shapes without relays, against the size of partials, the time of a fold, and the delay of the links.

pub(crate) mod batch;
pub(crate) mod search;
pub(crate) mod trees;

use crate::bed::{Bed, progress};
use crate::load::{Load, Seen};
use crate::report::{Point, Row};
use crate::settings::Settings;
use std::time::Duration;

/// Time in which a front probes all members once (at 200 ms each) and so measures a new delay.
const PROBED: Duration = Duration::from_secs(6);

/// One line of a table: a load, with its series and its value of the varied parameter.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) series: String,
    pub(crate) at: f64,
    pub(crate) load: Load,
    /// Of each link, in both directions; `None` if the bed's links can't be delayed.
    pub(crate) delay: Option<Duration>,
    /// The share of a processor that each relay has; `None` leaves it as the bed's plan says.
    pub(crate) relay_processors: Option<f64>,
}

impl Case {
    /// A case that changes nothing of the bed.
    pub(crate) fn new(series: impl Into<String>, at: f64, load: Load) -> Self {
        Self { series: series.into(), at, load, delay: None, relay_processors: None }
    }

    /// Sets the bed as the case has it, and measures.
    fn measure(&self, bed: &Bed, words: &[String], seconds: f64, seed: u64) -> Result<Seen, String> {
        if let Some(processors) = self.relay_processors {
            bed.hold_relays(processors)?;
        }
        self.load.measure(bed, words, seconds, seed)
    }
}

/// Measures all cases repeatedly, alternately in both orders.
pub(crate) fn measured(bed: &Bed, cases: &[Case], settings: &Settings) -> Result<Vec<Point>, String> {
    let words = bed.words()?;
    let cases: Vec<&Case> = cases.iter().filter(|case| settings.wants(&case.series)).collect();
    let mut rows: Vec<Row> = cases.iter().map(|case| Row::new(&case.series, case.at)).collect();
    let mut delay = None;
    let bar = progress("measuring", cases.len() * settings.repeats as usize);
    for repeat in 0..settings.repeats {
        let mut order: Vec<usize> = (0..cases.len()).collect();
        if repeat % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let case = cases[at];
            bar.set_message(format!("{} at {}", case.series, case.at));
            if let Some(new) = case.delay.filter(|&new| delay != Some(new)) {
                bed.network.set_delay(new);
                delay = Some(new);
                std::thread::sleep(PROBED);
            }
            let seen = case.measure(bed, &words, settings.seconds, u64::from(repeat) + 1);
            rows[at].runs.push(seen.map_err(|problem| format!("{} at {}: {problem}", case.series, case.at))?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(rows.iter().map(Row::point).collect())
}
