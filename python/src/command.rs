//! The command line `treefold`, run by this process.

use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs the command line `words`, the program's name first, and returns its exit code. `program` is the file that starts it.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, program: PathBuf, words: Vec<OsString>) -> u8 {
    let code = py.detach(|| treefold_cli::treefold_of(program, &words));
    // An `ExitCode` can be compared, but not read.
    (0..=u8::MAX).find(|&number| ExitCode::from(number) == code).unwrap_or(1)
}
