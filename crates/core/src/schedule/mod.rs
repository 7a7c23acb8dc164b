//! Which job runs next.

pub(crate) mod queue;
pub(crate) mod retry_budget;
