//! Datagrams: gossip and polls, small, often, and allowed to get lost.
//!
//! An envelope of eight bytes stands before what core says: three of magic, one of version, four of a hash over
//! the cluster's name. It keeps port scanners, other programs and other clusters away from core's decoders at
//! the price of one comparison; it is no protection against anyone who means it. In a cluster that has a token, a
//! datagram ends with a seal over all before it, and any other is dropped.

use super::Loop;
use crate::wire::DATAGRAM_SEAL_BYTES;
use bytes::Bytes;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use treefold_core::input::Input;

/// What the envelope begins with; the last byte is its version.
const MAGIC: [u8; 4] = *b"tfd\x01";
/// Bytes of the envelope.
const ENVELOPE_BYTES: usize = 8;
/// The longest datagram there is.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Datagrams taken in one go before others get their turn on the loop.
const DATAGRAMS_PER_TURN_MAX: usize = 64;

/// The envelope of a cluster's datagrams.
fn envelope(cluster: &str) -> [u8; ENVELOPE_BYTES] {
    // FNV-1a, 32 bits.
    let hash =
        cluster.bytes().fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let mut envelope = [0; ENVELOPE_BYTES];
    envelope[..4].copy_from_slice(&MAGIC);
    envelope[4..].copy_from_slice(&hash.to_le_bytes());
    envelope
}

impl Loop {
    /// Sends a datagram, or drops it when the system has no room for it now.
    pub(super) fn send_datagram(&self, to: SocketAddr, bytes: &[u8]) {
        let mut datagram = Vec::with_capacity(ENVELOPE_BYTES + bytes.len() + DATAGRAM_SEAL_BYTES);
        datagram.extend_from_slice(&envelope(&self.identity.cluster));
        datagram.extend_from_slice(bytes);
        if let Some(token) = &self.identity.token {
            let seal = token.seal_datagram(&datagram);
            datagram.extend_from_slice(&seal);
        }
        if let Err(error) = self.datagrams.try_send_to(&datagram, to)
            && error.kind() != io::ErrorKind::WouldBlock
        {
            tracing::debug!(%to, %error, bytes = bytes.len(), "a datagram could not be sent");
        }
    }

    /// The task that takes datagrams.
    pub(super) async fn take_datagrams(self: Rc<Self>) {
        let envelope = envelope(&self.identity.cluster);
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            if let Err(error) = self.datagrams.readable().await {
                tracing::error!(%error, "no more datagrams can be received");
                return;
            }
            let mut taken = 0;
            // Errors told here are about datagrams sent earlier; these may get lost.
            while let Ok((length, from)) = self.datagrams.try_recv_from(&mut buffer) {
                let datagram = &buffer[..length];
                // The cheap look first: most of what is not ours is somebody else's.
                let ours = datagram.starts_with(&envelope).then_some(datagram);
                let opened = match &self.identity.token {
                    Some(token) => ours.and_then(|datagram| token.opened(datagram)),
                    None => ours,
                };
                match opened.and_then(|datagram| datagram.get(ENVELOPE_BYTES..)) {
                    Some(bytes) => self.feed(Input::<Bytes>::Datagram { from, bytes: bytes.to_vec() }),
                    None if ours.is_some() => {
                        self.complaints.about(from, "a datagram without the token's seal");
                    }
                    None => self.complaints.about(from, "a datagram of something else"),
                }
                taken += 1;
                if taken == DATAGRAMS_PER_TURN_MAX {
                    tokio::task::yield_now().await;
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_told_apart_by_eight_bytes() {
        assert_eq!(envelope("treefold")[..4], MAGIC);
        assert_ne!(envelope("treefold"), envelope("treefolk"));
    }
}
