//! This process's post in the network.

use super::Attached;
use crate::exit::Failure;
use treefold::{CallError, Node, Token};
use treefold_network::launch::command::tie_to_parent;
use treefold_network::launch::{Ending, Post, PostError};

/// Ties this process to its parent process if that one wants it.
pub(in super::super) fn tie() -> Result<(), Failure> {
    tie_to_parent()
        .map_err(|error| Failure::failed(format!("the process that started this one has ended: {error}")))
}

impl Attached {
    /// Takes part in the network.
    ///
    /// Returns true when the network has ended, and false when this process was stopped.
    pub(in super::super) async fn live(
        &self,
        node: &Node,
        token: Option<Token>,
        stop: impl Future<Output = ()>,
    ) -> Result<bool, Failure> {
        let post = Post::new(&self.addr, &self.place).token(token).patience(self.patience);
        match post.run(node, stop).await {
            Ok(Ending::Ended) => Ok(true),
            Ok(Ending::Orphaned) => {
                Err(Failure::unreachable("the network's front-end can't be reached any more"))
            }
            Ok(Ending::Stopped) => Ok(false),
            Err(error) => Err(failure_of(&error)),
        }
    }
}

fn failure_of(error: &PostError) -> Failure {
    match error {
        PostError::Unreachable { .. } | PostError::Closed => Failure::unreachable(error.to_string()),
        PostError::Token { .. } => Failure::Rejected(CallError::bad_field(
            "token",
            "a different one",
            format_args!("the network's token: {error}"),
        )),
        _ => Failure::failed(error.to_string()),
    }
}
