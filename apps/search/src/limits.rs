//! Every number that bounds something, in one place.

/// Files larger than this are skipped unless [`IndexOptions::file_bytes_max`](crate::IndexOptions) says
/// otherwise: beyond a mebibyte a text is mostly generated, and one document would drown its partition.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// How much of a file's beginning must be text for the file to count as text.
pub const TEXT_PROBE_BYTES: usize = 8 << 10;

/// How much text one indexing worker gathers in memory before it writes a piece of an index.
///
/// A worker's memory is about as much again. A partition that fits into one piece needs no merging.
pub const PIECE_BYTES_MAX: u64 = 64 << 20;

/// The most partitions a folder is split into.
pub const PARTITIONS_MAX: u32 = 4096;

/// How long a title may be, in characters.
pub const TITLE_CHARS_MAX: usize = 120;

/// In how many lines from the top a title is looked for.
pub const TITLE_LINES_MAX: usize = 100;

/// How long a query may be, in bytes.
pub const QUERY_BYTES_MAX: usize = 1024;

/// How deeply a query's parentheses may nest: the parser's time doubles with each level.
pub const QUERY_DEPTH_MAX: usize = 8;

/// How many documents a caller may ask for.
pub const K_MAX: u32 = 1000;

/// How many documents a caller gets who doesn't say.
pub const K_DEFAULT: u32 = 10;

/// How long a snippet may be, in characters.
pub const SNIPPET_CHARS_MAX: u32 = 2000;

/// How long a snippet is for a caller who doesn't say, in characters.
pub const SNIPPET_CHARS_DEFAULT: u32 = 160;

/// How much of a document's beginning is searched for the best snippet, so that a call for many large
/// documents doesn't spend its deadline on them.
pub const SNIPPET_SCAN_BYTES_MAX: usize = 64 << 10;

/// How many bytes of a document's text a caller may ask for; longer texts are not indexed unless told otherwise.
pub const TEXT_BYTES_MAX: u32 = 1 << 20;

/// How many bytes of a document's text a caller gets who doesn't say.
pub const TEXT_BYTES_DEFAULT: u32 = 64 << 10;

/// How many categories documents may be sorted into.
pub const CATEGORIES_MAX: usize = 256;

/// How many words all categories may have together.
pub const CATEGORY_WORDS_MAX: usize = 4096;
