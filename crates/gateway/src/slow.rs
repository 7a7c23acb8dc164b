//! The log of slow calls: a line of JSON for each, with the tree and the time of every node.
//!
//! The lines go to the process's log (target `treefold::slow_call`), or to a file, which a thread of its own writes. A rate bounds
//! them, and each line says how many calls were left out before it.

use crate::limits::Limits;
use crate::options::{SlowCallOptions, StartError};
use serde::Serialize;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio::time::timeout;
use treefold::{Raw, Reply};
use treefold_forms::json::Account;
use treefold_traces::context::{SpanId, TraceId};
use treefold_traces::lines::{FILE_BYTES_MAX, LinesFile};
use treefold_traces::sampling::Rate;

/// Most lines that wait for the thread that writes the file.
const QUEUE_LINES_MAX: usize = 32;

/// The log of slow calls.
#[derive(Debug)]
pub(crate) struct SlowCalls {
    /// Calls that take as long as this are slow.
    over: Duration,
    line_bytes_max: usize,
    rate: Rate,
    /// Slow calls, and those among them that were not written.
    slow: AtomicU64,
    unwritten: AtomicU64,
    /// Calls that were not written since the last line.
    left_out: AtomicU64,
    file: Option<Writer>,
}

/// The thread that writes the file.
#[derive(Debug)]
struct Writer {
    lines: Mutex<Option<SyncSender<Vec<u8>>>>,
    ended: watch::Receiver<()>,
}

/// A call that has ended.
pub(crate) struct Seen<'a> {
    pub(crate) named: (&'a str, &'a str),
    pub(crate) started: SystemTime,
    pub(crate) took: Duration,
    pub(crate) deadline: Duration,
    pub(crate) trace: Option<TraceId>,
    /// Its span, if it is traced.
    pub(crate) span: Option<SpanId>,
}

/// One line.
///
/// Twelve fields, because it is the whole schema of a line.
#[derive(Serialize)]
struct Line<'a> {
    /// When the call began, in Unix milliseconds.
    at_ms: u64,
    service: &'a str,
    aggregation: &'a str,
    status: &'static str,
    took_us: u64,
    slow_call_us: u64,
    deadline_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<String>,
    /// Why a call failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    unwritten: u64,
    #[serde(flatten)]
    account: Option<&'a Account>,
}

impl SlowCalls {
    pub(crate) fn start(options: &SlowCallOptions, limits: &Limits) -> Result<Self, StartError> {
        Ok(Self {
            over: options.over,
            line_bytes_max: limits.slow_call_bytes_max,
            rate: Rate::new(limits.slow_calls_per_s),
            slow: AtomicU64::new(0),
            unwritten: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
            file: options.file.as_deref().map(Writer::start).transpose()?,
        })
    }

    /// Slow calls, and those among them that were not written.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.slow.load(Ordering::Relaxed), self.unwritten.load(Ordering::Relaxed))
    }

    /// Writes a line if the call was slow and the rate allows it.
    pub(crate) fn look(&self, call: &Seen<'_>, outcome: Result<&Reply<Raw>, &'static str>) {
        if call.took < self.over {
            return;
        }
        self.slow.fetch_add(1, Ordering::Relaxed);
        if !self.rate.passes() {
            self.leave_out(1);
            return;
        }
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        if !self.write(self.line(call, outcome, left_out)) {
            // The next line counts those again that this one has counted.
            self.left_out.fetch_add(left_out, Ordering::Relaxed);
            self.leave_out(1);
        }
    }

    fn leave_out(&self, calls: u64) {
        self.left_out.fetch_add(calls, Ordering::Relaxed);
        self.unwritten.fetch_add(calls, Ordering::Relaxed);
    }

    fn line(&self, call: &Seen<'_>, outcome: Result<&Reply<Raw>, &'static str>, unwritten: u64) -> Vec<u8> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let began = call.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut account = outcome.ok().map(Account::of);
        // An operator's text may quote the parameters of its caller.
        let lost = account.iter_mut().flat_map(|account| &mut account.missing);
        lost.for_each(|lost| lost.detail = None);
        let write = |account: Option<&Account>| {
            let line = Line {
                at_ms: u64::try_from(began.as_millis()).unwrap_or(u64::MAX),
                service: call.named.0,
                aggregation: call.named.1,
                status: outcome.map_or("failed", |reply| reply.status.name()),
                took_us: micros(call.took),
                slow_call_us: micros(self.over),
                deadline_us: micros(call.deadline),
                trace_id: call.trace.map(|id| id.to_string()),
                span_id: call.span.map(|id| id.to_string()),
                reason: outcome.err(),
                unwritten,
                account,
            };
            serde_json::to_vec(&line).expect("invariant: lines can be written to a vector")
        };
        let line = write(account.as_ref());
        match &mut account {
            // The tree and the missing partitions are the only parts that can be long.
            Some(account) if line.len() > self.line_bytes_max => {
                (account.tree, account.missing) = (None, Vec::new());
                write(Some(&*account))
            }
            _ => line,
        }
    }

    /// Returns false if there is no room for the line.
    fn write(&self, mut line: Vec<u8>) -> bool {
        match &self.file {
            Some(file) => {
                line.push(b'\n');
                file.take(line)
            }
            None => {
                let text = String::from_utf8_lossy(&line);
                tracing::warn!(target: "treefold::slow_call", document = %text, "slow call");
                true
            }
        }
    }

    pub(crate) async fn finish(&self, within: Duration) {
        if let Some(file) = &self.file {
            file.lines.lock().unwrap_or_else(PoisonError::into_inner).take();
            // An error means that the thread has ended.
            let _ = timeout(within, file.ended.clone().changed()).await;
        }
    }
}

