//! Waves: one set of partials, folded into one on its way up.

pub(crate) mod contributors;
pub(crate) mod credit;
pub(crate) mod keep;
pub mod slice;
pub(crate) mod state;
pub(crate) mod table;
pub(crate) mod times;
pub mod wait;
