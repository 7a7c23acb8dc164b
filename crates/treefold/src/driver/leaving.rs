//! Leaves in order: core announces its leave and finishes its open work, then the outboxes are written, then
//! the links close.
//!
//! A link's writing side is closed first, and the link itself when the peer has closed its side. Closing with
//! unread bytes would reset the connection and destroy data that the peer has not read yet. The caller
//! decides how long this may take, and ends the loop after that time.

use super::Loop;
use super::link::{Link, Route};
use std::rc::Rc;
use std::time::Duration;
use treefold_core::input::{Command, Input};

/// Interval of the check whether everything has drained. Only a leaving node checks.
const DRAIN_LOOK_EVERY: Duration = Duration::from_millis(2);

impl Loop {
    /// The task of a leaving node.
    pub(super) async fn leave(self: Rc<Self>) {
        self.feed(Input::Command(Command::Leave));
        while !self.answers.borrow().is_drained() || !self.links().iter().all(|link| is_written(link)) {
            tokio::time::sleep(DRAIN_LOOK_EVERY).await;
        }
        for link in self.links() {
            // A link that breaks now counts as closed.
            let _ = link.write.end();
        }
        while self.peers.borrow().links > 0 {
            self.links_gone.notified().await;
        }
        self.answers.borrow_mut().left();
    }

    fn links(&self) -> Vec<Rc<Link>> {
        let peers = self.peers.borrow();
        let up = peers.routes.values().filter_map(|route| match route {
            Route::Up(links) => Some(links),
            Route::Dialing(_) => None,
        });
        up.flatten().cloned().collect()
    }
}

fn is_written(link: &Link) -> bool {
    // Encrypted bytes may still wait when the outbox is empty.
    link.outbox.borrow().is_empty() && !link.blocked.get()
}
