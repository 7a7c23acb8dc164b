//! `bench-cluster fairness`: one node runs two applications with tasks of 34 ms and 2 ms of processor time,
//! and the callers of both call without pause.
//!
//! The node is a separate process and the tasks really spin. The processor time of each application is the
//! time that the node charged it, which its threads measured. Shares are set while the node runs, with the
//! same request as `treefold shares set`, and the tasks' costs change while it runs as well. After each
//! change the benchmark measures two things: the difference between each part of the processor time and the
//! part due to it, once one second has passed (steady state); and the time from the change until the parts
//! since the change stay within two points of the parts due.

use clap::Args;
use serde::Serialize;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;
use treefold::Client;
use treefold::shares::{Class, ShareSetting, SharesReport};
use treefold_cli::commands::{connect, failure_of};
use treefold_cli::exit::{Failure, Verdict};
use treefold_cli::fleet::Fleet;
use treefold_cli::output::style::Style;
use treefold_cli::output::table::{Align, Table};
use treefold_cli::output::{Format, print, print_json, rounded};
use treefold_cli::parse;
use treefold_micro::{Folded, Work};

/// Measure two applications' parts of one node's processor time while shares and tasks change
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchFairness {
    /// Duration of each phase, in seconds
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = parse::seconds)]
    seconds: f64,

    /// Number of the node's processors, and of its worker threads
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    processors: u32,

    /// Number of callers of each application; each calls again as soon as it has its answer
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    callers: u32,

    /// Interval between two readings of the node's accounts, in seconds
    #[arg(long, value_name = "S", default_value_t = 0.1, value_parser = parse::seconds)]
    sample: f64,
}

const EXAMPLES: &str = "\
With -o json, one line:
  {processors, callers, phases: [{what, share_long, share_short, class_long, long_ms, short_ms, due, first_second,
   steady, error_points, converged_ms, long_per_s, short_per_s}], samples: [{at_s, phase, part}]}
due, first_second, steady and part are the long application's part of the processor time of both: as its share
demands, in the first second after the change, from then on, and in each interval between samples. error_points is
steady minus due, in hundredths of the whole; converged_ms is the time after which the part since the change stays
within two of them, null if it never does.

Examples:
  bench-cluster fairness
  bench-cluster fairness --seconds 20 --processors 1 -o json";

/// Deadline of each call.
///
/// The benchmark cuts no call short: a call that takes longer is a failure, not a figure.
const DEADLINE: Duration = Duration::from_secs(60);
/// Time after a change that does not count as steady state.
const WARM_UP: Duration = Duration::from_secs(1);
/// Largest distance from the part due at which an application has converged.
const CLOSE: f64 = 0.02;
/// The two applications.
const NAMES: [&str; 2] = ["long", "short"];

/// Shares, class and task costs that hold for one phase.
#[derive(Clone, Copy)]
struct Phase {
    what: &'static str,
    shares: [f64; 2],
    class_long: Class,
    tasks_ms: [f64; 2],
    /// The long application's part of the processor time.
    due: f64,
}

const PHASES: [Phase; 6] = {
    const FIRST: Phase = Phase {
        what: "equal shares",
        shares: [1.0, 1.0],
        class_long: Class::Interactive,
        tasks_ms: [34.0, 2.0],
        due: 0.5,
    };
    [
        FIRST,
        Phase { what: "3 to 1", shares: [3.0, 1.0], due: 0.75, ..FIRST },
        Phase { what: "1 to 3", shares: [1.0, 3.0], due: 0.25, ..FIRST },
        Phase { what: "equal again", ..FIRST },
        Phase { what: "other tasks", tasks_ms: [5.0, 20.0], ..FIRST },
        Phase { what: "long is batch", class_long: Class::Batch, due: 0.05, ..FIRST },
    ]
};

#[derive(Debug, Serialize)]
struct Figures {
    processors: u32,
    callers: u32,
    phases: Vec<PhaseFigures>,
    samples: Vec<Sample>,
}

