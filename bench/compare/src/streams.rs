//! Compares streams with both floors and with MPI: a line for every program and tree.
//!
//! The front-end of a stream is the root of its tree, and so are the launchers of both floors here. The floors have
//! no unrequested waves. MPI has no shapes and does not report its processor time per wave.
//! Missing figures are printed as a dash. MPI chooses its trees itself, so it runs once for each number of
//! back-ends, and its line is repeated under every shape.

use crate::mrnet;
use crate::sample::run;
use crate::table::cell;
use crate::{Options, Output, Shape};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::{Path, PathBuf};
use treefold_figures::median;

/// Broadcasts in flight, for the programs that support it.
const IN_FLIGHT: &str = "16";

/// Printed under the table.
const AIMS: &str = "\
Medians of all repeats; all programs but MRNet ran in this session. MRNet was recorded from outside, on a machine with
two processors: mrnet* with a flush after each send; mrnet-pipe* and mrnet-lite* (its C back-end) on 2026-11-22 with
hundreds of waves in flight, beside a lean build. OpenMPI broadcasts after every ten reductions, so its pipeline is
never full. The event floor is an epoll loop in every process. /floor and /event: the round trip divided by the
floor's and by the event floor's. CPU is that of all processes but the front-end's (MRNet: of all), per round trip
with 16 in flight or per wave, divided by the number of back-ends. Aims: round trip at most 1.5 times the floor's and
ahead of MPI from 4 back-ends on; ten times the waves/s of MRNet's faster back-end, pipelined; 256 back-ends up in
less than 300 ms.
";

/// The figures of a program on a tree, in one run or as the medians of several. Each program gives some of
/// them.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Figures {
    #[serde(alias = "startup_ms")]
    pub(crate) instantiate_ms: Option<f64>,
    pub(crate) roundtrip_us_p50: Option<f64>,
    pub(crate) roundtrip_us_p99: Option<f64>,
    pub(crate) roundtrips_per_s: Option<f64>,
    pub(crate) cpu_us_per_roundtrip: Option<f64>,
    pub(crate) front_cpu_us_per_roundtrip: Option<f64>,
    pub(crate) waves_per_s: Option<f64>,
    pub(crate) cpu_us_per_wave: Option<f64>,
    #[serde(alias = "client_cpu_us_per_wave")]
    pub(crate) front_cpu_us_per_wave: Option<f64>,
}

impl Figures {
    fn medians_of(runs: &[Self]) -> Self {
        let over = |figure: fn(&Self) -> Option<f64>| median(runs.iter().filter_map(figure).collect());
        Self {
            instantiate_ms: over(|run| run.instantiate_ms),
            roundtrip_us_p50: over(|run| run.roundtrip_us_p50),
            roundtrip_us_p99: over(|run| run.roundtrip_us_p99),
            roundtrips_per_s: over(|run| run.roundtrips_per_s),
            cpu_us_per_roundtrip: over(|run| run.cpu_us_per_roundtrip),
            front_cpu_us_per_roundtrip: over(|run| run.front_cpu_us_per_roundtrip),
            waves_per_s: over(|run| run.waves_per_s),
            cpu_us_per_wave: over(|run| run.cpu_us_per_wave),
            front_cpu_us_per_wave: over(|run| run.front_cpu_us_per_wave),
        }
    }
}

/// Printed above the rows.
const TITLES: &str = "\
back-                                -- round trip, µs ------------  16 in flight   up only   -- cpu µs each -
ends  shape    program     start ms     p50  /floor  /event     p99 round trips/s   waves/s  round trip   wave
";

/// Names of the programs to which the others are compared.
const FLOOR: &str = "floor";
const EVENT_FLOOR: &str = "event floor";

/// The programs that are compared.
#[derive(Clone, Debug)]
enum Program {
    Floor(PathBuf),
    EventFloor(PathBuf),
    Treefold(PathBuf),
    OpenMpi(PathBuf),
}

