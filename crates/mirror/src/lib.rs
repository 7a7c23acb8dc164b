//! Mirrors.
#![forbid(unsafe_code)]
pub mod batch;
pub mod event;
pub mod fields;
pub mod limits;
pub mod rules;
pub mod vector;
