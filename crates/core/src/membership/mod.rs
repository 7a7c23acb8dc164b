//! Who is there.

pub mod card;
