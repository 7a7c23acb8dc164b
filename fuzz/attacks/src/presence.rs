//! A stranger's listening side, which greets everybody who connects: a node calls the address in a greeting back.

use crate::finding::Setback;
use crate::wire::{Peer, hello_bytes};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use treefold::NodeId;
use treefold::parts::wire::Hello;

/// Pause between two looks at the listener.
const PAUSE: Duration = Duration::from_millis(2);

/// A thread that greets at an address, until this is dropped.
pub(crate) struct Presence(Arc<AtomicBool>);

impl Presence {
    /// Greets as a node of the cluster, at the address in its name.
    pub(crate) fn of(node: NodeId, cluster: &str) -> Result<Self, Setback> {
        let listener = TcpListener::bind(node.addr).map_err(Setback::doing("listen"))?;
        listener.set_nonblocking(true).map_err(Setback::doing("listen"))?;
        let (is_over, greeting) = (Arc::new(AtomicBool::new(false)), hello_bytes(&Hello::new(cluster, node)));
        let ends = Arc::clone(&is_over);
        thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let _ = stream.set_nonblocking(false);
                        // The other side may be gone before it has its answer.
                        let _ = Peer::over(Box::new(stream)).send_bytes(&greeting);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(PAUSE),
                    Err(_) => return,
                }
            }
        });
        Ok(Self(is_over))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
