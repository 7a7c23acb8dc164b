//! The place of [`stored`](super) in a build without the feature `full`: folders in object stores are refused.

use super::kind::Offer;
use super::words::Words;
use std::sync::Arc;
use treefold::CallError;

pub(super) fn search(words: &Words<'_>, _: &str) -> Result<Arc<dyn Offer>, CallError> {
    Err(words.refuse("object stores in a whole build only, as `make release` makes it"))
}
