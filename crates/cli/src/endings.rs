//! Signals that end a command.

use crate::exit::Failure;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a program.
pub(crate) struct Endings {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Endings {
    /// Catches the signals from here on.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let catch =
            |kind| signal(kind).map_err(|error| Failure::failed(format!("can't catch signals: {error}")));
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
            hang_up: catch(SignalKind::hangup())?,
        })
    }

    /// Returns when a signal has come.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
