//! A word count of sorted runs (NetAgg §4.2.2): eight mappers, one reducer, one relay.
//!
//! The timed part follows the map. The mappers' runs contain an entry for each occurrence, as after a map
//! without a combiner. They go to the reducer and are merged on the way or there. The remaining share depends
//! on the text: little remains of single words, and more of longer phrases. Nearly all remains if the mappers
//! have already combined long phrases. The caller is at the reducer, because a job's result stays there.

use crate::bed::{Bed, Plan, progress};
use crate::report::{aligned, median};
use crate::settings::Settings;
use crate::usage::{Moment, Usage};
use serde::Serialize;
use std::time::{Duration, Instant};
use treefold::{Client, PartitionSet, Shape, Status};
use treefold_search::words::PHRASE_WORDS_MAX;
use treefold_search::{Run, Words, WordsParams};

/// Mappers, as in the paper.
const MAPPERS: u32 = 8;

/// Longer than the largest data takes over one slow link.
const DEADLINE: Duration = Duration::from_secs(300);

/// Megabytes of all mappers' runs together: the default, and the values of the experiment that varies it.
const DATA_MB: u64 = 16;
const DATA_MB_GROWING: [u64; 5] = [4, 8, 16, 32, 64];

/// A way to send results to the reducer.
struct Series {
    name: &'static str,
    shape: Shape,
    slices: u32,
}

const SERIES: [Series; 4] = [
    Series { name: "base", shape: Shape::Base, slices: 1 },
    Series { name: "adaptive", shape: Shape::Adaptive, slices: 1 },
    Series { name: "relays", shape: Shape::Auto, slices: 1 },
    // One slice is folded and passed on while the next is arriving.
    Series { name: "sliced", shape: Shape::Auto, slices: 8 },
];

/// One job in one series.
#[derive(Debug, Serialize)]
pub(crate) struct Timed {
    series: &'static str,
    phrase: u32,
    combined: bool,
    /// Megabytes of the mappers' runs, and the share of them that remains in the result.
    data_mb: f64,
    ratio: f64,
    runs: usize,
    seconds: f64,
    seconds_least: f64,
    seconds_most: f64,
    /// Speed relative to `base`.
    speedup: f64,
    reducer_in_mbit: f64,
    relay_in_mbit: f64,
    fullest: String,
    fullest_percent: f64,
    machine_percent: f64,
    relay_processors: f64,
}

/// Time against the remaining share (figure 23).
pub(crate) fn ratio(settings: &Settings) -> Result<Vec<Timed>, String> {
    if settings.quick {
        return jobs(settings, &[params(1, 2)]);
    }
    let mut all: Vec<WordsParams> = [1, 2, 3, 5].map(|phrase| params(phrase, DATA_MB)).to_vec();
    all.push(WordsParams { combine: true, ..params(PHRASE_WORDS_MAX, 2 * DATA_MB) });
    jobs(settings, &all)
}

/// Time against the amount of data (figure 24).
pub(crate) fn size(settings: &Settings) -> Result<Vec<Timed>, String> {
    let sizes: &[u64] = if settings.quick { &[2] } else { &DATA_MB_GROWING };
    let all: Vec<WordsParams> = sizes.iter().map(|&megabytes| params(1, megabytes)).collect();
    jobs(settings, &all)
}

fn params(phrase: u32, megabytes: u64) -> WordsParams {
    let bytes_max = Some(megabytes * 1_000_000 / u64::from(MAPPERS));
    WordsParams { phrase, combine: false, bytes_max, ..WordsParams::default() }
}

fn jobs(settings: &Settings, jobs: &[WordsParams]) -> Result<Vec<Timed>, String> {
    let plan =
        Plan { racks: 1, back_ends: MAPPERS, relays_per_rack: 1, relay_processors: None, delayed: false };
    let bed = Bed::new(settings, plan)?;
    let bar = progress("counting words", jobs.len() * SERIES.len() * settings.repeats as usize);
    let mut timed = Vec::new();
    for params in jobs {
        let data_bytes = bed.ask(0, async |client: &Client| mapped(client, params).await)?;
        let mut runs: [Vec<(f64, Usage)>; SERIES.len()] = Default::default();
        let mut result: Option<Run> = None;
        for _ in 0..settings.repeats {
            for (at, series) in SERIES.iter().enumerate() {
                bar.set_message(format!("{}, phrases of {}", series.name, params.phrase));
                let (run, seconds, usage) = job(&bed, params, series)?;
                if result.get_or_insert_with(|| run.clone()) != &run {
                    return Err(format!(
                        "the result of {} differs from that of the other series",
                        series.name
                    ));
                }
                runs[at].push((seconds, usage));
                bar.inc(1);
            }
        }
        let result_bytes = result.map_or(0, |run| run.bytes());
        timed.extend(rows(params, data_bytes, result_bytes, &runs));
    }
    bar.finish_and_clear();
    Ok(timed)
}

