//! A stream's filters at this node: found by name, run, and their panics caught.

use crate::service::Registry;
use bytes::Bytes;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use treefold_core::config::Placement as KindPlacement;
use treefold_core::error::JobError;
use treefold_core::stream::StreamSpec;
use treefold_core::stream::spec::{FilterWork, Filtered, Source};
use treefold_operators::filter::{Descent, Piece, Wave};
use treefold_operators::{Filter, FilterKind, OperatorError, Placement};

/// One stream's filters: one for each way, or one for both.
pub(crate) struct Filters {
    up: Option<Box<dyn Filter>>,
    /// `None` where the up-filter does this, too.
    down: Option<Box<dyn Filter>>,
}

impl Filters {
    /// Makes a stream's filters.
    ///
    /// # Errors
    /// When the node knows no filter of that name, or it won't have its parameters.
    pub(crate) fn open(
        registry: &Registry,
        spec: &StreamSpec<Bytes>,
    ) -> Result<(Self, KindPlacement), Arc<str>> {
        let is_one = spec.up_filter == spec.down_filter;
        let (up, up_place) = open_one(registry, &spec.up_filter, &spec.filter_params)?;
        let down_name = if is_one { "" } else { &*spec.down_filter };
        let (down, down_place) = open_one(registry, down_name, &spec.filter_params)?;
        Ok((Self { up, down }, slower_of(up_place, down_place)))
    }

    /// Does one piece of work. A panic is that work's error; what the filter remembered is not to be trusted then.
    pub(crate) fn run(
        &mut self,
        tag: u64,
        work: FilterWork<Bytes>,
        message_bytes_max: usize,
    ) -> Result<Filtered<Bytes>, JobError> {
        let now_ns = clock_ns();
        let mut packets = Vec::new();
        let outcome = catch_unwind(AssertUnwindSafe(|| match work {
            FilterWork::Up(pieces) => {
                let pieces: Vec<Piece> =
                    pieces.into_iter().map(|(source, payload)| Piece { source, payload }).collect();
                let wave = Wave { tag, pieces: &pieces, now_ns };
                self.up.as_mut().map_or(Ok(()), |filter| filter.up(wave, &mut packets))
            }
            FilterWork::Down(payload) => {
                let descent = Descent { tag, payload: &payload, now_ns };
                let filter = self.down.as_mut().or(self.up.as_mut());
                filter.map_or(Ok(()), |filter| filter.down(descent, &mut packets))
            }
        }));
        match outcome {
            Ok(Ok(())) => {
                let holds_from = self.up.as_ref().and_then(|filter| filter.holds_from());
                Ok(Filtered { packets, holds_from })
            }
            Ok(Err(error)) => Err(JobError::Failed(cut(&said(&error), message_bytes_max))),
            Err(panic) => Err(JobError::Panicked(cut(text_of(panic.as_ref()), message_bytes_max))),
        }
    }

    /// Tells the up-filter of a source.
    pub(crate) fn joined(&mut self, source: Source) {
        if let Some(filter) = &mut self.up {
            // As below.
            let _ = catch_unwind(AssertUnwindSafe(|| filter.joined(source)));
        }
    }

    /// Tells the up-filter that others come in a source's place.
    pub(crate) fn replaced(&mut self, lost: Source, heirs: &[Source]) {
        if let Some(filter) = &mut self.up {
            // One that panics here loses what it remembers of the source, and shows it with the next wave.
            let _ = catch_unwind(AssertUnwindSafe(|| filter.replaced(lost, heirs)));
        }
    }
}

type Opened = (Option<Box<dyn Filter>>, KindPlacement);

fn open_one(registry: &Registry, name: &str, params: &Bytes) -> Result<Opened, Arc<str>> {
    if name.is_empty() {
        return Ok((None, KindPlacement::Inline));
    }
    let kind = registry
        .filter(name)
        .or_else(|| treefold_operators::filter::builtin(name))
        .ok_or_else(|| Arc::from(format!("no filter is called {name:?}")))?;
    let place = match kind.placement() {
        Placement::Pool => KindPlacement::Pool,
        Placement::Inline => KindPlacement::Inline,
        Placement::Measured => KindPlacement::Measured,
    };
    let opened = catch_unwind(AssertUnwindSafe(|| FilterKind::open(&*kind, params)));
    match opened {
        Ok(Ok(filter)) => Ok((Some(filter), place)),
        Ok(Err(error)) => Err(format!("{name}: {error}").into()),
        Err(panic) => Err(format!("{name} panicked: {}", text_of(panic.as_ref())).into()),
    }
}

fn slower_of(a: KindPlacement, b: KindPlacement) -> KindPlacement {
    match (a, b) {
        (KindPlacement::Inline, other) | (other, KindPlacement::Inline) => other,
        (KindPlacement::Measured, KindPlacement::Measured) => KindPlacement::Measured,
        _ => KindPlacement::Pool,
    }
}

/// This machine's clock in ns since 1970; 0 before that.
fn clock_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

fn said(error: &OperatorError) -> String {
    error.to_string()
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

/// At most `bytes_max` bytes of `text`, whole characters only.
fn cut(text: &str, bytes_max: usize) -> Arc<str> {
    text[..text.floor_char_boundary(bytes_max)].into()
}
