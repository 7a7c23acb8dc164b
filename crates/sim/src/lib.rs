//! Runs the production core on modelled time, network and processors.
//!
//! # A map of the code
//!
//! - [`world`]: nodes, links, processors and a clock. It is the second driver of core.
//! - [`experiment`]: the papers' experiments in this world, and their points.
//! - [`flow`]: a data centre as flows that share its links. It simulates no nodes.
//! - [`plot`]: draws points as pictures. [`evaluation`]: writes points and pictures into a page, beside the
//!   paper's figures.
//! - [`explore`]: worlds with random faults, and the invariants that must hold in them.
#![forbid(unsafe_code)]

pub mod evaluation;
pub mod experiment;
pub mod explore;
pub mod flow;
pub mod plot;
pub mod world;
