//! Datagrams: gossip and polls, which are small and frequent and may get lost.
//!
//! Core's bytes are sealed under the cluster's key ([`group_keys`](crate::group_keys)). A process without a key sends none, because
//! nobody could open it.

use super::Loop;
use crate::group_keys::Opened;
use bytes::Bytes;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;
use treefold_core::input::Input;

/// The longest possible datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Datagrams taken before other tasks of the loop run.
const DATAGRAMS_PER_TURN_MAX: usize = 64;

impl Loop {
    /// Sends a datagram, or drops it if there is no key or the system has no room for it.
    pub(super) fn send_datagram(&self, to: SocketAddr, bytes: &[u8]) {
        let sealed = self.keyring.borrow_mut().seal_for(to, bytes);
        match sealed {
            Some(datagram) => self.send_sealed(to, &datagram),
            None => tracing::trace!(%to, "a datagram was not sent, because there is no key yet"),
        }
    }

    fn send_sealed(&self, to: SocketAddr, datagram: &[u8]) {
        if let Err(error) = self.datagrams.try_send_to(datagram, to)
            && error.kind() != io::ErrorKind::WouldBlock
        {
            tracing::debug!(%to, %error, bytes = datagram.len(), "a datagram could not be sent");
        }
    }

    /// The task that receives datagrams.
    pub(super) async fn take_datagrams(self: Rc<Self>) {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            if let Err(error) = self.datagrams.readable().await {
                tracing::error!(%error, "no more datagrams can be received");
                return;
            }
            let mut taken = 0;
            // Errors reported here concern earlier sent datagrams, which may get lost.
            while let Ok((length, from)) = self.datagrams.try_recv_from(&mut buffer) {
                self.take_datagram(from, &buffer[..length]);
                taken += 1;
                if taken == DATAGRAMS_PER_TURN_MAX {
                    tokio::task::yield_now().await;
                    break;
                }
            }
        }
    }

    pub(super) fn take_datagram(self: &Rc<Self>, from: SocketAddr, datagram: &[u8]) {
        let now = Instant::now();
        let opened = self.keyring.borrow_mut().keys.open(datagram, now);
        match opened {
            Opened::Bytes(bytes) => self.feed(Input::<Bytes>::Datagram { from, bytes }),
            Opened::Unknown { key, answer } => {
                self.keyring.borrow_mut().await_key(key, from, datagram);
                if self.keyring.borrow_mut().may_answer(now) {
                    self.send_sealed(from, &answer);
                }
            }
            Opened::Lacking => self.hand_key_to(from, now),
            Opened::Refused(problem) => self.complaints.about(from, problem),
        }
    }
}