impl Program {
    fn name(&self) -> &'static str {
        match self {
            Self::Floor(_) => FLOOR,
            Self::EventFloor(_) => EVENT_FLOOR,
            Self::Treefold(_) => "treefold",
            Self::OpenMpi(_) => "openmpi",
        }
    }

    fn run(&self, backends: u32, shape: &Shape, rounds: Option<u32>) -> Result<Figures, String> {
        let rounds = rounds.map(|rounds| rounds.to_string());
        let of_rounds: Vec<&str> = rounds.iter().flat_map(|rounds| ["--rounds", rounds]).collect();
        // The root of a floor's tree, and MPI's first rank, are the front-end.
        let (processes, backends) = ((backends + 1).to_string(), backends.to_string());
        match self {
            Self::Treefold(program) => {
                let shape = &shape.name;
                let tree = ["--backends", &backends, "--shape", shape, "--in-flight", IN_FLIGHT];
                run(program, &[&["bench", "stream", "-o", "json"], &tree[..], &of_rounds].concat())
            }
            Self::Floor(program) | Self::EventFloor(program) => {
                let kind = if matches!(self, Self::Floor(_)) { "blocking" } else { "events-root" };
                let tree = ["--nodes", &processes, "--fanout", &shape.fanout, "--depth", IN_FLIGHT];
                let words = [&tree[..], &["--kind", kind, "-o", "json"], &of_rounds].concat();
                let figures: Figures = run(program, &words)?;
                // All its waves are requested, so its figures are those of round trips.
                Ok(Figures {
                    instantiate_ms: figures.instantiate_ms,
                    roundtrip_us_p50: figures.roundtrip_us_p50,
                    roundtrip_us_p99: figures.roundtrip_us_p99,
                    roundtrips_per_s: figures.waves_per_s,
                    cpu_us_per_roundtrip: figures.cpu_us_per_wave,
                    front_cpu_us_per_roundtrip: figures.front_cpu_us_per_wave,
                    ..Figures::default()
                })
            }
            Self::OpenMpi(program) => {
                let program = program.display().to_string();
                let over_tcp = ["--mca", "btl", "tcp,self", "--mca", "mpi_yield_when_idle", "1"];
                let ranks = ["--allow-run-as-root", "--oversubscribe", "-n", &processes, &program];
                let rounds: Vec<&str> = rounds.iter().map(String::as_str).collect();
                run(Path::new("mpirun"), &[&over_tcp[..], &ranks, &rounds].concat())
            }
        }
    }
}

/// One tree, with the figures of each program on it.
struct Tree<'a> {
    backends: u32,
    shape: &'a Shape,
    /// In the order of the programs.
    runs: Vec<Vec<Figures>>,
}

/// A line of the output.
#[derive(Serialize)]
struct Line<'a> {
    backends: u32,
    shape: &'a str,
    program: &'a str,
    #[serde(flatten)]
    medians: Figures,
    roundtrip_to_floor: Option<f64>,
    roundtrip_to_event_floor: Option<f64>,
}

/// Prints the page for streams. Returns the errors of failed runs.
pub(crate) fn compare(options: &Options) -> Vec<String> {
    let mut programs = vec![
        Program::Floor(options.floor.clone()),
        Program::EventFloor(options.floor.clone()),
        Program::Treefold(options.treefold.clone()),
    ];
    programs.extend(options.mpi.clone().map(Program::OpenMpi));
    let mut trees = Vec::new();
    for &backends in &options.nodes {
        let runs = || vec![Vec::new(); programs.len()];
        trees.extend(options.shapes.iter().map(|shape| Tree { backends, shape, runs: runs() }));
    }
    let failures = run_all(&mut trees, &programs, options);
    let lines: Vec<Line<'_>> = trees.iter().flat_map(|tree| lines_of(tree, &programs)).collect();
    match options.output {
        Output::Text => print!("{}", text(&lines)),
        Output::Json => lines.iter().for_each(|line| println!("{}", json(line))),
    }
    failures
}

