//! All limits, in one place.

/// Most dimensions of a vector.
pub const DIMENSIONS_MAX: usize = 8_192;

/// Most rows of one partition. Links of a graph are 32 bits wide.
pub const ROWS_MAX: usize = 1 << 30;

/// Default bound of the memory of a node's partitions, in bytes: vectors, graphs and attributes.
pub const MEMORY_BYTES_MAX: u64 = 16 << 30;

/// Longest header of a `.npy` file, in bytes.
pub const NPY_HEADER_BYTES_MAX: usize = 64 << 10;

/// Most partitions of a file.
pub const PARTITIONS_MAX: u32 = 4_096;

/// Neighbours of a call that gives no `k`.
pub const K_DEFAULT: u32 = 10;
/// Most neighbours of a call.
pub const K_MAX: u32 = 1_000;

/// Breadth of a search in a graph, if the call gives no `ef`.
pub const EF_DEFAULT: u32 = 64;
/// Greatest breadth of a search in a graph.
pub const EF_MAX: u32 = 10_000;

/// Most attributes of a vector: columns of a CSV file, names of a line of JSON.
pub const ATTRIBUTES_MAX: usize = 64;
/// Longest value of an attribute, and longest id, in bytes.
pub const VALUE_BYTES_MAX: usize = 1_024;
/// Longest line of a file of attributes, in bytes.
pub const LINE_BYTES_MAX: usize = 128 << 10;

/// Most attributes that a filter names.
pub const FILTER_ATTRIBUTES_MAX: usize = 16;
/// Most values that a filter allows for one attribute.
pub const FILTER_VALUES_MAX: usize = 1_000;

/// Most vectors that one call of `get` returns.
pub const IDS_MAX: usize = 100;

/// Rows that a scan compares before it asks whether its result is still wanted.
pub const ROWS_PER_CHECK: usize = 1_024;

/// Share of a partition's rows up to which a filtered search compares all matching rows instead of walking the graph.
/// A walk that few rows match visits most of the graph.
pub const SCAN_SHARE: usize = 8;

/// Most pixels of an image file.
pub const PIXELS_MAX: usize = 16 << 20;
/// Longest image in a call, in bytes.
pub const IMAGE_BYTES_MAX: usize = 4 << 20;
/// Most pixels of a face after scaling.
pub const FACE_PIXELS_MAX: usize = 256 * 256;
/// Most images that a model is trained on. Its time grows with their third power.
pub const TRAINING_IMAGES_MAX: usize = 2_000;
/// Most eigenfaces of a model.
pub const COMPONENTS_MAX: usize = 512;
/// Largest file of a model, in bytes.
pub const MODEL_BYTES_MAX: u64 = 256 << 20;
/// Most files below a folder of faces.
pub const GALLERY_FILES_MAX: usize = 10_000_000;
