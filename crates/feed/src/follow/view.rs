//! A reader that keeps the state of its part of a feed.

use super::{Reader, ReaderError, Update};
use treefold_mirror::keyed::{KeyedState, RestoreError};
use treefold_mirror::message::Begins;
use treefold_mirror::rules::file::StateOptions;
use treefold_mirror::state::{Moment, State};
use treefold_mirror::{Cut, MirrorLimits};

/// A reader with the state of its part of a feed. While a snapshot arrives, the former state stays. If the reader
/// resumes from a vector time, the state has the changes since then only.
///
/// ```no_run
/// # async fn example(node: treefold::Node) -> Result<(), Box<dyn std::error::Error>> {
/// # use treefold_feed::Reader;
/// let mut view = Reader::connect(&node.client(), "flights").start().await?.into_view();
/// loop {
///     view.changed().await?;
///     println!("{} keys at {:?}", view.state().len(), view.cut());
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct View {
    reader: Reader,
    limits: MirrorLimits,
    seed: u64,
    state: KeyedState,
    cut: Option<Cut>,
    /// The state that a snapshot builds.
    loading: Option<(Begins, KeyedState)>,
}

/// The reason why a view has not changed.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// No mirror serves the reader. Asking again continues the search.
    #[error(transparent)]
    Reader(#[from] ReaderError),
    /// A snapshot has too many keys. The view keeps its former state.
    #[error(transparent)]
    Restore(#[from] RestoreError),
}

impl View {
    pub(super) fn new(reader: Reader) -> Self {
        let (limits, seed) = (MirrorLimits::default(), crate::random_seed());
        let state = KeyedState::new(StateOptions::default(), &limits, seed);
        Self { reader, limits, seed, state, cut: None, loading: None }
    }

    /// The state. Empty before the first snapshot is complete.
    pub fn state(&self) -> &KeyedState {
        &self.state
    }

    /// The place of the state. `None` before the first snapshot is complete.
    pub fn cut(&self) -> Option<Cut> {
        self.cut
    }

    /// The reader.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Waits until the state has changed, and has all updates that have arrived by then. Cancel safe.
    ///
    /// # Errors
    /// [`ViewError`].
    pub async fn changed(&mut self) -> Result<(), ViewError> {
        let mut is_changed = false;
        while !is_changed || self.reader.has_updates() {
            let update = self.reader.next().await?;
            is_changed |= self.take(update)?;
        }
        Ok(())
    }

    /// Takes an update. Returns true if the state or its place has changed.
    fn take(&mut self, update: Update) -> Result<bool, ViewError> {
        match update {
            Update::Begins(begins) => {
                let options =
                    StateOptions { deletes: begins.deletes.clone(), retention_ms: begins.retention_ms };
                self.loading = Some((begins, KeyedState::new(options, &self.limits, self.seed)));
                Ok(false)
            }
            Update::Row(row) => {
                if let Some((_, state)) = &mut self.loading {
                    let mut piece = Vec::new();
                    row.write(&mut piece);
                    state.restore(&piece.into())?;
                }
                Ok(false)
            }
            Update::Complete(_) => {
                if let Some((begins, state)) = self.loading.take() {
                    (self.state, self.cut) = (state, Some(begins.cut));
                }
                Ok(true)
            }
            Update::Event { at, sent_ms, event } => {
                let moment = Moment { position: at.position, sent_ms };
                self.state.apply(moment, event.borrowed(), &mut Vec::new());
                self.cut = self.reader.cut();
                Ok(true)
            }
            Update::At { sent_ms, .. } => {
                self.state.advance(sent_ms);
                self.cut = self.reader.cut();
                Ok(true)
            }
            Update::Moved { .. } | Update::Lagging(_) => Ok(false),
        }
    }
}
