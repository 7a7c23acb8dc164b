//! Membership as its users see it: clusters on a fake clock and a fake network, in which everything that goes
//! wrong goes wrong again with the same seed.

mod bytes;
mod convergence;
mod faults;
mod garbage;
mod net;
mod totals;
mod view;
