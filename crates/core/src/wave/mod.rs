//! Waves: one set of partials, folded into one on its way up.

pub(crate) mod answered;
pub(crate) mod ask;
pub(crate) mod contributors;
pub(crate) mod credit;
pub(crate) mod keep;
pub(crate) mod losses;
pub(crate) mod open;
pub mod slice;
pub(crate) mod state;
pub(crate) mod table;
pub(crate) mod tale;
pub(crate) mod times;
pub(crate) mod tries;
pub mod wait;
