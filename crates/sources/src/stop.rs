//! Ends sources: a source that is asked to stop takes no further events, waits for the acknowledgement of the
//! events that it has offered, and returns.

use tokio::sync::watch;

/// Asks sources to stop. Dropping it asks them too.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Tells a source that it should stop.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

impl Stopper {
    /// A stopper, and its other end for sources.
    pub fn new() -> (Self, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Stop(receiver))
    }

    /// Asks all sources to stop.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Returns when the source should stop.
    pub async fn asked(&mut self) {
        // A stopper that is gone can't withdraw the request.
        let _ = self.0.wait_for(|is_asked| *is_asked).await;
    }

    /// True if the source should stop.
    pub fn is_asked(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}
