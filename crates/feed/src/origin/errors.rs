//! The reasons why an origin does not start, does not take an event, or ends.

use crate::promotion::TakeOverError;
use std::sync::Arc;
use treefold::Error;
use treefold_journal::JournalError;
use treefold_mirror::origin::Refusal;
use treefold_mirror::recovery::RecoveryError;
use treefold_mirror::select::UnknownFunction;

/// The reason why an origin did not take an event.
#[derive(Debug, thiserror::Error)]
pub enum OfferError {
    /// The origin refuses this event; it goes on.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The origin has ended. It may have sent the event.
    #[error("the origin has ended")]
    Ended,
}

/// The reason why an origin has ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum EndError {
    /// The stream is over.
    #[error("the stream to the mirrors is over: {0}")]
    Stream(#[from] Error),
    /// The journal has failed.
    #[error("the journal has failed: {0}")]
    Journal(Arc<str>),
    /// Another origin has the mirrors' promises.
    #[error("a newer origin (epoch {epoch}) has taken over")]
    Fenced {
        /// The epoch of the newer origin.
        epoch: u32,
    },
}

/// The reason why an origin cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A rule names an unknown function.
    #[error(transparent)]
    Function(#[from] UnknownFunction),
    /// The stream to the mirrors could not be opened.
    #[error(transparent)]
    Stream(#[from] Error),
    /// The journal can't be read, or can't begin an epoch.
    #[error("the journal: {0}")]
    Journal(#[from] JournalError),
    /// The origin could not take over.
    #[error(transparent)]
    TakeOver(#[from] TakeOverError),
    /// A journal of another origin.
    #[error("the journal has events of an earlier origin; an origin that takes over needs a new directory")]
    JournalInUse,
    /// The feed has had as many epochs as can be counted.
    #[error("the journal is of epoch {}, the last one; begin a new feed with another name", u32::MAX)]
    Epochs,
    /// The journal has something else than a feed's events.
    #[error("the journal: {0}")]
    Recovery(#[from] RecoveryError),
}
