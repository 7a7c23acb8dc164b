//! Readers over HTTP, by hand-written requests.