/// Runs one session: every program on every tree, several times over, with another program first each time.
fn run_all(trees: &mut [Tree<'_>], programs: &[Program], options: &Options) -> Vec<String> {
    let mut failures = Vec::new();
    for repeat in 0..options.repeats as usize {
        for at in 0..trees.len() {
            let Tree { backends, shape, .. } = trees[at];
            eprintln!("run {}/{}: {backends} back-ends, {}", repeat + 1, options.repeats, shape.name);
            for who in (0..programs.len()).map(|turn| (turn + repeat) % programs.len()) {
                let Some(under) = places(trees, at, &programs[who], options) else { continue };
                match programs[who].run(backends, shape, options.rounds) {
                    Ok(figures) => under.for_each(|at| trees[at].runs[who].push(figures)),
                    Err(reason) => failures.push(reason),
                }
            }
        }
    }
    failures
}

/// Returns the trees whose lines show a run at `at`, or `None` if the program does not run there.
fn places(trees: &[Tree<'_>], at: usize, program: &Program, options: &Options) -> Option<Range<usize>> {
    if !matches!(program, Program::OpenMpi(_)) {
        return Some(at..at + 1);
    }
    let shapes = options.shapes.len();
    let is_wanted = at.is_multiple_of(shapes) && trees[at].backends <= options.mpi_max;
    is_wanted.then_some(at..at + shapes)
}

/// Returns the lines of a tree: the programs that ran, and the recorded figures of MRNet.
fn lines_of<'a>(tree: &Tree<'a>, programs: &'a [Program]) -> Vec<Line<'a>> {
    let ran = programs.iter().zip(&tree.runs).filter(|(_, runs)| !runs.is_empty());
    let ran = ran.map(|(program, runs)| (program.name(), Figures::medians_of(runs)));
    let recorded = mrnet::recorded(tree.backends, &tree.shape.fanout);
    let all: Vec<(&str, Figures)> = ran.chain(recorded).collect();
    let roundtrip_of = |name: &str| all.iter().find(|(program, _)| *program == name)?.1.roundtrip_us_p50;
    let line = |&(program, medians): &(&'a str, Figures)| {
        let over = |name| medians.roundtrip_us_p50.zip(roundtrip_of(name)).map(|(took, least)| took / least);
        Line {
            backends: tree.backends,
            shape: &tree.shape.name,
            program,
            medians,
            roundtrip_to_floor: over(FLOOR),
            roundtrip_to_event_floor: over(EVENT_FLOOR),
        }
    };
    all.iter().map(line).collect()
}

fn text(lines: &[Line<'_>]) -> String {
    let mut page = String::from(TITLES);
    for line in lines {
        let Line { backends, shape, program, medians, roundtrip_to_floor, roundtrip_to_event_floor } = line;
        let of_each = |all: Option<f64>, front: Option<f64>| {
            cell(all.map(|all| (all - front.unwrap_or(0.0)) / f64::from(*backends)), 1)
        };
        page.push_str(&format!(
            "{backends:>5} {shape:<8} {program:<11} {:>8} {:>7} {:>7} {:>7} {:>7} {:>13} {:>9} {:>11} {:>6}\n",
            cell(medians.instantiate_ms, 0),
            cell(medians.roundtrip_us_p50, 0),
            cell(*roundtrip_to_floor, 2),
            cell(*roundtrip_to_event_floor, 2),
            cell(medians.roundtrip_us_p99, 0),
            cell(medians.roundtrips_per_s, 0),
            cell(medians.waves_per_s, 0),
            of_each(medians.cpu_us_per_roundtrip, medians.front_cpu_us_per_roundtrip),
            of_each(medians.cpu_us_per_wave, medians.front_cpu_us_per_wave),
        ));
    }
    page.push_str(AIMS);
    page
}

fn json(line: &Line<'_>) -> String {
    serde_json::to_string(line).expect("numbers and strings are always JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_lines_for_programs_that_ran_and_for_mrnet() {
        let shape: Shape = "kary:8".parse().unwrap();
        let ran = |us| Figures { roundtrip_us_p50: Some(us), ..Figures::default() };
        let programs = [
            Program::Floor(PathBuf::new()),
            Program::EventFloor(PathBuf::new()),
            Program::Treefold(PathBuf::new()),
            Program::OpenMpi(PathBuf::new()),
        ];
        let mut ours = vec![ran(150.0), ran(200.0), ran(9000.0)];
        ours[1].cpu_us_per_wave = Some(90.0);
        ours[1].front_cpu_us_per_wave = Some(10.0);
        let runs = vec![vec![ran(100.0)], vec![ran(160.0)], ours, Vec::new()];
        let tree = Tree { backends: 16, shape: &shape, runs };
        let lines = lines_of(&tree, &programs);
        let names: Vec<&str> = lines.iter().map(|line| line.program).collect();
        assert_eq!(names, ["floor", "event floor", "treefold", "mrnet*", "mrnet-pipe*", "mrnet-lite*"]);
        assert_eq!(lines[2].roundtrip_to_floor, Some(2.0));
        let page = text(&lines);
        let cells: Vec<&str> = page.lines().nth(4).unwrap().split_whitespace().collect();
        let expected = ["16", "kary:8", "treefold", "-", "200", "2.00", "1.25", "-", "-", "-", "-", "5.0"];
        assert_eq!(cells, expected, "the front-end's CPU is not in that of each back-end");
        assert!(json(&lines[3]).contains("\"waves_per_s\":2118.0"));
        assert!(json(&lines[4]).contains("\"waves_per_s\":8863.0"));
        assert!(json(&lines[5]).contains("\"waves_per_s\":10340.0"));
    }
}
