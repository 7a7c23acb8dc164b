//! `bench-cluster tool startup`: a tool's start, phase by phase (MRNet §3.1, §4.2.1, figure 8).
//!
//! The clock starts when all daemons run and the front-end is about to open its streams. It stops when all
//! daemons have reported that they are done. The daemons' own work on the program (parsing it) is not
//! emulated; it would run in parallel and does not depend on the network.

use super::backends::{Backends, Cost};
use super::clocks::Estimate;
use super::front::{Fold, FrontEnd};
use super::scale::Scale;
use super::verify::{ByClass, verify};
use super::{median, print_rows};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::time::{Duration, Instant};
use treefold::Shape;
use treefold::operators::filter::classes::Classes;
use treefold::operators::packet::Packet;
use treefold_cli::exit::{Failure, Verdict};
use treefold_cli::output::Format;
use treefold_cli::output::style::Style;
use treefold_cli::output::table::{Align, Table};
use treefold_daemon::{Request, metrics};

/// Measure a tool's start-up, phase by phase
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct BenchStartup {
    #[command(flatten)]
    scale: Scale,

    /// Number of rounds of clock skew detection
    #[arg(long, value_name = "R", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    rounds: u32,

    /// Number of repetitions of the start, shapes in turn; medians are shown
    #[arg(long, value_name = "R", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
}

const EXAMPLES: &str = "\
Phases: the streams are opened; every daemon reports itself (concatenated); metric definitions go down, and one
daemon of each class that supports the same ones reports them; clocks are compared; processes and machines are
reported (concatenated); code and call graph of the program are reported by class, checksums first and then the
whole from one daemon of each class; all are done (summed). Every report is checked. flat has no filters: the
front-end gets every packet of every daemon and folds itself, and asks for clocks one by one.
With -o json, an array with an entry for each shape:
  {backends, processes, shape, runs, rounds, classes, phases: [{phase, ms}], total_ms, front_cpu_ms, cpu_ms}
cpu_ms is processor time of a start over all processes, front_cpu_ms the front-end's part.

Examples:
  bench-cluster tool startup --backends 64 --shape flat,kary:4,kary:8
  bench-cluster tool startup --backends 512 --per-process 8 -o json";

/// The daemons' reports in one start.
pub(super) struct Reported {
    pub(super) itself: Packet,
    pub(super) metrics: ByClass,
    pub(super) skews: Vec<Estimate>,
    pub(super) process: Packet,
    pub(super) machine: Packet,
    pub(super) code: ByClass,
    pub(super) call_graph: ByClass,
    pub(super) done: Packet,
}

/// Durations of the phases, one after the other.
struct Laps {
    began_at: Instant,
    all: Vec<(&'static str, Duration)>,
}

impl Laps {
    fn start() -> Self {
        Self { began_at: Instant::now(), all: Vec::new() }
    }

    fn end(&mut self, phase: &'static str) {
        let now = Instant::now();
        self.all.push((phase, now - self.began_at));
        self.began_at = now;
    }
}

/// One start.
struct Start {
    laps: Vec<(&'static str, Duration)>,
    cost: Cost,
    classes: usize,
}

#[derive(Serialize)]
struct Figures {
    backends: u32,
    processes: u32,
    shape: String,
    runs: u32,
    rounds: u32,
    classes: usize,
    phases: Vec<Phase>,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    total_ms: f64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    front_cpu_ms: f64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    cpu_ms: f64,
}

#[derive(Serialize)]
struct Phase {
    phase: &'static str,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    ms: f64,
}

impl BenchStartup {
    pub(super) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let figures = Backends::during(&self.scale, async |backends| {
            let measured = self.measure(backends).await?;
            let figures = |(shape, starts): &(Shape, Vec<Start>)| self.figures(backends, *shape, starts);
            Ok(measured.iter().map(figures).collect::<Vec<Figures>>())
        });
        print_rows(format, &figures.await?, render);
        Ok(Verdict::Full)
    }

