//! Full-text search over a folder of text files, split over partitions: the DAC paper's retrieval service
//! (RET).
//!
//! A folder is surveyed once, a hash of its path assigns each file to a partition, and every partition gets
//! its own index on disk. A node opens its partitions as [`Shard`]s. The aggregations search them and fold
//! the results. Scores can be made global (first `terms`, then `topk` with its answer). Then the ranking
//! equals that of one big index to the last bit, for every split of the files and every tree.
//!
//! A map of the code:
//!
//! - [`limits`]: all limits.
//! - `corpus`: lists the files, assigns each to a partition, and decides which are text.
//! - [`progress`]: an indexing run's progress reports, and a bar that shows them.
//! - `schema`: the fields of a document, and how its title is found.
//! - `tokens`: how texts and queries are cut into words, and when two words are the same.
//! - `manifest`: keeps an index on disk complete, current, and used by one writer at a time.
//! - [`indexing`]: survey, reuse or build (`pieces`), publish.
//! - [`shard`]: one partition's index, opened for reading; `read_only` makes sure that nothing is written.
//! - [`query`]: parses queries, and explains why a query is refused; `near` matches phrases with words between.
//! - [`statistics`]: the aggregation `terms`: how often a query's words occur.
//! - [`topk`]: the aggregation `topk`: the best documents, with snippets (`snippet`).
//! - [`document`]: a partition's best documents with their whole texts, for the next two aggregations.
//! - [`sample`]: the aggregation `sample`: whole texts, of which the folds keep a random share.
//! - [`categorise`]: the aggregation `categorise`: the folds read whole texts and sort them by category.
//! - [`words`]: the aggregation `words`: how often words and phrases occur, as sorted runs ([`run`]).
//! - [`error`]: errors of building and opening an index.
#![forbid(unsafe_code)]

pub mod categorise;
mod corpus;
pub mod document;
pub mod error;
pub mod indexing;
pub mod limits;
mod manifest;
mod near;
mod pieces;
pub mod progress;
mod published;
pub mod query;
mod read_only;
pub mod run;
pub mod sample;
mod schema;
pub mod shard;
mod snippet;
pub mod statistics;
mod tokens;
pub mod topk;
pub mod words;

pub use categorise::{Categories, Categorise, CategoriseParams};
pub use corpus::partition_of;
pub use document::Document;
pub use error::IndexError;
pub use indexing::{IndexOptions, Report, Skipped, data_directory, index};
pub use progress::{Bar, Progress, Step};
pub use published::Published;
pub use query::QueryError;
pub use run::Run;
pub use sample::{Sample, SampleParams, Sampled};
pub use shard::Shard;
pub use statistics::{Statistics, Terms, TermsParams};
pub use topk::{Hit, Hits, TopK, TopKParams};
pub use words::{Words, WordsParams};

use std::sync::Arc;
use treefold_operators::{Operator, erase};

/// The conventional name of the service: its aggregations are then `search/topk`, `search/terms`,
/// `search/sample`, `search/categorise` and `search/words`.
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
