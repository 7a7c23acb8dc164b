//! `bench-mirrors slow` and `bench-mirrors memory`: readers that stop reading, and bytes for each key and reader.

use crate::Problem;
use crate::joins::Rounds;
use crate::report::{Output, Row, print};
use crate::still::{Told, Way};
use crate::system::{Base, System};
use crate::tally::Count;
use crate::trial::{Load, Plan, Stage, pause, start_part};
use crate::work::Work;
use clap::Args;
use std::time::{Duration, Instant};
use treefold_bench_down::part::{Part, resident_bytes};

/// Time between two readings of a process's memory.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Looks at a mirror until it has all keys or readers.
const LOOKS_MAX: u32 = 2_000;
const WAYS: [Way; 3] = [Way::Library, Way::Lines, Way::Sent];

/// Measure regular readers and a mirror's memory while other readers have stopped reading
#[derive(Debug, Args)]
pub(crate) struct SlowArgs {
    /// Time that readers do not read, in seconds
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Time before and after that, in seconds
    #[arg(long, default_value_t = 15.0)]
    beside: f64,
    /// Stopped readers of each way: library, lines over HTTP, server-sent events
    #[arg(long, default_value_t = 5)]
    each: usize,
    /// Events per second
    #[arg(long, default_value_t = 5_000.0)]
    rate: f64,
    #[arg(long, default_value_t = 6_000)]
    keys: u32,
    #[arg(long, default_value_t = 1_000)]
    bytes: usize,
    /// Processes of regular readers
    #[arg(long, default_value_t = 2)]
    readers: u32,
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// Measure a mirror's memory for each key, and for each idle reader
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    #[arg(long, default_value_t = 100_000)]
    keys: u32,
    #[arg(long, default_value_t = 100)]
    bytes: usize,
    /// Idle readers, first over streams, then over HTTP
    #[arg(long, default_value_t = 1_000)]
    readers: usize,
    #[command(flatten)]
    rounds: Rounds,
}

fn treefold() -> System {
    System { base: Base::Treefold, has_rules: false }
}

/// The most memory that a mirror had in each of these parts of a phase, in order. If it has a limit, they become equal.
const MEMORY: [&str; 6] =
    ["mirror_mib_1", "mirror_mib_2", "mirror_mib_3", "mirror_mib_4", "mirror_mib_5", "mirror_mib_6"];

/// Lets time pass, and returns the most memory that a process had in each part of it.
fn watch(process: u32, seconds: f64) -> Result<[u64; MEMORY.len()], Problem> {
    let mut most = [0; MEMORY.len()];
    for part in &mut most {
        let began = Instant::now();
        while began.elapsed().as_secs_f64() < seconds / MEMORY.len() as f64 {
            pause(LOOK_INTERVAL)?;
            *part = (*part).max(resident_bytes(process)?);
        }
    }
    Ok(most)
}

pub(crate) fn run_slow(args: &SlowArgs) -> Result<(), Problem> {
    let work = Work { keys: args.keys, bytes: args.bytes };
    let plan = Plan { readers: args.readers, ..Plan::new(treefold(), work) };
    let mut stage = Stage::start(&plan)?;
    stage.begin(Load { rate: Some(args.rate), joins: Some(0.0) })?;
    // Queues and logs reach their usual size.
    watch(stage.mirror_id()?, args.beside)?;
    let mut rows = Vec::new();
    let mut phase = |stage: &mut Stage, name: &str, seconds: f64| -> Result<(), Problem> {
        eprintln!("{name}: {seconds} s");
        stage.mark()?;
        let most = watch(stage.mirror_id()?, seconds)?.map(|bytes| bytes as f64 / f64::from(1 << 20));
        let counts = stage.counts()?;
        let worst = |figure: fn(&Count) -> f64| counts.iter().map(figure).fold(0.0, f64::max);
        rows.push(Row {
            case: vec![("phase", name.to_owned())],
            figures: vec![
                ("delay_p50_us", worst(|count| count.delay_p50_us)),
                ("delay_p99_us", worst(|count| count.delay_p99_us)),
                ("pause_ms_max", worst(|count| count.pause_ms_max)),
                ("lagged", worst(|count| count.lagged as f64)),
            ]
            .into_iter()
            .chain(MEMORY.into_iter().zip(most))
            .collect(),
        });
        Ok(())
    };
    phase(&mut stage, "before", args.beside)?;
    let mut stopped = start_still(&stage, work, args.each, false, &WAYS)?;
    phase(&mut stage, "stopped", args.seconds)?;
    let told = stopped.iter_mut().map(|part| part.ask::<Told>("read")).collect::<Result<Vec<_>, _>>()?;
    drop(stopped);
    phase(&mut stage, "after", args.beside)?;
    stage.end()?;
    print(&rows, args.output);
    let told = WAYS.iter().zip(told).map(|(way, told)| Row {
        case: vec![("stopped_readers", way.name().to_owned())],
        figures: vec![
            ("readers", args.each as f64),
            ("told_that_they_lag", told.lagged as f64),
            ("cut_off", told.cut_off as f64),
            ("complete_again", told.complete as f64),
        ],
    });
    print(&told.collect::<Vec<_>>(), args.output);
    Ok(())
}

/// Starts processes of readers that stand still, one for each way.
fn start_still(
    stage: &Stage,
    work: Work,
    count: usize,
    has_key: bool,
    ways: &[Way],
) -> Result<Vec<Part>, Problem> {
    let start = |way: &Way| {
        let mut words: Vec<String> =
            ["--way", way.name(), "--count", &count.to_string()].map(str::to_owned).to_vec();
        if has_key {
            words.push("--has-key".to_owned());
        }
        start_part("still", &stage.args, work, &words)
    };
    ways.iter().map(start).collect()
}

pub(crate) fn run_memory(args: &MemoryArgs) -> Result<(), Problem> {
    let work = Work { keys: args.keys, bytes: args.bytes };
    crate::joins::rounds(&[Way::Library, Way::Lines], &args.rounds, |&way| {
        let plan = Plan { fills: false, ..Plan::new(treefold(), work) };
        let mut stage = Stage::start(&plan)?;
        let empty = stage.mirrors()?[0].resident_bytes;
        stage.source.tell("fill")?;
        let full = await_mirror(&mut stage, |keys, _| keys == u64::from(args.keys))?;
        let _still = start_still(&stage, work, args.readers, true, &[way])?;
        let read = await_mirror(&mut stage, |_, readers| readers == args.readers as u64)?;
        Ok(vec![Row {
            case: vec![
                ("readers_over", way.name().to_owned()),
                ("keys", args.keys.to_string()),
                ("bytes", args.bytes.to_string()),
                ("readers", args.readers.to_string()),
            ],
            figures: vec![
                ("mirror_mib_empty", empty as f64 / f64::from(1 << 20)),
                ("bytes_per_key", full.saturating_sub(empty) as f64 / f64::from(args.keys)),
                ("bytes_per_reader", read.saturating_sub(full) as f64 / args.readers as f64),
            ],
        }])
    })
}

/// Waits until a mirror has its keys and readers, and a moment longer. Returns its memory.
fn await_mirror(stage: &mut Stage, is_so: impl Fn(u64, u64) -> bool) -> Result<u64, Problem> {
    for _ in 0..LOOKS_MAX {
        pause(Duration::from_millis(20))?;
        let report = stage.mirrors()?;
        if report.iter().all(|report| is_so(report.keys, report.readers)) {
            pause(Duration::from_secs(1))?;
            return Ok(stage.mirrors()?[0].resident_bytes);
        }
    }
    Err("the mirror does not have all keys and readers".into())
}
