//! A stream's filters at this node: finds them by name, runs them, and catches their panics.

use crate::foreign::Sent;
use crate::job::{failed, panicked, text_of};
use crate::service::Registry;
use bytes::Bytes;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use treefold_core::config::Placement as KindPlacement;
use treefold_core::error::JobError;
use treefold_core::stream::spec::{FilterWork, Filtered, NoFilter, Source};
use treefold_core::stream::{OperatorId, StreamSpec};
use treefold_operators::filter::{ByNode, Descent, Piece, Wave, by_node};
use treefold_operators::{Filter, FilterKind, OperatorError, Placement};

/// One stream's filters: one for each direction, or one for both.
pub(crate) struct Filters {
    up: Option<Box<dyn Filter>>,
    /// `None` if there is no down-filter, or the up-filter handles this direction too.
    down: Option<Box<dyn Filter>>,
    /// The sent operators that the filters are made of. An operator stays on the node's shelf while it is
    /// in use.
    _made_of: [Option<Arc<Sent>>; 2],
}

/// Changes among the up-filter's sources, which it is told before its next wave.
pub(crate) enum News {
    /// A new source sends to the filter from now on.
    Joined(Source),
    /// Other sources replace this one.
    Replaced(Source, Vec<Source>),
}

/// The kinds of a stream's filters.
pub(crate) struct Kinds {
    up: Option<Kind>,
    down: Option<Kind>,
}

struct Kind {
    name: Arc<str>,
    kind: Arc<dyn FilterKind>,
    params: Bytes,
    sent: Option<Arc<Sent>>,
}

/// Why a filter's kind cannot be found.
pub(crate) enum Unresolved {
    /// It is made of an operator that this node lacks.
    Lacking(OperatorId),
    /// This node can't have it.
    Without(NoFilter),
}

/// The node at which a stream's filters are wanted.
#[derive(Clone, Copy)]
pub(crate) struct Here {
    pub(crate) node: SocketAddr,
    pub(crate) is_front_end: bool,
}

impl Kinds {
    /// Finds both kinds by name: first among sent operators, then in the node's services, then among the
    /// built-in ones.
    pub(crate) fn resolve(
        registry: &Registry,
        spec: &StreamSpec<Bytes>,
        here: Here,
        mut sent: impl FnMut(&str) -> Option<Result<Arc<Sent>, Unresolved>>,
    ) -> Result<Self, Unresolved> {
        let mut find = |name: &Arc<str>| {
            if name.is_empty() {
                return Ok(None);
            }
            let chosen = chosen(name, &spec.filter_params, here);
            let Choice { name, params, is_of_node } =
                chosen.map_err(|problem| Unresolved::Without(NoFilter::Refused(problem)))?;
            if let Some(sent) = sent(&name).transpose()? {
                let kind = Arc::clone(&sent.loaded.filter);
                return Ok(Some(Kind { name, kind, params, sent: Some(sent) }));
            }
            let kind = registry.filter(&name).or_else(|| treefold_operators::filter::builtin(&name));
            match kind {
                Some(kind) => Ok(Some(Kind { name, kind, params, sent: None })),
                None => {
                    let problem = format!("no filter is called {name:?}").into();
                    // Its parent does not know what this node alone was to do.
                    let without = if is_of_node { NoFilter::Refused } else { NoFilter::Unknown };
                    Err(Unresolved::Without(without(problem)))
                }
            }
        };
        let up = find(&spec.up_filter)?;
        let down = if spec.up_filter == spec.down_filter { None } else { find(&spec.down_filter)? };
        Ok(Self { up, down })
    }

    /// Returns true if at least one of them is an operator that was sent.
    pub(crate) fn are_sent(&self) -> bool {
        [&self.up, &self.down].into_iter().flatten().any(|kind| kind.sent.is_some())
    }

    /// Makes a stream's filters, and returns where they run.
    ///
    /// # Errors
    /// If a filter rejects its parameters.
    pub(crate) fn open(self) -> Result<(Filters, KindPlacement), Arc<str>> {
        let (up, up_place) = open_one(self.up.as_ref())?;
        let (down, down_place) = open_one(self.down.as_ref())?;
        let made_of = [self.up, self.down].map(|kind| kind.and_then(|kind| kind.sent));
        Ok((Filters { up, down, _made_of: made_of }, slower_of(up_place, down_place)))
    }
}

/// The filter of a stream at a node.
struct Choice {
    name: Arc<str>,
    params: Bytes,
    /// True if `by-node` gives this node or the front-end a filter of its own.
    is_of_node: bool,
}

/// The filter that a stream's filter is at a node: another one only for `by-node`.
fn chosen(name: &Arc<str>, params: &Bytes, here: Here) -> Result<Choice, Arc<str>> {
    if **name != *by_node::NAME {
        return Ok(Choice { name: Arc::clone(name), params: params.clone(), is_of_node: false });
    }
    let by_node = ByNode::read(params).map_err(|error| format!("{name}: {error}"))?;
    let chosen = by_node.at(here.node, here.is_front_end);
    let is_of_node = !std::ptr::eq(chosen, &by_node.others);
    Ok(Choice { name: chosen.filter.as_str().into(), params: chosen.params.0.clone(), is_of_node })
}

/// The names of all filters that a stream has somewhere. Parameters that can't be read name none, and open none.
pub(crate) fn names_of(spec: &StreamSpec<Bytes>) -> Vec<Arc<str>> {
    let mut names = vec![Arc::clone(&spec.up_filter), Arc::clone(&spec.down_filter)];
    if names.iter().any(|name| **name == *by_node::NAME)
        && let Ok(by_node) = ByNode::read(&spec.filter_params)
    {
        names.extend(by_node.all().map(|(_, chosen)| chosen.filter.as_str().into()));
    }
    names
}

impl Filters {
    /// Runs one piece of work. A panic becomes the error of that work; the filter's state may then be
    /// inconsistent.
    pub(crate) fn run(
        &mut self,
        tag: u64,
        work: FilterWork<Bytes>,
        message_bytes_max: usize,
    ) -> Result<Filtered<Bytes>, JobError> {
        // A filter shares only its input with this node, and the panic drops that.
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

    /// Tells the up-filter about changes among its sources.
    pub(crate) fn tell(&mut self, news: impl IntoIterator<Item = News>) {
        let Some(filter) = &mut self.up else { return };
        for it in news {
            // A filter that panics here may lose its state for the source; the next wave shows it.
            let _ = catch_unwind(AssertUnwindSafe(|| match it {
                News::Joined(source) => filter.joined(source),
                News::Replaced(lost, heirs) => filter.replaced(lost, &heirs),
            }));
        }
    }
}

type Opened = (Option<Box<dyn Filter>>, KindPlacement);

fn open_one(kind: Option<&Kind>) -> Result<Opened, Arc<str>> {
    let Some(Kind { name, kind, params, .. }) = kind else { return Ok((None, KindPlacement::Inline)) };
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

/// This machine's clock in ns since 1970; 0 for times before 1970.
fn clock_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
