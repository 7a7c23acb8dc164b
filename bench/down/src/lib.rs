//! The parts of `bench-down` that `bench-mirrors` and `bench-gateway` use too: clocks that processes share, schedules of senders, and
//! the processes of a benchmark.

pub mod clock;
pub mod pace;
pub mod part;