#[derive(Debug, Serialize)]
struct PhaseFigures {
    what: &'static str,
    share_long: f64,
    share_short: f64,
    class_long: &'static str,
    long_ms: f64,
    short_ms: f64,
    due: f64,
    #[serde(serialize_with = "four_digits")]
    first_second: f64,
    #[serde(serialize_with = "four_digits")]
    steady: f64,
    #[serde(serialize_with = "rounded")]
    error_points: f64,
    converged_ms: Option<u64>,
    #[serde(serialize_with = "rounded")]
    long_per_s: f64,
    #[serde(serialize_with = "rounded")]
    short_per_s: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Sample {
    #[serde(serialize_with = "rounded")]
    at_s: f64,
    phase: usize,
    #[serde(serialize_with = "four_digits")]
    part: f64,
}

fn four_digits<S: serde::Serializer>(part: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((part * 1e4).round() / 1e4)
}

/// Processor time and jobs that the node has charged to both applications, at a time of the node's clock.
#[derive(Clone, Copy, Debug)]
struct Charged {
    at_ms: f64,
    used_ms: [f64; 2],
    jobs: [u64; 2],
}

impl Charged {
    fn of(report: &SharesReport) -> Self {
        let account = |name: &str| report.services.iter().find(|account| *account.service == *name);
        let used_ms = NAMES.map(|name| account(name).map_or(0.0, |account| account.used.as_secs_f64() * 1e3));
        let jobs = NAMES.map(|name| account(name).map_or(0, |account| account.jobs_done));
        Self { at_ms: report.uptime.as_secs_f64() * 1e3, used_ms, jobs }
    }

    /// Returns the long application's part of the processor time that both used since `before`.
    fn part_since(&self, before: &Self) -> f64 {
        let [long, short] = [0, 1].map(|at| self.used_ms[at] - before.used_ms[at]);
        if long + short > 0.0 { long / (long + short) } else { 0.0 }
    }
}

impl BenchFairness {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let threads = self.processors.to_string();
        let mut told = vec!["--workers", &threads, "--processors", &threads];
        told.extend([
            "--serve",
            "micro:partitions=0/1:name=long",
            "--serve",
            "micro:partitions=0/1:name=short",
        ]);
        let fleet = Fleet::start_told(vec![told.into_iter().map(str::to_owned).collect()]).await?;
        let figures = LocalSet::new().run_until(self.measure(&fleet)).await;
        fleet.end().await;
        let figures = figures?;
        match format {
            Format::Json => print_json(&figures),
            Format::Text => print(table(&figures).render(Style::of_stdout())),
        }
        Ok(Verdict::Full)
    }

    async fn measure(&self, fleet: &Fleet) -> Result<Figures, Failure> {
        let at = [fleet.first_addr().to_owned()];
        let client = connect(&at, false, fleet.cluster()).await?;
        let tasks_ms = Rc::new(PHASES[0].tasks_ms.map(Cell::new));
        let trouble = Rc::new(Cell::new(None));
        for (which, name) in NAMES.into_iter().enumerate() {
            // One connection for each application, so that neither waits in the other's queue to the node.
            let of_its_own = connect(&at, false, fleet.cluster()).await?;
            for _ in 0..self.callers {
                let caller =
                    call_again(of_its_own.clone(), name, which, Rc::clone(&tasks_ms), Rc::clone(&trouble));
                tokio::task::spawn_local(caller);
            }
        }
        // The parts are not meaningful until all callers are active.
        tokio::time::sleep(WARM_UP).await;
        let began = Charged::of(&client.shares().await.map_err(failure_of)?);
        let (mut phases, mut samples) = (Vec::new(), Vec::new());
        for (number, phase) in PHASES.iter().enumerate() {
            tasks_ms.iter().zip(phase.tasks_ms).for_each(|(cell, ms)| cell.set(ms));
            let rows = self.play(&client, phase).await?;
            if let Some(problem) = trouble.take() {
                return Err(Failure::failed(problem));
            }
            samples.extend(rows.windows(2).map(|pair| Sample {
                at_s: (pair[1].at_ms - began.at_ms) / 1e3,
                phase: number,
                part: pair[1].part_since(&pair[0]),
            }));
            phases.push(figures_of(phase, &rows));
        }
        Ok(Figures { processors: self.processors, callers: self.callers, phases, samples })
    }

    /// Plays one phase and returns the accounts at each reading.
    ///
    /// The first reading is from when the shares were set.
    async fn play(&self, client: &Client, phase: &Phase) -> Result<Vec<Charged>, Failure> {
        let classes = [phase.class_long, Class::Interactive];
        let settings = (0..NAMES.len()).map(|at| ShareSetting {
            service: NAMES[at].to_owned(),
            share: phase.shares[at],
            class: Some(classes[at]),
        });
        let began_at = Instant::now();
        let mut rows = vec![Charged::of(&client.set_shares(settings).await.map_err(failure_of)?)];
        while began_at.elapsed().as_secs_f64() < self.seconds {
            tokio::time::sleep(Duration::from_secs_f64(self.sample)).await;
            rows.push(Charged::of(&client.shares().await.map_err(failure_of)?));
        }
        Ok(rows)
    }
}

