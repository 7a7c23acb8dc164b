//! A process that counts packets, and the pipe over which the trial asks it for its count.
//!
//! The trial writes `mark` to begin a measurement, and `report` to get a [`Count`] as a line of JSON. The process ends
//! when its standard input does.

use crate::clock::{cpu_time, now_ns};
use crate::trial::Problem;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;
use treefold_figures::quantile;

/// The packets that a process has received since the last mark.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Count {
    pub(crate) packets: u64,
    /// Times at which the process learned that packets were missed.
    pub(crate) gaps_told: u64,
    pub(crate) delay_p50_us: f64,
    pub(crate) delay_p99_us: f64,
    /// Longest time between two packets.
    pub(crate) pause_ms_max: f64,
}

/// Counts in the process itself.
#[derive(Debug, Default)]
pub(crate) struct Counter(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    packets: u64,
    gaps_told: u64,
    delays_us: Vec<f64>,
    last_ns: u64,
    pause_ns_max: u64,
}

impl Counter {
    /// Counts packets that arrived together, by the times at which they were due. 0 means that there was no such time.
    pub(crate) fn note(&self, due_ns: impl Iterator<Item = u64>) {
        let mut counts = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut now = 0;
        for due_ns in due_ns {
            counts.packets += 1;
            if due_ns > 0 {
                now = if now == 0 { now_ns() } else { now };
                counts.delays_us.push(now.saturating_sub(due_ns) as f64 / 1e3);
            }
        }
        if now > 0 {
            let pause = if counts.last_ns == 0 { 0 } else { now - counts.last_ns };
            counts.pause_ns_max = counts.pause_ns_max.max(pause);
            counts.last_ns = now;
        }
    }

    /// Counts the news that packets were missed.
    pub(crate) fn note_gap(&self) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).gaps_told += 1;
    }

    fn take(&self) -> Counts {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Answers the trial until it ends.
    pub(crate) fn serve(&self) -> Result<(), Problem> {
        for line in std::io::stdin().lines() {
            match line?.as_str() {
                "mark" => drop(self.take()),
                _ => {
                    let mut counts = self.take();
                    counts.delays_us.sort_unstable_by(f64::total_cmp);
                    let delay = |share| quantile(&counts.delays_us, share).unwrap_or(0.0);
                    let count = Count {
                        packets: counts.packets,
                        gaps_told: counts.gaps_told,
                        delay_p50_us: delay(0.5),
                        delay_p99_us: delay(0.99),
                        pause_ms_max: counts.pause_ns_max as f64 / 1e6,
                    };
                    println!("{}", serde_json::to_string(&count)?);
                }
            }
        }
        Ok(())
    }
}

/// A counting process, as the trial sees it. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts a process of this program in a role.
    pub(crate) fn start(words: &[String]) -> Result<Self, Problem> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("a process without standard output")?;
        Ok(Self { child, input, output: BufReader::new(output) })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn cpu_time(&self) -> Result<Duration, Problem> {
        Ok(cpu_time(self.id())?)
    }

    pub(crate) fn mark(&mut self) -> Result<(), Problem> {
        self.say("mark")
    }

    pub(crate) fn report(&mut self) -> Result<Count, Problem> {
        self.say("report")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }

    fn say(&mut self, word: &str) -> Result<(), Problem> {
        let input = self.input.as_mut().ok_or("a process without standard input")?;
        Ok(writeln!(input, "{word}")?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.input.take());
        // A process that was stopped does not see the end of its input.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
