//! All limits, in one place.

/// Default size above which files are skipped ([`IndexOptions::file_bytes_max`](crate::IndexOptions)).
/// Texts above a mebibyte are mostly generated, and one such document would dominate its partition.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Bytes at the beginning of a file that must be text, or the file does not count as text.
pub const TEXT_PROBE_BYTES: usize = 8 << 10;

/// Bytes of text that one indexing thread gathers in memory before it writes a piece of an index.
///
/// The thread needs about twice this memory. A partition that fits into one piece needs no merging.
pub const PIECE_BYTES_MAX: u64 = 64 << 20;

/// Most partitions of a folder.
pub const PARTITIONS_MAX: u32 = 4096;

/// Longest title, in characters.
pub const TITLE_CHARS_MAX: usize = 120;

/// Lines from the top in which a title is searched for.
pub const TITLE_LINES_MAX: usize = 100;

/// Longest query, in bytes.
pub const QUERY_BYTES_MAX: usize = 1024;

/// Deepest nesting of a query's parentheses. The parser's time doubles with each level.
pub const QUERY_DEPTH_MAX: usize = 8;

/// Most documents that a caller may ask for.
pub const K_MAX: u32 = 1000;

/// Default number of documents.
pub const K_DEFAULT: u32 = 10;

/// Longest snippet, in characters.
pub const SNIPPET_CHARS_MAX: u32 = 2000;

/// Default length of a snippet, in characters.
pub const SNIPPET_CHARS_DEFAULT: u32 = 160;

/// Bytes at the beginning of a document that are searched for the best snippet. The limit keeps calls for
/// many large documents within their deadlines.
pub const SNIPPET_SCAN_BYTES_MAX: usize = 64 << 10;

/// Most bytes of a document's text that a caller may ask for. By default, longer texts are not indexed.
pub const TEXT_BYTES_MAX: u32 = 1 << 20;

/// Default number of bytes of a document's text.
pub const TEXT_BYTES_DEFAULT: u32 = 64 << 10;

/// Most categories into which documents may be sorted.
pub const CATEGORIES_MAX: usize = 256;

/// Most words of all categories together.
pub const CATEGORY_WORDS_MAX: usize = 4096;
