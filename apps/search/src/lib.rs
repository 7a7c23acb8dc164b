//! Full-text search over a folder of text files, split over partitions: the DAC paper's retrieval service
//! (RET).
//!
//! A folder is surveyed once, each file is given to a partition by a hash of its path, and every partition
//! gets an index of its own on disk. A node opens the partitions it hosts as [`Shard`]s; the aggregations
//! search them and fold what they find. Scores can be made global (first `terms`, then `topk` with its
//! answer), and then the ranking is that of one big index, to the last bit, however the files were split and
//! whatever tree folded it.
//!
//! A map of the code:
//!
//! - [`limits`]: every number that bounds something.
//! - `corpus`: which files there are, which partition each belongs to, and which are text.
//! - [`progress`]: what an indexing run tells of itself, and a bar that shows it.
//! - `schema`: the fields of a document, and how its title is found.
//! - `manifest`: what makes an index on disk whole, current, and used by one writer at a time.
//! - [`indexing`]: survey, reuse or build (`pieces`), publish.
//! - [`shard`]: one partition's index, opened for reading; `read_only` keeps that promise.
//! - [`query`]: a query as text, and why it can't be used.
//! - [`statistics`]: the aggregation `terms`: how often a query's words occur.
//! - [`topk`]: the aggregation `topk`: the best documents, with snippets (`snippet`).
//! - [`document`]: the best documents of a partition with their whole texts: what the next two make partials of.
//! - [`sample`]: the aggregation `sample`: whole texts, of which the folds keep a share, drawn by lot.
//! - [`categorise`]: the aggregation `categorise`: the folds read whole texts and sort them by what they are about.
//! - [`words`]: the aggregation `words`: how often words and phrases occur, as sorted runs ([`run`]).
//! - [`error`]: why an index can't be built or opened.
#![forbid(unsafe_code)]

pub mod categorise;
mod corpus;
pub mod document;
pub mod error;
pub mod indexing;
pub mod limits;
mod manifest;
mod pieces;
pub mod progress;
pub mod query;
mod read_only;
pub mod run;
pub mod sample;
mod schema;
pub mod shard;
mod snippet;
pub mod statistics;
pub mod topk;
pub mod words;

pub use categorise::{Categories, Categorise, CategoriseParams};
pub use corpus::partition_of;
pub use document::Document;
pub use error::IndexError;
pub use indexing::{IndexOptions, Report, Skipped, data_directory, index};
pub use progress::{Bar, Progress, Step};
pub use query::QueryError;
pub use run::Run;
pub use sample::{Sample, SampleParams, Sampled};
pub use shard::Shard;
pub use statistics::{Statistics, Terms, TermsParams};
pub use topk::{Hit, Hits, TopK, TopKParams};
pub use words::{Words, WordsParams};

use std::sync::Arc;
use treefold_operators::{Operator, erase};

/// The name under which a node usually offers these aggregations: `search/topk`, `search/terms`,
/// `search/sample`, `search/categorise`, `search/words`.
pub const SERVICE: &str = "search";

/// The service's aggregations by name. Each partition's data must be a [`Shard`].
pub fn aggregations() -> Vec<(&'static str, Arc<dyn Operator>)> {
    vec![
        ("topk", erase(TopK)),
        ("terms", erase(Terms)),
        ("sample", erase(Sample)),
        ("categorise", erase(Categorise)),
        ("words", erase(Words)),
    ]
}
