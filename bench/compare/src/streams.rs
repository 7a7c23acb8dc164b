//! Streams beside the floor and beside MPI: a line for every program and tree.
//!
//! The floor has no waves that nobody asked for, and MPI knows neither shapes nor what its processor time per wave is;
//! what a program does not do is a dash. MPI chooses its trees itself, so it runs once for each number of back-ends
//! and its line stands under every shape.

use crate::mrnet;
use crate::sample::run;
use crate::table::{cell, median};
use crate::{Options, Output, Shape};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Broadcasts in flight, for those who can.
const IN_FLIGHT: &str = "16";

/// Printed under the table.
const AIMS: &str = "\
Medians of all repeats; floor, treefold and openmpi ran in this sitting; mrnet* is on record from another one. CPU is
over all processes, per round trip or wave, and back-end. Aims: round trip at most 1.5 times the floor's and ahead of
MPI from 4 back-ends on; ten times MRNet's waves/s; 256 back-ends up in less than 300 ms.
";

/// The figures of one run; each program gives its own.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Sample {
    #[serde(alias = "startup_ms")]
    instantiate_ms: Option<f64>,
    roundtrip_us_p50: Option<f64>,
    roundtrip_us_p99: Option<f64>,
    roundtrips_per_s: Option<f64>,
    cpu_us_per_roundtrip: Option<f64>,
    waves_per_s: Option<f64>,
    cpu_us_per_wave: Option<f64>,
}

/// The medians of one program on one tree.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Medians {
    pub(crate) instantiate_ms: Option<f64>,
    pub(crate) roundtrip_us_p50: Option<f64>,
    pub(crate) roundtrip_us_p99: Option<f64>,
    pub(crate) roundtrips_per_s: Option<f64>,
    pub(crate) waves_per_s: Option<f64>,
    pub(crate) cpu_us_per_roundtrip: Option<f64>,
    pub(crate) cpu_us_per_wave: Option<f64>,
}

impl Medians {
    fn of(samples: &[Sample]) -> Self {
        let over = |figure: fn(&Sample) -> Option<f64>| median(samples.iter().filter_map(figure).collect());
        Self {
            instantiate_ms: over(|sample| sample.instantiate_ms),
            roundtrip_us_p50: over(|sample| sample.roundtrip_us_p50),
            roundtrip_us_p99: over(|sample| sample.roundtrip_us_p99),
            roundtrips_per_s: over(|sample| sample.roundtrips_per_s),
            waves_per_s: over(|sample| sample.waves_per_s),
            cpu_us_per_roundtrip: over(|sample| sample.cpu_us_per_roundtrip),
            cpu_us_per_wave: over(|sample| sample.cpu_us_per_wave),
        }
    }
}

