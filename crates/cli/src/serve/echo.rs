//! The service `echo`: endpoints of streams that send each packet back in the wave of its tag.
//!
//! It serves to try and to measure a network.

use bytes::Bytes;
use std::collections::VecDeque;
use treefold::endpoint::{Endpoint, EndpointKind, Opening, Outlet, Packet, Took};

/// Name of the service.
pub(crate) const SERVICE: &str = "echo";

/// Makes the endpoints.
pub(crate) struct Kind;

impl EndpointKind for Kind {
    fn open(&self, _: &Opening) -> Box<dyn Endpoint> {
        Box::new(Echo(VecDeque::new()))
    }
}

/// Packets that wait for room on their way back.
///
/// The front-end's window bounds them.
struct Echo(VecDeque<(u64, Bytes)>);

impl Endpoint for Echo {
    fn packet(&mut self, outlet: &mut Outlet<'_>, packet: Packet) -> Took {
        self.0.push_back((packet.tag, packet.payload));
        self.room(outlet);
        Took::Now
    }

    fn room(&mut self, outlet: &mut Outlet<'_>) {
        while let Some((tag, payload)) = self.0.pop_front() {
            if let Err(payload) = outlet.send_tagged(tag, payload) {
                return self.0.push_front((tag, payload));
            }
        }
    }
}
