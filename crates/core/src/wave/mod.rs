//! Waves: one set of partials, folded into one on its way up.

pub mod wait;