fn figures_of(phase: &Phase, rows: &[Charged]) -> PhaseFigures {
    let (first, last) = (rows[0], rows[rows.len() - 1]);
    let steady_ms = first.at_ms + WARM_UP.as_secs_f64() * 1e3;
    let steady_row = rows.iter().find(|row| row.at_ms >= steady_ms).unwrap_or(&last);
    let steady = last.part_since(steady_row);
    let is_close = |row: &&Charged| (row.part_since(&first) - phase.due).abs() <= CLOSE;
    let close_to_the_end = rows[1..].iter().rev().take_while(is_close).last();
    let seconds = (last.at_ms - steady_row.at_ms) / 1e3;
    let per_s = |at: usize| (last.jobs[at] - steady_row.jobs[at]) as f64 / seconds;
    PhaseFigures {
        what: phase.what,
        share_long: phase.shares[0],
        share_short: phase.shares[1],
        class_long: phase.class_long.name(),
        long_ms: phase.tasks_ms[0],
        short_ms: phase.tasks_ms[1],
        due: phase.due,
        first_second: steady_row.part_since(&first),
        steady,
        error_points: 100.0 * (steady - phase.due),
        converged_ms: close_to_the_end.map(|row| (row.at_ms - first.at_ms) as u64),
        long_per_s: per_s(0),
        short_per_s: per_s(1),
    }
}

/// A caller that calls again as soon as it has its answer.
async fn call_again(
    client: Client,
    name: &'static str,
    which: usize,
    tasks_ms: Rc<[Cell<f64>; 2]>,
    trouble: Rc<Cell<Option<String>>>,
) {
    loop {
        let work = Work { local_ms: tasks_ms[which].get(), reduce_ms: 0.0, ..Work::default() };
        let call = client.call::<Folded>(&format!("{name}/spin"), &work).deadline(DEADLINE);
        let problem = match call.await {
            Ok(reply) if reply.value.is_some() => continue,
            Ok(reply) => format!("a call of {name} was not answered: {:?}", reply.missing),
            Err(error) => format!("a call of {name} failed: {error}"),
        };
        trouble.set(Some(problem));
        return;
    }
}

fn table(figures: &Figures) -> Table {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("phase", Align::Left),
        ("shares", right),
        ("tasks ms", right),
        ("due", right),
        ("first second", right),
        ("steady", right),
        ("error", right),
        ("within 2 points", right),
        ("long/s", right),
        ("short/s", right),
    ]);
    for phase in &figures.phases {
        let percent = |part: f64| format!("{:.2} %", 100.0 * part);
        table.row(vec![
            phase.what.to_owned(),
            format!("{}:{}", phase.share_long, phase.share_short),
            format!("{}, {}", phase.long_ms, phase.short_ms),
            percent(phase.due),
            percent(phase.first_second),
            percent(phase.steady),
            format!("{:+.2} points", phase.error_points),
            phase.converged_ms.map_or("never".to_owned(), |ms| format!("after {ms} ms")),
            format!("{:.1}", phase.long_per_s),
            format!("{:.1}", phase.short_per_s),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(at_ms: f64, long_ms: f64, short_ms: f64) -> Charged {
        Charged { at_ms, used_ms: [long_ms, short_ms], jobs: [0, 0] }
    }

    #[test]
    fn a_phase_has_converged_when_it_stays_close() {
        // The part due is 50 %. The long application gets nothing at first, catches up within 800 ms, and
        // keeps pace.
        let mut rows: Vec<Charged> =
            [row(0.0, 70.0, 30.0), row(400.0, 70.0, 430.0), row(800.0, 470.0, 430.0)].into();
        rows.extend((3..20).map(|at| {
            row(400.0 * f64::from(at), 470.0 + 200.0 * f64::from(at), 430.0 + 200.0 * f64::from(at))
        }));
        let figures = figures_of(&PHASES[0], &rows);
        assert_eq!(figures.converged_ms, Some(800));
        assert!(figures.error_points.abs() < 0.01, "{figures:?}");
        let off: Vec<Charged> =
            (0..20).map(|at| row(400.0 * f64::from(at), 100.0 * f64::from(at), 0.0)).collect();
        assert_eq!(figures_of(&PHASES[0], &off).converged_ms, None);
    }
}
