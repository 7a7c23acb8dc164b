//! Datagrams: gossip and polls, which are small and frequent and may get lost.
//!
//! Core's bytes follow an envelope of eight bytes: three of magic, one of version, and four of a hash over
//! the cluster's name. The envelope keeps datagrams of port scanners, other programs and other clusters away
//! from core's decoders at the cost of one comparison. It does not protect against an attacker. In a cluster
//! with a token, a datagram ends with a seal over all preceding bytes, and a datagram without a valid seal is
//! dropped.

use super::Loop;
use crate::wire::DATAGRAM_SEAL_BYTES;
use bytes::Bytes;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use treefold_core::input::Input;

/// First bytes of the envelope; the last one is its version.
const MAGIC: [u8; 4] = *b"tfd\x01";
/// Bytes of the envelope.
const ENVELOPE_BYTES: usize = 8;
/// The longest possible datagram.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Datagrams taken before other tasks of the loop run.
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
    /// Sends a datagram, or drops it if the system has no room for it.
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

    /// The task that receives datagrams.
    pub(super) async fn take_datagrams(self: Rc<Self>) {
        let envelope = envelope(&self.identity.cluster);
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            if let Err(error) = self.datagrams.readable().await {
                tracing::error!(%error, "no more datagrams can be received");
                return;
            }
            let mut taken = 0;
            // Errors reported here concern earlier sent datagrams, which may get lost.
            while let Ok((length, from)) = self.datagrams.try_recv_from(&mut buffer) {
                let datagram = &buffer[..length];
                // The envelope is compared first because that is cheap and rejects most foreign datagrams.
                let ours = datagram.starts_with(&envelope).then_some(datagram);
                let opened = match &self.identity.token {
                    Some(token) => ours.and_then(|datagram| token.opened(datagram)),
                    None => ours,
                };
                match opened.and_then(|datagram| datagram.get(ENVELOPE_BYTES..)) {
                    Some(bytes) => self.feed(Input::<Bytes>::Datagram { from, bytes: bytes.to_vec() }),
                    None if ours.is_some() => {
                        self.complaints.about(from, "a datagram without a valid seal of the cluster's token");
                    }
                    None => self.complaints.about(from, "a datagram of another program or cluster"),
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
    fn envelopes_distinguish_clusters() {
        assert_eq!(envelope("treefold")[..4], MAGIC);
        assert_ne!(envelope("treefold"), envelope("treefolk"));
    }
}