impl Writer {
    fn start(path: &Path) -> Result<Self, StartError> {
        let refuse = |error| StartError::SlowCalls { path: path.to_owned(), error };
        let mut file = LinesFile::open(path, FILE_BYTES_MAX).map_err(refuse)?;
        let (sender, lines) = mpsc::sync_channel::<Vec<u8>>(QUEUE_LINES_MAX);
        let (tell_ended, ended) = watch::channel(());
        let path = path.to_owned();
        let write = move || {
            let mut was_written = true;
            for line in lines {
                let written = file.append(&line);
                if let Err(error) = &written
                    && was_written
                {
                    tracing::warn!("{}: lines of slow calls are lost: {error}", path.display());
                }
                was_written = written.is_ok();
            }
            drop(tell_ended);
        };
        thread::Builder::new().name("treefold-slow".to_owned()).spawn(write).map_err(refuse)?;
        Ok(Self { lines: Mutex::new(Some(sender)), ended })
    }

    fn take(&self, line: Vec<u8>) -> bool {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.as_ref().is_some_and(|lines| lines.try_send(line).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use treefold::{PartitionSet, Status};

    fn seen(took_ms: u64) -> Seen<'static> {
        Seen {
            named: ("sums", "sum"),
            started: UNIX_EPOCH + Duration::from_secs(7),
            took: Duration::from_millis(took_ms),
            deadline: Duration::from_secs(2),
            trace: None,
            span: None,
        }
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[tokio::test]
    async fn only_slow_calls_are_written_and_the_rest_of_a_second_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slow");
        let options = SlowCallOptions { over: Duration::from_millis(50), file: Some(path.clone()) };
        let limits = Limits { slow_calls_per_s: 2, ..Limits::default() };
        let log = SlowCalls::start(&options, &limits).unwrap();
        for took_ms in [49, 50, 60, 70, 80] {
            log.look(&seen(took_ms), Err("silent"));
        }
        assert_eq!(log.counts(), (4, 2));
        log.finish(Duration::from_secs(20)).await;
        log.look(&seen(90), Err("silent"));
        let written = lines(&path);
        let took: Vec<u64> = written.iter().map(|line| line["took_us"].as_u64().unwrap()).collect();
        assert_eq!(took, [50_000, 60_000]);
        let first = &written[0];
        assert_eq!((&first["status"], &first["reason"]), (&"failed".into(), &"silent".into()));
        assert_eq!((&first["at_ms"], &first["slow_call_us"]), (&7_000.into(), &50_000.into()));
        assert_eq!((first.get("tree"), first.get("trace_id")), (None, None));
    }

    #[test]
    fn line_counts_the_calls_left_out_before_it_and_has_bounded_bytes() {
        let options = SlowCallOptions { over: Duration::ZERO, file: None };
        let limits = Limits { slow_call_bytes_max: 400, ..Limits::default() };
        let log = SlowCalls::start(&options, &limits).unwrap();
        let mut reply = Reply {
            status: Status::Partial,
            value: None,
            asked: PartitionSet::first(3),
            contributed: PartitionSet::first(2),
            missing: Vec::new(),
            total_is_guess: false,
            elapsed: Duration::from_millis(3),
            report: None,
        };
        let line = |reply: &Reply<Raw>| log.line(&seen(9), Ok(reply), 5);
        let read = |line: &[u8]| serde_json::from_slice::<Value>(line).unwrap();
        let short = line(&reply);
        assert_eq!((&read(&short)["unwritten"], &read(&short)["status"]), (&5.into(), &"partial".into()));
        let lost = treefold::Missing {
            partitions: (2..200).collect(),
            node: None,
            reason: treefold::Reason::LocalFailed("secret".into()),
        };
        reply.missing = vec![treefold::Missing { partitions: [2].into_iter().collect(), ..lost.clone() }];
        assert_eq!(read(&line(&reply))["missing"][0]["reason"], "local_failed");
        assert!(!String::from_utf8(line(&reply)).unwrap().contains("secret"));
        reply.missing = vec![lost];
        assert_eq!(read(&line(&reply))["missing"].as_array().unwrap().len(), 0);
    }
}
