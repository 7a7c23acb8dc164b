//! Runs the program under test and reads its output.

use serde_json::Value;
use std::process::{Command, Stdio};

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The one JSON value on its standard output.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error} in {:?}; {}", self.stdout, self.stderr))
    }
}

/// Runs a command line, split at spaces, to its end.
pub(crate) fn run(line: &str) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-cluster"));
    command.env_remove("TREEFOLD_LOG").env("NO_COLOR", "1").stdin(Stdio::null());
    let output = command.args(line.split(' ')).output().expect("the program can be started");
    Ended {
        code: output.status.code().expect("ended by itself, not by a signal"),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}
