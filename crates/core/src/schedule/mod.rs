//! The order in which jobs run.

pub(crate) mod accounts;
pub mod fair;
pub(crate) mod queue;
pub(crate) mod retry_budget;
pub mod share;