/// Makes every mapper compute its run. Returns the bytes of all runs.
async fn mapped(client: &Client, params: &WordsParams) -> Result<usize, String> {
    let mut bytes = 0;
    for mapper in 0..MAPPERS {
        let alone: PartitionSet = [mapper].into_iter().collect();
        let call = client.call::<Run>("search/words", params).partitions(alone).deadline(DEADLINE);
        let reply = call.await.map_err(|error| error.to_string())?;
        bytes += reply.value.ok_or_else(|| format!("mapper {mapper}: {:?}", reply.missing))?.bytes();
    }
    Ok(bytes)
}

/// Runs one job at the reducer.
fn job(bed: &Bed, params: &WordsParams, series: &Series) -> Result<(Run, f64, Usage), String> {
    let before = Moment::of(bed).map_err(|error| error.to_string())?;
    let (run, took) = bed.ask(0, async |client: &Client| {
        let began = Instant::now();
        let call = client.aggregate("search/words", &Words, params).deadline(DEADLINE);
        let reply =
            call.shape(series.shape).slices(series.slices).await.map_err(|error| error.to_string())?;
        match (reply.status, reply.value) {
            (Status::Full, Some(run)) => Ok((run, began.elapsed())),
            (status, _) => Err(format!("a job's result was {}: {:?}", status.name(), reply.missing)),
        }
    })?;
    let after = Moment::of(bed).map_err(|error| error.to_string())?;
    Ok((run, took.as_secs_f64(), before.until(&after, bed)))
}

fn rows(
    params: &WordsParams,
    data_bytes: usize,
    result_bytes: usize,
    runs: &[Vec<(f64, Usage)>; SERIES.len()],
) -> Vec<Timed> {
    let seconds = |runs: &[(f64, Usage)]| median(runs.iter().map(|(seconds, _)| *seconds).collect());
    let base = seconds(&runs[0]);
    let row = |(series, runs): (&Series, &Vec<(f64, Usage)>)| {
        let of = |figure: fn(&Usage) -> f64| median(runs.iter().map(|(_, usage)| figure(usage)).collect());
        let extreme = |better: fn(f64, f64) -> f64| runs.iter().map(|(seconds, _)| *seconds).reduce(better);
        Timed {
            series: series.name,
            phrase: params.phrase,
            combined: params.combine,
            data_mb: data_bytes as f64 / 1e6,
            ratio: result_bytes as f64 / data_bytes.max(1) as f64,
            runs: runs.len(),
            seconds: seconds(runs),
            seconds_least: extreme(f64::min).unwrap_or(0.0),
            seconds_most: extreme(f64::max).unwrap_or(0.0),
            speedup: base / seconds(runs),
            reducer_in_mbit: of(|usage| usage.fronts_in_mbit),
            relay_in_mbit: of(|usage| usage.relays_in_mbit),
            fullest: runs.first().map_or_else(String::new, |(_, usage)| usage.fullest.clone()),
            fullest_percent: of(|usage| usage.fullest_percent),
            machine_percent: of(|usage| usage.machine_percent),
            relay_processors: of(|usage| usage.relay_processors),
        }
    };
    SERIES.iter().zip(runs).map(row).collect()
}

/// Formats the results as a table.
pub(crate) fn table(timed: &[Timed]) -> String {
    let head = [
        "series",
        "phrase",
        "data MB",
        "kept",
        "seconds",
        "least-most",
        "times base",
        "fullest link",
        "machine",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for row in timed {
        lines.push(vec![
            row.series.to_owned(),
            row.phrase.to_string(),
            format!("{:.1}", row.data_mb),
            format!("{:.0} %", 100.0 * row.ratio),
            format!("{:.2}", row.seconds),
            format!("{:.2}-{:.2}", row.seconds_least, row.seconds_most),
            format!("{:.2}", row.speedup),
            format!("{} {:.0} %", row.fullest, row.fullest_percent),
            format!("{:.0} %", row.machine_percent),
        ]);
    }
    aligned(&lines)
}
