//! Runs a program once and reads its output.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A run that takes longer counts as stuck: it is killed and counted as failed.
const RUN_TIMEOUT: Duration = Duration::from_secs(300);
/// Interval of checking on a running program; long, so that checking does not disturb it.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The figures of calls that all programs print, in the same units. Other fields are ignored.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    /// Median round trip, one wave at a time.
    pub(crate) roundtrip_us_p50: f64,
    /// 99th percentile of the round trip.
    pub(crate) roundtrip_us_p99: f64,
    /// CPU of all processes per wave, one wave at a time.
    pub(crate) roundtrip_cpu_us: f64,
    /// The caller's part of it.
    pub(crate) client_roundtrip_cpu_us: f64,
    /// Waves per second when pipelined.
    pub(crate) waves_per_s: f64,
    /// CPU of all processes per wave when pipelined.
    pub(crate) cpu_us_per_wave: f64,
    /// The caller's part of it.
    pub(crate) client_cpu_us_per_wave: f64,
}

/// Runs a program to its end and reads the JSON object it prints. Its standard error is inherited.
///
/// # Errors
/// A sentence that names the command, if it could not start, failed, took too long, or printed something
/// else.
pub(crate) fn run<T: DeserializeOwned>(program: &Path, arguments: &[&str]) -> Result<T, String> {
    let command_line = format!("{} {}", program.display(), arguments.join(" "));
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{command_line}: {error}"))?;
    let status = wait(&mut child).map_err(|reason| format!("{command_line}: {reason}"))?;
    let mut printed = String::new();
    child
        .stdout
        .take()
        .expect("standard output was piped above")
        .read_to_string(&mut printed)
        .map_err(|error| format!("{command_line}: {error}"))?;
    if !status.success() {
        return Err(format!("{command_line}: {status}"));
    }
    serde_json::from_str(&printed).map_err(|error| format!("{command_line}: {error} in {printed:?}"))
}

fn wait(child: &mut Child) -> Result<ExitStatus, String> {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if begun.elapsed() < RUN_TIMEOUT => thread::sleep(LOOK_INTERVAL),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("the program did not end within {} s", RUN_TIMEOUT.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Sample, String> {
        run(Path::new("sh"), &["-c", script])
    }

    #[test]
    fn the_object_is_read_and_other_fields_are_ignored() {
        let sample = shell(
            r#"echo '{"nodes":16,"roundtrip_us_p50":1.5,"roundtrip_us_p99":2,"roundtrip_cpu_us":6,
                "client_roundtrip_cpu_us":5,"waves_per_s":3,"cpu_us_per_wave":4,"client_cpu_us_per_wave":1}'"#,
        )
        .unwrap();
        assert!((sample.roundtrip_us_p50 - 1.5).abs() < 1e-9);
        assert!((sample.cpu_us_per_wave - 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_failure_names_the_command_and_its_end() {
        assert!(shell("exit 3").unwrap_err().contains("exit 3"));
        assert!(shell("echo hello").unwrap_err().contains("hello"));
        let nowhere = run::<Sample>(Path::new("/nowhere/treefold"), &[]).unwrap_err();
        assert!(nowhere.contains("/nowhere/treefold"), "{nowhere}");
    }
}
