//! The parts of `bench-down` that `bench-mirrors` uses too: clocks that processes share, and schedules of senders.

pub mod clock;
pub mod pace;
