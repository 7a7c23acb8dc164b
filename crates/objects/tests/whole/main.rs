//! Copies from a real server that speaks S3, over real connections.

mod copies;
mod hostile;
mod store;
