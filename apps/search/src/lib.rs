//! Treefold's search service.
