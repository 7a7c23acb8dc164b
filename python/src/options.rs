//! The options that clients and nodes share: the cluster, and by what its processes recognise each other.

use crate::error::raise;
use pyo3::prelude::*;
use std::path::PathBuf;
use treefold::{ClusterOptions, Credentials, Token};

/// A cluster's name and secrets, as the package's Python part has gathered them from parameters and environment.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Secrets {
    cluster: Option<String>,
    token: Option<String>,
    keys: Option<PathBuf>,
    insecure: bool,
}

/// The token with this text.
///
/// # Errors
/// If no token has it.
pub(crate) fn token_of(text: String) -> PyResult<Token> {
    Token::new(text).ok_or_else(|| raise("InvalidOption", "the token must be 1 to 1024 bytes, on one line"))
}

impl Secrets {
    /// The library's options.
    ///
    /// # Errors
    /// If the token is not valid, the keys cannot be used, or they are of another cluster.
    pub(crate) fn options(self) -> PyResult<ClusterOptions> {
        let mut options = self.cluster.clone().map_or_else(ClusterOptions::default, ClusterOptions::new);
        if let Some(token) = self.token {
            options = options.token(token_of(token)?);
        }
        if let Some(path) = self.keys {
            let keys = Credentials::load(path).map_err(|error| raise("InvalidOption", error.to_string()))?;
            if let Some(cluster) = self.cluster.filter(|cluster| *cluster != keys.cluster()) {
                let own = keys.cluster();
                return Err(raise(
                    "InvalidOption",
                    format!("cluster is {cluster:?}, but the keys are for {own:?}"),
                ));
            }
            options = options.credentials(keys);
        }
        Ok(options.insecure(self.insecure))
    }
}
