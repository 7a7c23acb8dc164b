//! A process of a trial, and the lines by which the benchmark asks it.
//!
//! A part is this program in another role. Its first line on standard output says that it is ready; then it answers each line on its
//! standard input with a line of JSON. It ends when its standard input does, so no part outlives the benchmark.

use crate::clock::cpu_time;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Any error; the benchmark prints it.
pub type Problem = Box<dyn std::error::Error + Send + Sync>;

/// A process, as the benchmark sees it. It ends when this is dropped.
#[derive(Debug)]
pub struct Part {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    role: String,
}

impl Part {
    /// Starts this program in a role, and waits until it is ready. Also returns its first line.
    ///
    /// # Errors
    /// If the process cannot be started, or ends.
    pub fn start(words: &[String]) -> Result<(Self, Value), Problem> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("a process without standard output")?;
        let role = words.first().cloned().unwrap_or_default();
        let mut part = Self { child, input, output: BufReader::new(output), role };
        let ready = part.answer()?;
        Ok((part, ready))
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Processor time of the process.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn cpu_time(&self) -> Result<Duration, Problem> {
        Ok(cpu_time(self.id())?)
    }

    /// Asks for something, and waits for the answer.
    ///
    /// # Errors
    /// If the process is gone, or reports a problem.
    pub fn ask<T: DeserializeOwned>(&mut self, line: &str) -> Result<T, Problem> {
        self.say(line)?;
        Ok(serde_json::from_value(self.answer()?)?)
    }

    /// As [`ask`](Self::ask), where the answer only says that it is done.
    ///
    /// # Errors
    /// If the process is gone, or reports a problem.
    pub fn tell(&mut self, line: &str) -> Result<(), Problem> {
        self.say(line)?;
        self.answer().map(|_| ())
    }

    /// Writes a line. The answer must be fetched later.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn say(&mut self, line: &str) -> Result<(), Problem> {
        let input = self.input.as_mut().ok_or("a process without standard input")?;
        Ok(writeln!(input, "{line}")?)
    }

    /// Waits for the answer to a line.
    ///
    /// # Errors
    /// If the process is gone, or reports a problem.
    pub fn answer(&mut self) -> Result<Value, Problem> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(format!("the {} has ended", self.role).into());
        }
        let value: Value = serde_json::from_str(&line)?;
        match value.get("problem").and_then(Value::as_str) {
            Some(problem) if value.as_object().is_some_and(|members| members.len() == 1) => {
                Err(format!("the {}: {problem}", self.role).into())
            }
            _ => Ok(value),
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        drop(self.input.take());
        // A process that is stopped, or busy, does not see the end of its input.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints an answer.
///
/// # Errors
/// If nobody reads it.
pub fn say(answer: &impl Serialize) -> Result<(), Problem> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(answer)?)?;
    Ok(out.flush()?)
}

/// Answers each line until the benchmark ends. An error of `answer` is told, and the part goes on.
///
/// # Errors
/// If the benchmark is gone.
pub fn serve(
    ready: &impl Serialize,
    mut answer: impl FnMut(&[&str]) -> Result<Value, Problem>,
) -> Result<(), Problem> {
    say(ready)?;
    for line in std::io::stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match answer(&words) {
            Ok(value) => say(&value)?,
            Err(problem) => say(&json!({ "problem": problem.to_string() }))?,
        }
    }
    Ok(())
}

/// The answer to a line that a part does not know.
///
/// # Errors
/// Always.
pub fn unknown(words: &[&str]) -> Result<Value, Problem> {
    Err(format!("unknown line {words:?}").into())
}

/// Resident memory of a process in bytes.
///
/// # Errors
/// If the process is gone.
pub fn resident_bytes(process: u32) -> Result<u64, Problem> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1_024)
}

/// A server of another system. It ends when this is dropped, and also when the benchmark is killed.
#[derive(Debug)]
pub struct Server(Child);

impl Server {
    /// Starts a program.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(command: &mut Command) -> Result<Self, Problem> {
        // SAFETY: prctl is safe to call between fork and exec: it changes a setting of the calling process only.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let name = command.get_program().display().to_string();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Ok(Self(child.map_err(|error| format!("can't start {name}: {error}"))?))
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// True once the process has ended.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn has_ended(&mut self) -> Result<bool, Problem> {
        Ok(self.0.try_wait()?.is_some())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It holds nothing that must survive.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
