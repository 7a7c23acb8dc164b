//! Shares: how the services of a node divide its processors ([`Client::shares`](crate::Client::shares)).

pub use treefold_core::schedule::fair::{SHARE_MAX, SHARE_MIN};
pub use treefold_core::schedule::share::{Class, ServiceAccount, ServiceShare, ShareSetting, SharesReport};
