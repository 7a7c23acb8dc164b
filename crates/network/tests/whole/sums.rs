//! A round trip over a stream: endpoints answer with numbers, and the tree adds them up.

use bytes::Bytes;
use treefold::operators::packet::Packet;
use treefold::{PartitionSet, Stream};

/// Broadcasts a packet; returns the sum of the answers and the endpoints in it.
pub async fn sum_of(stream: &mut Stream) -> (i64, PartitionSet) {
    stream.send(Bytes::new()).await.expect("it is open");
    let wave = stream.wave().await.expect("it is open");
    let sum = wave.packets.first().map_or(0, |packet| Packet::read(packet).unwrap().i64(0).unwrap());
    (sum, wave.contributors)
}
