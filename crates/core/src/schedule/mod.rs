//! Which job runs next.

pub mod fair;
pub(crate) mod lanes;
pub(crate) mod queue;
pub(crate) mod retry_budget;
pub mod share;
