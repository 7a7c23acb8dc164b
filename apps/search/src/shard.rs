//! One partition's index, opened for reading.
//!
//! A shard reads memory-mapped files that never change, so any number of replicas, in one process or in
//! several, can open the same directory and share its pages. If the folder is indexed again, a shard keeps
//! serving the index that it was opened on. Open it again for the new index.
//!
//! Invariant: a partition has at most one segment, with its documents in path order. So a document's number
//! is the same in every replica, and equal scores are returned in path order.

use crate::error::IndexError;
use crate::manifest::{Manifest, check_seal};
use crate::read_only::ReadOnly;
use crate::schema::{Fields, TITLE_BOOST, schema};
use crate::tokens;
use crate::words::Kept;
use std::path::Path;
use tantivy::query::QueryParser;
use tantivy::schema::Value;
use tantivy::tokenizer::TextAnalyzer;
use tantivy::{DocAddress, Index, ReloadPolicy, Searcher, TantivyDocument};

/// One partition's index: the data of a partition of this service.
pub struct Shard {
    pub(crate) searcher: Searcher,
    pub(crate) parser: QueryParser,
    pub(crate) tokenizer: TextAnalyzer,
    pub(crate) fields: Fields,
    /// The last word count, for the next call with the same parameters.
    pub(crate) kept: Kept,
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shard").field("documents", &self.documents()).finish_non_exhaustive()
    }
}

impl Shard {
    /// Opens partition `partition` of the `total` that [`index`](crate::index) wrote into `directory`.
    ///
    /// # Errors
    /// [`IndexError::Unfinished`] if there is no complete index, [`IndexError::OtherVersion`] if another version
    /// wrote it, [`IndexError::OtherSplit`] if it has another number of partitions; [`IndexError::Damaged`],
    /// [`IndexError::Library`] or [`IndexError::DataDirectory`] if it cannot be read.
    pub fn open(directory: impl AsRef<Path>, partition: u32, total: u32) -> Result<Self, IndexError> {
        let directory = directory.as_ref();
        let mut manifest = Manifest::read(directory)?;
        loop {
            let unfinished = || IndexError::Unfinished { directory: directory.to_owned() };
            let current = manifest.ok_or_else(unfinished)?;
            if current.partitions != total || partition >= total {
                let (directory, found) = (directory.to_owned(), current.partitions);
                return Err(IndexError::OtherSplit { directory, partition, total, found });
            }
            let opened = Self::open_at(&current.partition_directory(directory, partition));
            // Another process may have published a new generation and removed this one in the meantime.
            manifest = Manifest::read(directory)?;
            if opened.is_ok() || manifest.as_ref() == Some(&current) {
                return opened;
            }
        }
    }

    /// Opens the index in exactly this directory.
    pub(crate) fn open_at(directory: &Path) -> Result<Self, IndexError> {
        check_seal(directory)?;
        let open = || -> tantivy::Result<Self> {
            let mut index = Index::open(ReadOnly::open(directory)?)?;
            index.set_tokenizers(tokens::tokenizers());
            let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
            let (expected, fields) = schema();
            if index.schema() != expected || reader.searcher().segment_readers().len() > 1 {
                return Err(tantivy::TantivyError::SchemaError("another version's index".into()));
            }
            let mut parser = QueryParser::for_index(&index, fields.all().to_vec());
            parser.set_field_boost(fields.title, TITLE_BOOST);
            let tokenizer = index.tokenizer_for_field(fields.body)?;
            Ok(Self { searcher: reader.searcher(), parser, tokenizer, fields, kept: Kept::default() })
        };
        open().map_err(IndexError::reading(directory))
    }

    /// Number of documents in the partition.
    pub fn documents(&self) -> u64 {
        self.searcher.num_docs()
    }

    /// A document's path, title and body.
    pub(crate) fn stored(&self, address: DocAddress) -> tantivy::Result<[String; 3]> {
        let document: TantivyDocument = self.searcher.doc(address)?;
        let text =
            |field| document.get_first(field).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
        Ok([text(self.fields.path), text(self.fields.title), text(self.fields.body)])
    }
}
