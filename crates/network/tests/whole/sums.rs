//! A round trip over a stream whose endpoints answer with numbers, which are added up.

use bytes::Bytes;
use treefold::operators::packet::Packet;
use treefold::{PartitionSet, Stream};

/// A broadcast, the sum that answers it, and who is in it.
pub async fn sum_of(stream: &mut Stream) -> (i64, PartitionSet) {
    stream.send(Bytes::new()).await.expect("it is open");
    let wave = stream.wave().await.expect("it is open");
    let sum = wave.packets.first().map_or(0, |packet| Packet::read(packet).unwrap().i64(0).unwrap());
    (sum, wave.contributors)
}
