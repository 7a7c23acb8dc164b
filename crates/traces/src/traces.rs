//! The traces of a front: it begins one for each call, and hands over those that are sampled when they have ended.

use crate::call::{EndedCall, Side};
use crate::context::{Context, Parent};
use crate::exporter::Exporter;
use crate::sampling::{Choice, Sampler};
use crate::settings::TraceSettings;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use treefold::Client;

/// The traces of a front. Without a target there are none, and calls have no place in a trace.
#[derive(Debug)]
pub struct Traces {
    sampler: Sampler,
    counts: Arc<Counts>,
    exporter: Option<Exporter>,
}

/// Counts of traced calls.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    exported: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    limited: AtomicU64,
}

/// Counts of traced calls since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Calls whose spans all targets have taken.
    pub exported: u64,
    /// Calls whose spans a target has not taken.
    pub failed: u64,
    /// Calls whose spans found no room in the queue, or were in it at the end.
    pub dropped: u64,
    /// Calls that were chosen, and not traced because of the bound on traced calls in a second.
    pub limited: u64,
}

/// The reason why traces cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// This build has no exporter.
    #[error("this build cannot export traces: it lacks the cargo feature otel")]
    Absent,
    /// The file cannot be opened.
    #[error("{path}: can't write traces to it: {error}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The exporter's thread cannot be started.
    #[error("can't start the thread that exports traces: {0}")]
    Thread(io::Error),
}

impl Counts {
    #[cfg_attr(not(feature = "otel"), allow(dead_code, reason = "only an exporter counts these"))]
    pub(crate) fn exported(&self, calls: usize) {
        self.exported.fetch_add(calls as u64, Ordering::Relaxed);
    }

    #[cfg_attr(not(feature = "otel"), allow(dead_code, reason = "only an exporter counts these"))]
    pub(crate) fn failed(&self, calls: usize) {
        self.failed.fetch_add(calls as u64, Ordering::Relaxed);
    }

    #[cfg_attr(not(feature = "otel"), allow(dead_code, reason = "only an exporter counts these"))]
    pub(crate) fn dropped(&self, calls: usize) {
        self.dropped.fetch_add(calls as u64, Ordering::Relaxed);
    }
}

impl Traces {
    /// Starts the exporter if there is a target. The client is asked for the zones of nodes.
    ///
    /// # Errors
    /// If there is a target, and this build has no exporter, or it cannot start.
    pub fn start(settings: &TraceSettings, side: Side, client: &Client) -> Result<Self, StartError> {
        let counts = Arc::new(Counts::default());
        let sampler = Sampler::new(settings.sampling);
        let exporter = match settings.has_target() {
            true => Some(Exporter::start(settings, side, client.clone(), Arc::clone(&counts))?),
            false => None,
        };
        Ok(Self { sampler, counts, exporter })
    }

    /// The place of a call that begins. Returns `None` if there is no target.
    pub fn begin(&self, parent: Option<&Parent>) -> Option<Context> {
        self.exporter.as_ref()?;
        let context = Context::below(parent)?;
        let choice = self.sampler.choose(parent, &context);
        if choice == Choice::Limited {
            self.counts.limited.fetch_add(1, Ordering::Relaxed);
        }
        Some(Context { is_sampled: choice == Choice::Traced, ..context })
    }

    /// Hands a sampled call over to the exporter. It never waits: if there is no room, the call is counted as dropped.
    pub fn end(&self, call: EndedCall) {
        if let Some(exporter) = self.exporter.as_ref().filter(|_| call.context.is_sampled) {
            exporter.take(call);
        }
    }

    /// The counts since the start.
    pub fn figures(&self) -> Figures {
        let Counts { exported, failed, dropped, limited } = self.counts.as_ref();
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Figures {
            exported: read(exported),
            failed: read(failed),
            dropped: read(dropped),
            limited: read(limited),
        }
    }

    /// Exports the calls that wait, for at most this time, and ends the exporter.
    pub async fn finish(&self, within: Duration) {
        if let Some(exporter) = &self.exporter {
            exporter.finish(within).await;
        }
    }
}
