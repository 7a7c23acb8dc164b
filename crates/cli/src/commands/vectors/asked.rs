//! Options and calls that the commands on vectors and faces share.

use crate::args::At;
use crate::commands::call::{missing_line, verdict_line};
use crate::commands::{connect, failure_of};
use crate::exit::{Failure, Verdict};
use crate::output::print;
use crate::output::style::Style;
use crate::parse;
use clap::Args;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::{LocalSet, spawn_local};
use treefold::{Body, Client, Reply};
use treefold_vectors::OpenError;
use treefold_vectors::rows::Rows;

/// The nodes that a command asks, and what counts as an answer.
#[derive(Clone, Debug, Args)]
pub(crate) struct Asked {
    #[command(flatten)]
    at: At,

    /// Deadline of each answer, with its unit: 200ms, 1.5s, 2m
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse::deadline, allow_hyphen_values = true)]
    deadline: Duration,

    /// Minimum coverage: the least share of partitions that makes an answer, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = parse::min_coverage, allow_hyphen_values = true)]
    min_coverage: f64,

    /// Form the tree in this process and talk to its root, without a front in between
    #[arg(long)]
    direct: bool,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

/// A connection that asks with these options.
pub(crate) struct Asking {
    client: Client,
    deadline: Duration,
    min_coverage: f64,
}

impl Asked {
    pub(crate) async fn connect(&self) -> Result<Asking, Failure> {
        let client = connect(&self.at, self.direct, &self.cluster).await?;
        Ok(Asking { client, deadline: self.deadline, min_coverage: self.min_coverage })
    }
}

impl Asking {
    pub(crate) async fn call<T: Body>(&self, kind: &str, params: &impl Body) -> Result<Reply<T>, Failure> {
        let call =
            self.client.call::<T>(kind, params).deadline(self.deadline).min_coverage(self.min_coverage);
        call.await.map_err(failure_of)
    }

    /// Makes the same call with each of these parameters. All must be answered in full.
    ///
    /// Returns the answers, and the time that each took.
    pub(crate) async fn each<T: Body>(
        &self,
        kind: &str,
        all: &[impl Body],
    ) -> Result<(Vec<T>, Vec<Duration>), Failure> {
        let (mut answers, mut times) = (Vec::new(), Vec::new());
        for params in all {
            let started_at = Instant::now();
            answers.push(self.whole(kind, params).await?);
            times.push(started_at.elapsed());
        }
        Ok((answers, times))
    }

    async fn whole<T: Body>(&self, kind: &str, params: &impl Body) -> Result<T, Failure> {
        let reply = self.call::<T>(kind, params).await?;
        match (Verdict::of(&reply.status), reply.value) {
            (Verdict::Full, Some(value)) => Ok(value),
            _ => {
                let missing: Vec<String> = reply.missing.iter().map(missing_line).collect();
                Err(Failure::failed(format!(
                    "an answer lacks partitions, so it can't be compared with others: {}; give more time with --deadline",
                    missing.join("; ")
                )))
            }
        }
    }

    /// Makes the same call with these parameters in turn, `in_flight` at a time, for a duration. Returns the
    /// calls per second.
    pub(crate) async fn throughput<T: Body>(
        self: &Rc<Self>,
        kind: &'static str,
        all: &Rc<Vec<impl Body>>,
        in_flight: u32,
        during: Duration,
    ) -> Result<f64, Failure> {
        let (next, done) = (Rc::new(Cell::new(0usize)), Rc::new(Cell::new(0u64)));
        let started_at = Instant::now();
        let caller = || {
            let (asking, all, next, done) =
                (Rc::clone(self), Rc::clone(all), Rc::clone(&next), Rc::clone(&done));
            async move {
                while started_at.elapsed() < during {
                    let at = next.get();
                    next.set(at + 1);
                    asking.whole::<T>(kind, &all[at % all.len()]).await?;
                    done.set(done.get() + 1);
                }
                Ok::<(), Failure>(())
            }
        };
        let calls = async {
            let callers: Vec<_> = (0..in_flight).map(|_| spawn_local(caller())).collect();
            for caller in callers {
                caller.await.map_err(|error| Failure::failed(format!("a caller died: {error}")))??;
            }
            Ok::<(), Failure>(())
        };
        LocalSet::new().run_until(calls).await?;
        Ok(done.get() as f64 / started_at.elapsed().as_secs_f64())
    }
}

/// Prints how complete an answer is, for people.
pub(crate) fn print_verdict<T>(reply: &Reply<T>) {
    let style = Style::of_stdout();
    print(verdict_line(reply, style));
    for missing in &reply.missing {
        print(style.warning(missing_line(missing)));
    }
}

/// Converts an error of a file or folder.
pub(crate) fn unusable(error: &OpenError) -> Failure {
    use std::error::Error;
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    Failure::failed(format!("{error}{cause}"))
}

/// Reads rows of a file of vectors: `count` of them from `first` on, or as many as there are.
pub(crate) fn read_rows(path: &Path, first: u64, count: u64) -> Result<Vec<Vec<f32>>, Failure> {
    let mut rows = Rows::open(path).map_err(|error| unusable(&error))?;
    if first >= rows.count() {
        let all = rows.count();
        return Err(Failure::usage(format!(
            "{} has {all} rows; row {first} is not one of them",
            path.display()
        )));
    }
    rows.skip(first).map_err(|error| unusable(&error))?;
    let mut read = Vec::new();
    let mut row = Vec::new();
    while (read.len() as u64) < count && rows.next(&mut row).map_err(|error| unusable(&error))? {
        read.push(std::mem::take(&mut row));
    }
    Ok(read)
}

/// The share of the exact neighbours that were found.
pub(crate) fn recall<'a>(
    exact: impl ExactSizeIterator<Item = &'a (u64, u32)>,
    found: &[(u64, u32)],
) -> (usize, usize) {
    let all = exact.len();
    (exact.filter(|one| found.contains(one)).count(), all)
}

/// The median of durations, in milliseconds.
pub(crate) fn median_ms(mut times: Vec<Duration>) -> f64 {
    quantile_ms(&mut times, 0.5)
}

/// A quantile of durations, in milliseconds.
pub(crate) fn quantile_ms(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    treefold_figures::quantile(times, share).map_or(0.0, |took| took.as_secs_f64() * 1e3)
}
