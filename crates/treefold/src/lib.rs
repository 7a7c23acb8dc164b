//! The library users depend on.
