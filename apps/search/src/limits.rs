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

/// Bytes of a file that are read at a time for its checksum. They fit into a processor's cache.
pub const SEAL_READ_BYTES: usize = 256 << 10;

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

/// Longest word, in characters. Longer ones are mostly encoded data, and are not found.
pub const WORD_CHARS_MAX: usize = 40;

/// Most words of a phrase with words between. Each position of each word is compared with all other words.
pub const NEAR_WORDS_MAX: usize = 16;

/// Most documents that a caller may ask for.
pub const K_MAX: u32 = 1000;

/// Default number of documents.
pub const K_DEFAULT: u32 = 10;

/// Longest snippet, in characters.
pub const SNIPPET_CHARS_MAX: u32 = 2000;

/// Default length of a snippet, in characters.
pub const SNIPPET_CHARS_DEFAULT: u32 = 160;

/// Bytes of a document in which the best snippet is searched for at a time. The next ones are searched if these have none of
/// the query's words.
pub const SNIPPET_SCAN_BYTES: usize = 64 << 10;

/// Bytes that a partition searches for the snippets of one call, shared by the k documents that were asked for, but at least
/// [`SNIPPET_SCAN_BYTES`] of each. The limit keeps calls for many large documents within their deadlines.
pub const SNIPPET_CALL_BYTES_MAX: usize = 64 << 20;

/// Most bytes of a document's text that a caller may ask for. By default, longer texts are not indexed.
pub const TEXT_BYTES_MAX: u32 = 1 << 20;

/// Default number of bytes of a document's text.
pub const TEXT_BYTES_DEFAULT: u32 = 64 << 10;

/// Most categories into which documents may be sorted.
pub const CATEGORIES_MAX: usize = 256;

/// Most words of all categories together.
pub const CATEGORY_WORDS_MAX: usize = 4096;
