//! The same core as in production, on modelled time, network and processors.
#![forbid(unsafe_code)]

pub mod experiment;
