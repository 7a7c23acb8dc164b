//! Windows are kept. The unsettled bytes that a node or an endpoint has sent up a stream stay within its
//! window, except for the last packet. The bytes that a node holds for others stay within the others'
//! windows.

use super::Finding;
use crate::world::World;
use treefold_core::stream::PACKET_BYTES;

/// Checks the node at `at`. Packets sent to it have at most `packet_bytes` bytes.
pub fn touched(world: &World, at: usize, packet_bytes: usize) -> Finding {
    let place = world.place(at);
    let window_max = place.spec().limits.stream_window_bytes;
    for work in place.node().stream_work() {
        let within = |name: &str, value: usize, most: usize| {
            if value <= most { Ok(()) } else { Err(format!("{name}: {value}, at most {most}: {work:?}")) }
        };
        within("bytes in flight", work.unsettled_bytes, work.window_bytes + packet_bytes)?;
        let own = place.spec().partitions.len();
        // An evicted child may have left a window of bytes here, which go up with their waves.
        let sources = work.children + own + 1 + world.places();
        within("bytes held", work.held_bytes, sources * (window_max + packet_bytes))?;
    }
    Ok(())
}

/// Checks all endpoints.
pub fn of_seats(world: &World) -> Finding {
    for (key, seat) in world.seats().filter(|(_, seat)| !seat.is_over) {
        let packet = u64::from(world.packet_bytes(seat.play)) + PACKET_BYTES as u64;
        if seat.in_flight_bytes > seat.window_bytes + packet {
            return Err(format!(
                "{key:?} has {} bytes in flight, of {}",
                seat.in_flight_bytes, seat.window_bytes
            ));
        }
    }
    Ok(())
}