/// Who is compared.
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

    fn run(&self, backends: u32, shape: &Shape) -> Result<Sample, String> {
        // The root of the floor's tree, and the first rank, are the front-end.
        let (processes, backends) = ((backends + 1).to_string(), backends.to_string());
        match self {
            Self::Treefold(program) => {
                let shape = &shape.name;
                let tree = ["--backends", &backends, "--shape", shape, "--in-flight", IN_FLIGHT];
                run(program, &[&["bench", "stream", "-o", "json"], &tree[..]].concat())
            }
            Self::Floor(program) => {
                let tree = ["--nodes", &processes, "--fanout", &shape.fanout, "--depth", IN_FLIGHT];
                let sample: Sample = run(program, &[&tree[..], &["-o", "json"]].concat())?;
                // Its waves are all asked for.
                let (roundtrips_per_s, cpu_us_per_roundtrip) = (sample.waves_per_s, sample.cpu_us_per_wave);
                let (waves_per_s, cpu_us_per_wave) = (None, None);
                Ok(Sample { roundtrips_per_s, cpu_us_per_roundtrip, waves_per_s, cpu_us_per_wave, ..sample })
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

/// One tree, and what each program did on it.
struct Tree<'a> {
    backends: u32,
    shape: &'a Shape,
    /// In the order of the programs.
    samples: Vec<Vec<Sample>>,
}

/// A line as it is printed.
#[derive(Serialize)]
struct Line<'a> {
    backends: u32,
    shape: &'a str,
    program: &'a str,
    #[serde(flatten)]
    medians: Medians,
    roundtrip_to_floor: Option<f64>,
}

/// Prints the page of streams; gives what went wrong.
pub(crate) fn compare(options: &Options) -> Vec<String> {
    let mut programs =
        vec![Program::Floor(options.floor.clone()), Program::Treefold(options.treefold.clone())];
    programs.extend(options.mpi.clone().map(Program::OpenMpi));
    let (backends, shapes) = (&options.nodes, &options.shapes);
    let tree = |backends, shape| Tree { backends, shape, samples: vec![Vec::new(); programs.len()] };
    let mut trees: Vec<Tree<'_>> = backends
        .iter()
        .flat_map(|&backends| shapes.iter().map(move |shape| (backends, shape)))
        .map(|(b, s)| tree(b, s))
        .collect();
    let mut failures = Vec::new();
    for repeat in 0..options.repeats as usize {
        for at in 0..trees.len() {
            let Tree { backends, shape, .. } = trees[at];
            eprintln!("run {}/{}: {backends} back-ends, {}", repeat + 1, options.repeats, shape.name);
            for turn in 0..programs.len() {
                let who = (turn + repeat) % programs.len();
                let is_mpi = matches!(programs[who], Program::OpenMpi(_));
                if is_mpi && (shape.name != shapes[0].name || backends > options.mpi_max) {
                    continue;
                }
                match programs[who].run(backends, shape) {
                    Ok(sample) => {
                        let same = |tree: &&mut Tree<'_>| tree.backends == backends;
                        let under = if is_mpi { 0..trees.len() } else { at..at + 1 };
                        trees[under].iter_mut().filter(same).for_each(|tree| tree.samples[who].push(sample));
                    }
                    Err(reason) => failures.push(reason),
                }
            }
        }
    }
    let lines: Vec<Line<'_>> = trees.iter().flat_map(|tree| lines_of(tree, &programs)).collect();
    match options.output {
        Output::Text => print!("{}", text(&lines)),
        Output::Json => lines.iter().for_each(|line| println!("{}", json(line))),
    }
    failures
}

/// What the programs did on a tree, and what MRNet is on record with.
fn lines_of<'a>(tree: &Tree<'a>, programs: &'a [Program]) -> Vec<Line<'a>> {
    let ran = programs.iter().zip(&tree.samples).filter(|(_, samples)| !samples.is_empty());
    let ran = ran.map(|(program, samples)| (program.name(), Medians::of(samples)));
    let recorded = mrnet::recorded(tree.backends, &tree.shape.fanout).map(|medians| ("mrnet*", medians));
    let all: Vec<(&str, Medians)> = ran.chain(recorded).collect();
    let floor = all.iter().find(|(program, _)| *program == "floor");
    let least = floor.and_then(|(_, medians)| medians.roundtrip_us_p50);
    let line = |&(program, medians): &(&'a str, Medians)| Line {
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
    fn a_tree_has_a_line_for_every_program_that_ran_and_for_what_is_on_record() {
        let shape: Shape = "kary:8".parse().unwrap();
        let sample = |us| Sample { roundtrip_us_p50: Some(us), ..Sample::default() };
        let programs = [
            Program::Floor(PathBuf::new()),
            Program::Treefold(PathBuf::new()),
            Program::OpenMpi(PathBuf::new()),
        ];
        let ours = vec![sample(150.0), sample(200.0), sample(9000.0)];
        let tree = Tree { backends: 16, shape: &shape, samples: vec![vec![sample(100.0)], ours, Vec::new()] };
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
