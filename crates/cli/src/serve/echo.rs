//! `echo`: endpoints of streams that send each packet back in the wave of its tag.
//!
//! It serves to try and to measure a network.

use super::Opened;
use super::kind::Offer;
use super::words::Words;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use treefold::endpoint::{Endpoint, EndpointKind, Opening, Outlet, Packet, Took};
use treefold::{CallError, PartitionSet, Service};

/// Name of the service.
pub(crate) const SERVICE: &str = "echo";

pub(super) struct Kind;

impl super::kind::Kind for Kind {
    fn name(&self) -> &'static str {
        SERVICE
    }

    fn form(&self) -> &'static str {
        "echo with partitions, as in echo:partitions=0-3/12"
    }

    fn parse(&self, words: &Words<'_>) -> Result<Arc<dyn Offer>, CallError> {
        words.without_subject()?;
        Ok(Arc::new(Echoes))
    }
}

#[derive(Debug)]
struct Echoes;

impl Offer for Echoes {
    fn name(&self) -> &str {
        SERVICE
    }

    fn open(&self, partitions: &PartitionSet, total: u32) -> Result<Opened, String> {
        Ok(Service::new(SERVICE).total(total).endpoints(partitions.iter(), Self).into())
    }
}

impl EndpointKind for Echoes {
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
