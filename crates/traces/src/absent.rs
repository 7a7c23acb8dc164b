//! The exporter of a build without one.

use crate::call::{EndedCall, Side};
use crate::settings::TraceSettings;
use crate::traces::{Counts, StartError};
use std::sync::Arc;
use std::time::Duration;
use treefold::Client;

/// There is none.
#[derive(Debug)]
pub(crate) enum Exporter {}

impl Exporter {
    #[allow(clippy::needless_pass_by_value, reason = "as the exporter of other builds")]
    pub(crate) fn start(_: &TraceSettings, _: Side, _: Client, _: Arc<Counts>) -> Result<Self, StartError> {
        Err(StartError::Absent)
    }

    #[allow(clippy::needless_pass_by_value, reason = "as the exporter of other builds")]
    pub(crate) fn take(&self, _: EndedCall) {
        match *self {}
    }

    #[allow(clippy::unused_async, reason = "as the exporter of other builds")]
    pub(crate) async fn finish(&self, _: Duration) {
        match *self {}
    }
}
