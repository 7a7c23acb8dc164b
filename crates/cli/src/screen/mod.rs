//! The parts that all commands share which take the terminal over.
//!
//! - [`terminal`]: takes the terminal over, and restores it in every case.
//! - [`keys`]: the keys of a command, their line at the foot, and the help.
//! - [`palette`]: styles, with or without colours.

pub(crate) mod keys;
mod palette;
mod terminal;

pub(crate) use palette::Palette;
pub(crate) use terminal::Screen;
