//! Compares streams with the floor and with MPI: a line for every program and tree.
//!
//! The floor has no unrequested waves. MPI has no shapes and does not report its processor time per wave.
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
Medians of all repeats; floor, treefold and openmpi ran in this session; mrnet* was recorded in another one. CPU is
over all processes, per round trip or wave, and back-end. Aims: round trip at most 1.5 times the floor's and ahead of
MPI from 4 back-ends on; ten times MRNet's waves/s; 256 back-ends up in less than 300 ms.
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
    pub(crate) waves_per_s: Option<f64>,
    pub(crate) cpu_us_per_wave: Option<f64>,
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
            waves_per_s: over(|run| run.waves_per_s),
            cpu_us_per_wave: over(|run| run.cpu_us_per_wave),
        }
    }
}

/// The programs that are compared.
#[derive(Clone, Debug)]
enum Program {
    Floor(PathBuf),
    Treefold(PathBuf),
    OpenMpi(PathBuf),
}

impl Program {
    fn name(&self) -> &'static str {
        match self {
            Self::Floor(_) => "floor",
            Self::Treefold(_) => "treefold",
            Self::OpenMpi(_) => "openmpi",
        }
    }

    fn run(&self, backends: u32, shape: &Shape) -> Result<Figures, String> {
        // The root of the floor's tree, and MPI's first rank, are the front-end.
        let (processes, backends) = ((backends + 1).to_string(), backends.to_string());
        match self {
            Self::Treefold(program) => {
                let shape = &shape.name;
                let tree = ["--backends", &backends, "--shape", shape, "--in-flight", IN_FLIGHT];
                run(program, &[&["bench", "stream", "-o", "json"], &tree[..]].concat())
            }
            Self::Floor(program) => {
                let tree = ["--nodes", &processes, "--fanout", &shape.fanout, "--depth", IN_FLIGHT];
                let figures: Figures = run(program, &[&tree[..], &["-o", "json"]].concat())?;
                // All its waves are requested, so its figures are those of round trips.
                let (roundtrips_per_s, cpu_us_per_roundtrip) = (figures.waves_per_s, figures.cpu_us_per_wave);
                let (waves_per_s, cpu_us_per_wave) = (None, None);
                Ok(Figures {
                    roundtrips_per_s,
                    cpu_us_per_roundtrip,
                    waves_per_s,
                    cpu_us_per_wave,
                    ..figures
                })
            }
            Self::OpenMpi(program) => {
                let program = program.display().to_string();
                let over_tcp = ["--mca", "btl", "tcp,self", "--mca", "mpi_yield_when_idle", "1"];
                let ranks = ["--allow-run-as-root", "--oversubscribe", "-n", &processes, &program];
                run(Path::new("mpirun"), &[&over_tcp[..], &ranks].concat())
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
}

/// Prints the page for streams. Returns the errors of failed runs.
pub(crate) fn compare(options: &Options) -> Vec<String> {
    let mut programs =
        vec![Program::Floor(options.floor.clone()), Program::Treefold(options.treefold.clone())];
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
                match programs[who].run(backends, shape) {
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
    let recorded = mrnet::recorded(tree.backends, &tree.shape.fanout).map(|medians| ("mrnet*", medians));
    let all: Vec<(&str, Figures)> = ran.chain(recorded).collect();
    let floor = all.iter().find(|(program, _)| *program == "floor");
    let least = floor.and_then(|(_, medians)| medians.roundtrip_us_p50);
    let line = |&(program, medians): &(&'a str, Figures)| Line {
        backends: tree.backends,
        shape: &tree.shape.name,
        program,
        medians,
        roundtrip_to_floor: medians.roundtrip_us_p50.zip(least).map(|(theirs, least)| theirs / least),
    };
    all.iter().map(line).collect()
}

fn text(lines: &[Line<'_>]) -> String {
    let mut page = String::from(
        "back-                        ------ round trip, µs -----  16 in flight  ------ up only -----  - cpu, µs of each -\n \
          ends shape    program   start ms      p50  /floor       p99  round trips/s       waves/s        round trip   wave\n",
    );
    for line in lines {
        let Line { backends, shape, program, medians, roundtrip_to_floor } = line;
        let each = |cpu: Option<f64>| cell(cpu.map(|cpu| cpu / f64::from(*backends)), 1);
        page.push_str(&format!(
            "{backends:>5} {shape:<8} {program:<8} {:>9} {:>8} {:>7} {:>9} {:>14} {:>13} {:>17} {:>6}\n",
            cell(medians.instantiate_ms, 0),
            cell(medians.roundtrip_us_p50, 0),
            cell(*roundtrip_to_floor, 2),
            cell(medians.roundtrip_us_p99, 0),
            cell(medians.roundtrips_per_s, 0),
            cell(medians.waves_per_s, 0),
            each(medians.cpu_us_per_roundtrip),
            each(medians.cpu_us_per_wave),
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
            Program::Treefold(PathBuf::new()),
            Program::OpenMpi(PathBuf::new()),
        ];
        let ours = vec![ran(150.0), ran(200.0), ran(9000.0)];
        let tree = Tree { backends: 16, shape: &shape, runs: vec![vec![ran(100.0)], ours, Vec::new()] };
        let lines = lines_of(&tree, &programs);
        let names: Vec<&str> = lines.iter().map(|line| line.program).collect();
        assert_eq!(names, ["floor", "treefold", "mrnet*"]);
        assert_eq!(lines[1].roundtrip_to_floor, Some(2.0));
        let page = text(&lines);
        let cells: Vec<&str> = page.lines().nth(3).unwrap().split_whitespace().collect();
        assert_eq!(cells, ["16", "kary:8", "treefold", "-", "200", "2.00", "-", "-", "-", "-", "-"]);
        assert!(json(&lines[2]).contains("\"waves_per_s\":2118.0"));
    }
}
