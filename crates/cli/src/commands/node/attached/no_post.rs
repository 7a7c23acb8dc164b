//! The place of [`post`](super) in a build without the feature `full`: it takes part in no network.

use super::Attached;
use crate::exit::Failure;
use treefold::{Node, Token};

/// Refuses to attach.
pub(in super::super) fn tie() -> Result<(), Failure> {
    Err(Failure::usage("this build attaches to no network; `make release` builds it with everything"))
}

impl Attached {
    /// Never called, because [`tie`] refuses.
    pub(in super::super) async fn live(
        &self,
        _: &Node,
        _: Option<Token>,
        _: impl Future<Output = ()>,
    ) -> Result<bool, Failure> {
        tie().map(|()| false)
    }
}
