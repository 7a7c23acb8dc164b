//! The checks that a front makes on an announcement before it forms a tree.

use crate::call::CallOptions;
use crate::call::repair::service_of;
use crate::call::table::Calls;
use crate::error::CallError;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use alloc::format;
use alloc::vec::Vec;

impl<P: Payload> Calls<P> {
    /// Checks a call to an application. Returns the expected workers.
    pub(crate) fn check_announcement(
        &self,
        cx: &Context<P>,
        name: &str,
        service: &str,
        options: &CallOptions,
    ) -> Result<PartitionSet, CallError> {
        if !cx.config.pushed.contains(service) {
            let accepted: Vec<&str> = cx.config.pushed.iter().map(|name| &**name).collect();
            let limit = format!("an application that this node accepts ({})", accepted.join(", "));
            return Err(CallError::bad_field("push", service, limit));
        }
        let Some(announced) = options.push else {
            return Err(CallError::bad_field("push", "not set", "an announcement, because its workers push"));
        };
        if cx.kind_of(name).is_none() {
            return Err(CallError::bad_field(
                "name",
                name,
                "an aggregation that this node has, or a reduce that was sent to it, because it folds",
            ));
        }
        if options.hedge {
            return Err(CallError::bad_field("hedge", true, "false in an announced call"));
        }
        if options.slices != 1 {
            return Err(CallError::bad_field("slices", options.slices, "1 in an announced call"));
        }
        let partitions_max = cx.config.limits.partitions_max;
        let Some(expected) = &options.partitions else {
            return Err(CallError::bad_field(
                "partitions",
                "all",
                "the workers that are expected, by number",
            ));
        };
        if !expected.is_subset(&PartitionSet::first(partitions_max)) {
            let limit = format!("0-{} (partitions_max)", partitions_max - 1);
            return Err(CallError::bad_field("partitions", expected, limit));
        }
        let is_same = |other: &crate::call::caller::OpenCall<P>| {
            service_of(&other.name) == service
                && other.options.push.is_some_and(|other| other.request == announced.request)
        };
        if self.open.values().any(is_same) {
            let limit = "a request that is not open already";
            return Err(CallError::bad_field("push.request", announced.request, limit));
        }
        Ok(expected.clone())
    }
}
