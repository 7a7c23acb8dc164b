//! BLAST over partitions gives the hits, the scores and the E-values of one BLAST over all sequences.
//!
//! The tests need NCBI BLAST+, and are skipped without it.

use crate::real::{NodeProcess, is_installed, run_args, wait_for_members};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const SPLIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps/blast/split.sh");
const COLUMNS: &str = "6 score bitscore evalue sseqid pident length qstart qend sstart send";
const HITS: usize = 20;

/// A kind of sequences, and the program that searches them.
struct Kind {
    letters: &'static [u8],
    type_name: &'static str,
    program: &'static str,
}

const NUCLEOTIDES: Kind = Kind { letters: b"ACGT", type_name: "nucl", program: "blastn" };
const PROTEINS: Kind = Kind { letters: b"ACDEFGHIKLMNPQRSTVWY", type_name: "prot", program: "blastp" };

/// A small generator, so that every run has the same sequences.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn sequence(&mut self, letters: &[u8], length: usize) -> Vec<u8> {
        (0..length).map(|_| letters[self.below(letters.len())]).collect()
    }
}

/// Writes a query, and sequences of which every tenth has a changed piece of it.
fn write(kind: &Kind, directory: &Path) {
    let mut draw = Draw(7);
    let query = draw.sequence(kind.letters, 400);
    let mut fasta = String::new();
    for number in 0..600 {
        let length = 300 + draw.below(500);
        let mut sequence = draw.sequence(kind.letters, length);
        if number % 10 == 0 {
            let (begin, wanted) = (draw.below(200), 80 + draw.below(120));
            let mut piece = query[begin..begin + wanted].to_vec();
            for _ in 0..piece.len() / 8 {
                let at = draw.below(piece.len());
                piece[at] = kind.letters[draw.below(kind.letters.len())];
            }
            sequence.splice(100..100, piece);
        }
        writeln!(fasta, ">s{number}\n{}", String::from_utf8_lossy(&sequence)).expect("a string takes all");
    }
    std::fs::write(directory.join("all.fa"), fasta).expect("a temporary folder");
    let query = format!(">query\n{}\n", String::from_utf8_lossy(&query));
    std::fs::write(directory.join("query.fa"), query).expect("a temporary folder");
}

fn output(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The best hits of one search over all sequences: by score, then by bytes.
fn of_the_whole(kind: &Kind, directory: &Path) -> Vec<String> {
    let mut make = Command::new("makeblastdb");
    output(make.args(["-in", "all.fa", "-dbtype", kind.type_name, "-out", "whole"]).current_dir(directory));
    let mut search = Command::new(kind.program);
    search.args(["-db", "whole", "-query", "query.fa", "-outfmt", COLUMNS]).current_dir(directory);
    let mut lines: Vec<String> = output(&mut search).lines().map(str::to_owned).collect();
    let score = |line: &String| line.split('\t').next().and_then(|score| score.parse::<u32>().ok());
    lines.sort_by(|a, b| score(b).cmp(&score(a)).then_with(|| a.cmp(b)));
    lines.truncate(HITS);
    lines
}

fn hits_are_equal(kind: &Kind) {
    if !is_installed("blastn", "-version", "ncbi-blast+") {
        return;
    }
    let directory = TempDir::new().expect("a temporary folder");
    write(kind, directory.path());
    output(Command::new(SPLIT).args(["all.fa", "4", "db", kind.type_name]).current_dir(directory.path()));
    let tool = format!(
        "exec=hits:command={} -db db -outfmt \"{COLUMNS}\":dir={}/db/{{partition}}:reduce=top-k:k={HITS}",
        kind.program,
        directory.path().display()
    );
    let first = NodeProcess::start(&["--serve", &format!("{tool}:partitions=0,2/4")]);
    let second = NodeProcess::start(&["--serve", &format!("{tool}:partitions=1,3/4"), "--join", &first.addr]);
    wait_for_members(&second.addr, 2);

    let query = std::fs::read_to_string(directory.path().join("query.fa")).expect("it was written");
    let params = serde_json::to_string(&query).expect("a text");
    let ended = run_args(&[
        "call",
        "hits/run",
        "--at",
        &first.addr,
        "--params",
        &params,
        "--deadline",
        "60s",
        "-o",
        "json",
    ]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    let answer = ended.json();
    let found: Vec<&str> = answer["value"].as_str().expect("lines").lines().collect();
    assert_eq!(found.len(), HITS);
    assert_eq!(found, of_the_whole(kind, directory.path()));
}

#[test]
fn nucleotides_of_four_partitions_have_the_hits_of_one_search() {
    hits_are_equal(&NUCLEOTIDES);
}

#[test]
fn proteins_of_four_partitions_have_the_hits_of_one_search() {
    hits_are_equal(&PROTEINS);
}

#[test]
fn split_refuses_what_it_cannot_divide_and_leaves_nothing() {
    if !is_installed("blastn", "-version", "ncbi-blast+") {
        return;
    }
    let directory = TempDir::new().expect("a temporary folder");
    std::fs::write(directory.path().join("few.fa"), ">a\nACGT\n>b\nACGT\n").expect("a temporary folder");
    std::fs::write(directory.path().join("none.fa"), "ACGT\n").expect("a temporary folder");
    for (words, problem) in [
        (["few.fa", "3", "db", "nucl"], "fewer than 3 sequences"),
        (["none.fa", "1", "db", "nucl"], "does not begin with >"),
        (["few.fa", "0", "db", "nucl"], "PARTITIONS is 0"),
        (["few.fa", "2", "db", "dna"], "allowed: nucl, prot"),
        (["nothing.fa", "2", "db", "nucl"], "can't be read"),
    ] {
        let split = Command::new(SPLIT).args(words).current_dir(directory.path()).output().expect("a shell");
        let told = String::from_utf8_lossy(&split.stderr);
        assert!(!split.status.success() && told.contains(problem), "{words:?}: {told}");
    }
    let left = std::fs::read_dir(directory.path()).expect("a temporary folder").count();
    assert_eq!(left, 2, "only the two files");
}
