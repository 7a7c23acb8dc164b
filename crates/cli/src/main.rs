//! The treefold command.
fn main() {}
