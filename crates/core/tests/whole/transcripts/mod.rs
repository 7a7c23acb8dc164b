//! Transcripts: a script of inputs to a small cluster and the log of the actions of its nodes.
//!
//! There is one file for every behaviour worth explaining to a newcomer (`crates/core/testdata/*.txt`). A
//! transcript begins with comments that explain the behaviour. Then come blocks: commands, a line of dashes,
//! and the actions of the nodes meanwhile, with the time in ms. The test plays the commands in the simulated
//! world and compares the log. `TREEFOLD_BLESS=1 cargo test -p treefold-core --test whole transcripts` writes the
//! logs again after a deliberate change. Review the difference before you commit it.

mod play;
mod said;

use play::Play;
use std::fs;
use std::path::{Path, PathBuf};

/// If this variable is set, the test writes the logs instead of comparing them.
const BLESS: &str = "TREEFOLD_BLESS";
/// The line between a block's commands and its log.
const LINE: &str = "----";

/// The behaviours that have a transcript.
const BEHAVIOURS: [&str; 7] = [
    "call",
    "offer_and_grant",
    "promotion",
    "settled_window",
    "stream_adoption",
    "stream_rejoin",
    "takeover",
];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

/// The same transcript with the log that its commands produce.
fn played(text: &str) -> String {
    let mut play = Play::default();
    let mut out = String::new();
    for block in text.split("\n\n") {
        let mut lines = block.lines();
        let head: Vec<&str> = lines.by_ref().take_while(|line| *line != LINE).collect();
        head.iter().for_each(|line| out.push_str(&format!("{line}\n")));
        let commands: Vec<&str> =
            head.into_iter().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
        if !commands.is_empty() {
            commands.into_iter().for_each(|command| play.obey(command));
            out.push_str(&format!("{LINE}\n"));
            play.take_log().iter().for_each(|line| out.push_str(&format!("{line}\n")));
        }
        out.push('\n');
    }
    format!("{}\n", out.trim_end())
}

#[test]
fn transcripts_match_the_actions_of_nodes() {
    for name in BEHAVIOURS {
        let path = directory().join(format!("{name}.txt"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let now = played(&text);
        if std::env::var_os(BLESS).is_some() {
            fs::write(&path, now).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            continue;
        }
        for (number, (is, was)) in now.lines().zip(text.lines()).enumerate() {
            assert_eq!(is, was, "{}:{}; {BLESS}=1 writes it anew", path.display(), number + 1);
        }
        assert_eq!(now.lines().count(), text.lines().count(), "{}; {BLESS}=1 writes it anew", path.display());
    }
}

#[test]
fn every_transcript_is_played() {
    let files = fs::read_dir(directory())
        .expect("the directory of transcripts")
        .map(|entry| entry.expect("readable").path());
    let mut names: Vec<String> =
        files.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    assert_eq!(names, BEHAVIOURS);
}
