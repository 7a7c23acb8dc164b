//! A stream's filters at this node: found by name, run, and their panics caught.

use crate::foreign::Sent;
use crate::job::{failed, panicked, text_of};
use crate::service::Registry;
use bytes::Bytes;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use treefold_core::config::Placement as KindPlacement;
use treefold_core::error::JobError;
use treefold_core::stream::spec::{FilterWork, Filtered, Source};
use treefold_core::stream::{OperatorId, StreamSpec};
use treefold_operators::filter::{Descent, Piece, Wave};
use treefold_operators::{Filter, FilterKind, OperatorError, Placement};

/// One stream's filters: one for each way, or one for both.
pub(crate) struct Filters {
    up: Option<Box<dyn Filter>>,
    /// `None` where the up-filter does this, too.
    down: Option<Box<dyn Filter>>,
    /// What they are made of, if it was sent: as long as they are in use it stays on the node's shelf.
    _made_of: [Option<Arc<Sent>>; 2],
}

/// What the up-filter is to hear before its next wave.
pub(crate) enum News {
    /// Somebody sends to it from now on.
    Joined(Source),
    /// Others come in a source's place.
    Replaced(Source, Vec<Source>),
}

/// The kinds that a stream's filters are of.
pub(crate) struct Kinds {
    up: Option<Kind>,
    down: Option<Kind>,
}

struct Kind {
    name: Arc<str>,
    kind: Arc<dyn FilterKind>,
    sent: Option<Arc<Sent>>,
}

/// Why a filter's kind is not known.
pub(crate) enum Unresolved {
    /// It would be made of an operator that is not here.
    Lacking(OperatorId),
    /// Nobody knows what is meant.
    Unknown(Arc<str>),
}

impl Kinds {
    /// Finds them by name: among those that were sent, those of the node's services, and those that every node has.
    pub(crate) fn resolve(
        registry: &Registry,
        spec: &StreamSpec<Bytes>,
        mut sent: impl FnMut(&str) -> Option<Result<Arc<Sent>, Unresolved>>,
    ) -> Result<Self, Unresolved> {
        let mut find = |name: &Arc<str>| {
            if name.is_empty() {
                return Ok(None);
            }
            let name = Arc::clone(name);
            if let Some(sent) = sent(&name).transpose()? {
                let kind = Arc::clone(&sent.loaded.filter);
                return Ok(Some(Kind { name, kind, sent: Some(sent) }));
            }
            let kind = registry.filter(&name).or_else(|| treefold_operators::filter::builtin(&name));
            match kind {
                Some(kind) => Ok(Some(Kind { name, kind, sent: None })),
                None => Err(Unresolved::Unknown(format!("no filter is called {name:?}").into())),
            }
        };
        let up = find(&spec.up_filter)?;
        let down = if spec.up_filter == spec.down_filter { None } else { find(&spec.down_filter)? };
        Ok(Self { up, down })
    }

    /// True when somebody else wrote one of them.
    pub(crate) fn are_sent(&self) -> bool {
        [&self.up, &self.down].into_iter().flatten().any(|kind| kind.sent.is_some())
    }

    /// Makes a stream's filters, and says where they run.
    ///
    /// # Errors
    /// When one won't have its parameters.
    pub(crate) fn open(self, params: &Bytes) -> Result<(Filters, KindPlacement), Arc<str>> {
        let (up, up_place) = open_one(self.up.as_ref(), params)?;
        let (down, down_place) = open_one(self.down.as_ref(), params)?;
        let made_of = [self.up, self.down].map(|kind| kind.and_then(|kind| kind.sent));
        Ok((Filters { up, down, _made_of: made_of }, slower_of(up_place, down_place)))
    }
}

impl Filters {
    /// Does one piece of work. A panic is that work's error; what the filter remembered is not to be trusted then.
    pub(crate) fn run(
        &mut self,
        tag: u64,
        work: FilterWork<Bytes>,
        message_bytes_max: usize,
    ) -> Result<Filtered<Bytes>, JobError> {
        // Nothing of ours is shared with a filter but what it is given, and that is dropped with the panic.
        match catch_unwind(AssertUnwindSafe(|| self.work(tag, work))) {
            Ok(Ok(filtered)) => Ok(filtered),
            Ok(Err(error)) => Err(failed(&error, message_bytes_max)),
            Err(panic) => Err(panicked(panic.as_ref(), message_bytes_max)),
        }
    }

    fn work(&mut self, tag: u64, work: FilterWork<Bytes>) -> Result<Filtered<Bytes>, OperatorError> {
        let now_ns = clock_ns();
        let mut packets = Vec::new();
        match work {
            FilterWork::Up(pieces) => {
                let pieces: Vec<Piece> =
                    pieces.into_iter().map(|(source, payload)| Piece { source, payload }).collect();
                let wave = Wave { tag, pieces: &pieces, now_ns };
                self.up.as_mut().map_or(Ok(()), |filter| filter.up(wave, &mut packets))?;
            }
            FilterWork::Down(payload) => {
                let descent = Descent { tag, payload: &payload, now_ns };
                let filter = self.down.as_mut().or(self.up.as_mut());
                filter.map_or(Ok(()), |filter| filter.down(descent, &mut packets))?;
            }
        }
        let holds_from = self.up.as_ref().and_then(|filter| filter.holds_from());
        Ok(Filtered { packets, holds_from })
    }

    /// Tells the up-filter what has happened.
    pub(crate) fn tell(&mut self, news: impl IntoIterator<Item = News>) {
        let Some(filter) = &mut self.up else { return };
        for it in news {
            // One that panics here loses what it remembers of the source, and shows it with the next wave.
            let _ = catch_unwind(AssertUnwindSafe(|| match it {
                News::Joined(source) => filter.joined(source),
                News::Replaced(lost, heirs) => filter.replaced(lost, &heirs),
            }));
        }
    }
}

type Opened = (Option<Box<dyn Filter>>, KindPlacement);

fn open_one(kind: Option<&Kind>, params: &Bytes) -> Result<Opened, Arc<str>> {
    let Some(Kind { name, kind, .. }) = kind else { return Ok((None, KindPlacement::Inline)) };
    let place = match kind.placement() {
        Placement::Pool => KindPlacement::Pool,
        Placement::Inline => KindPlacement::Inline,
        Placement::Measured => KindPlacement::Measured,
    };
    let opened = catch_unwind(AssertUnwindSafe(|| FilterKind::open(&**kind, params)));
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
