//! Tests of membership as its users see it: clusters on a fake clock and a fake network. A seed reproduces
//! every failure.

mod bytes;
mod carriers;
mod convergence;
mod faults;
mod garbage;
mod joins;
mod net;
mod round_trips;
mod totals;
mod view;