    /// Makes all starts, and returns them by shape.
    async fn measure(&self, backends: &Backends) -> Result<Vec<(Shape, Vec<Start>)>, Failure> {
        let mut all: Vec<(Shape, Vec<Start>)> =
            self.scale.shape.iter().map(|&shape| (shape, Vec::new())).collect();
        let bar = progress(u64::from(self.runs) * all.len() as u64);
        for _ in 0..self.runs {
            for (shape, starts) in &mut all {
                bar.set_message(shape.to_string());
                starts.push(self.start(backends, *shape).await?);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(all)
    }

    async fn start(&self, backends: &Backends, shape: Shape) -> Result<Start, Failure> {
        let before = backends.cost()?;
        let mut laps = Laps::start();
        let mut front = FrontEnd::open(backends, shape, self.scale.seed).await?;
        laps.end("open_streams");
        let reported = self.phases(&mut front, &mut laps).await?;
        let cost = backends.cost()?.since(before);
        let classes = verify(&reported, self.scale.seed, backends.count())?;
        Ok(Start { laps: laps.all, cost, classes })
    }

    async fn phases(&self, front: &mut FrontEnd, laps: &mut Laps) -> Result<Reported, Failure> {
        let itself = front.gather(Fold::Concatenate, &Request::Itself).await?;
        laps.end("report_self");
        let class = Request::MetricClass { definitions: metrics::definitions() };
        let classes = front.gather(Fold::Classes, &class).await?;
        let metrics = represented(front, classes, &Request::Metrics).await?;
        laps.end("report_metrics");
        let skews = front.skews(self.rounds).await?;
        laps.end("find_clock_skew");
        let process = front.gather(Fold::Concatenate, &Request::Process).await?;
        laps.end("report_process");
        let machine = front.gather(Fold::Concatenate, &Request::Machine).await?;
        laps.end("report_machine");
        let classes = front.gather(Fold::Classes, &Request::CodeClass).await?;
        laps.end("report_code_classes");
        let code = represented(front, classes, &Request::Code).await?;
        laps.end("report_code");
        let classes = front.gather(Fold::Classes, &Request::CallGraphClass).await?;
        laps.end("report_call_graph_classes");
        let call_graph = represented(front, classes, &Request::CallGraph).await?;
        laps.end("report_call_graph");
        let done = front.gather(Fold::Sum, &Request::Done).await?;
        laps.end("report_done");
        Ok(Reported { itself, metrics, skews, process, machine, code, call_graph, done })
    }

    fn figures(&self, backends: &Backends, shape: Shape, starts: &[Start]) -> Figures {
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        let of_all =
            |figure: &dyn Fn(&Start) -> Duration| median(starts.iter().map(|s| ms(figure(s))).collect());
        let phase = |at: usize| Phase { phase: starts[0].laps[at].0, ms: of_all(&|start| start.laps[at].1) };
        Figures {
            backends: backends.count(),
            processes: backends.processes,
            shape: shape.to_string(),
            runs: self.runs,
            rounds: self.rounds,
            classes: starts[0].classes,
            phases: (0..starts[0].laps.len()).map(phase).collect(),
            total_ms: of_all(&|start| start.laps.iter().map(|(_, took)| *took).sum()),
            front_cpu_ms: of_all(&|start| start.cost.front),
            cpu_ms: of_all(&|start| start.cost.all),
        }
    }
}

/// Asks the representative of each class for the full report.
async fn represented(front: &mut FrontEnd, classes: Packet, whole: &Request) -> Result<ByClass, Failure> {
    let read = Classes::of(&classes).map_err(|error| Failure::failed(error.to_string()))?;
    let mut full = Vec::new();
    for class in read.iter() {
        full.push((class.representative, front.ask(class.representative, whole).await?));
    }
    Ok(ByClass { classes, full })
}

fn render(figures: &[Figures]) -> String {
    let Some(first) = figures.first() else { return String::new() };
    let shapes = figures.iter().map(|figures| figures.shape.clone());
    let mut table = shapes
        .fold(Table::new(&[("ms", Align::Left)]), |table, shape| table.with_column(shape, Align::Right));
    let mut row = |name: &str, figure: &dyn Fn(&Figures) -> f64| {
        let mut cells = vec![name.to_owned()];
        cells.extend(figures.iter().map(|figures| format!("{:.2}", figure(figures))));
        table.row(cells);
    };
    for (at, phase) in first.phases.iter().enumerate() {
        row(&phase.phase.replace('_', " "), &|figures| figures.phases[at].ms);
    }
    row("total", &|figures| figures.total_ms);
    row("processor time, front-end", &|figures| figures.front_cpu_ms);
    row("processor time, all", &|figures| figures.cpu_ms);
    let (backends, processes, classes) = (first.backends, first.processes, first.classes);
    format!(
        "{backends} daemons in {processes} processes, {classes} classes of programs\n{}",
        table.render(Style::of_stdout())
    )
}

fn progress(starts: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("start {pos}/{len}, {msg} {wide_bar}");
    ProgressBar::new(starts).with_style(style.expect("invariant: the template is well-formed"))
}
