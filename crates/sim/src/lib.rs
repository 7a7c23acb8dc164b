//! The same core as in production, on modelled time, network and processors.
//!
//! # A map of the code
//!
//! - [`world`]: nodes, links, processors and a clock; the second driver of core.
//! - [`experiment`]: the papers' experiments on it, and what they yield.
//! - [`flow`]: a data centre as flows that share its links, where no node is simulated.
//! - [`plot`]: points as pictures. [`evaluation`]: both as a part of a page, the paper's figure beside ours.
//! - [`explore`]: worlds that are broken at random, and what must hold all the same.
#![forbid(unsafe_code)]

pub mod evaluation;
pub mod experiment;
pub mod explore;
pub mod flow;
pub mod plot;
pub mod world;
