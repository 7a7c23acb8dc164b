//! `micro`: emulated work. Its partitions are also endpoints of streams ([`pulse`](super::pulse)).

use super::kind::Offer;
use super::pulse::{Part, Pulse};
use super::words::Words;
use super::{Opened, with_operators};
use bytes::Bytes;
use std::sync::Arc;
use treefold::{Body, CallError, Operator, PartitionSet, Service};
use treefold_micro::SERVICE;

pub(super) struct Kind;

impl super::kind::Kind for Kind {
    fn name(&self) -> &'static str {
        SERVICE
    }

    fn keys(&self) -> &'static [&'static str] {
        &["name"]
    }

    fn form(&self) -> &'static str {
        "micro with partitions, as in micro:partitions=0,8/16, and optionally a name, as in \
         micro:partitions=0/1:name=batch"
    }

    fn parse(&self, words: &Words<'_>) -> Result<Arc<dyn Offer>, CallError> {
        words.without_subject()?;
        Ok(Arc::new(Micro(words.service_name()?.unwrap_or_else(|| SERVICE.to_owned()))))
    }

    fn operators(&self) -> Vec<(&'static str, Arc<dyn Operator>)> {
        treefold_micro::aggregations()
    }

    fn check_endpoint_params(&self, params: &Bytes) -> Result<(), String> {
        if params.is_empty() {
            return Ok(());
        }
        let part = Part::decode(params).map(drop);
        part.map_err(|_| "a part is \"echo\", \"tick\" or \"witness\"".to_owned())
    }
}

/// Emulated work under this name.
#[derive(Debug)]
struct Micro(String);

impl Micro {
    fn empty(&self, total: u32) -> Service {
        with_operators(Service::new(self.0.as_str()), SERVICE, treefold_micro::aggregations()).total(total)
    }
}

impl Offer for Micro {
    fn name(&self) -> &str {
        &self.0
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn open(&self, partitions: &PartitionSet, total: u32) -> Result<Opened, String> {
        Ok(self.empty(total).endpoints(partitions.iter(), Pulse).into())
    }

    fn open_placed(&self, total: u32, replicas: u32) -> Result<Option<Service>, String> {
        Ok(Some(self.empty(total).placed(replicas, |_| Ok::<(), String>(()))))
    }
}
