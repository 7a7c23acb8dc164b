//! By what a process of this command is recognised: its keys, or the cluster's token.
//!
//! Flags go before the environment. Neither a flag nor a variable may name both.

use crate::exit::Failure;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use treefold::operators::text::unmarked;
use treefold::{CLUSTER_DEFAULT, CallError, ClusterOptions, Credentials, Token};

/// The environment variable with the token.
pub(crate) const TOKEN_VARIABLE: &str = Token::VARIABLE;
/// The environment variable that names the file with a process's keys.
pub(crate) const KEYS_VARIABLE: &str = Credentials::VARIABLE;
/// The environment variable that names a file with the token.
pub(crate) const TOKEN_FILE_VARIABLE: &str = "TREEFOLD_TOKEN_FILE";
/// How much of a file with a token is read: a byte more than the longest token and a line end.
const TOKEN_FILE_BYTES_MAX: u64 = 1_027;

/// By what a process is recognised.
#[derive(Clone, Debug, Default)]
pub(crate) enum Trust {
    /// By nothing.
    #[default]
    Open,
    /// By the cluster's token.
    Token(Token),
    /// By its certificate.
    Keys(Credentials),
}

/// By what a process is recognised, as its flags and its configuration file give it: at most one of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    pub(crate) keys: Option<PathBuf>,
    pub(crate) token: Option<String>,
    pub(crate) token_file: Option<PathBuf>,
}

impl Trust {
    /// Reads what the flags and the configuration file give, or else the environment.
    pub(crate) fn given(given: Given) -> Result<Self, Failure> {
        match given {
            Given { keys: None, token: None, token_file: None } => Self::of_environment(),
            Given { keys: Some(keys), token: None, token_file: None } => Self::of_keys(&keys),
            Given { keys: None, token: Some(token), token_file: None } => Ok(Self::Token(valid(token)?)),
            Given { keys: None, token: None, token_file: Some(path) } => {
                Ok(Self::Token(valid(token_in("token_file", &path)?)?))
            }
            _ => Err(Failure::usage("give keys (--keys) or a token (--token), not both")),
        }
    }

    /// Reads the environment.
    pub(crate) fn of_environment() -> Result<Self, Failure> {
        let keys = std::env::var_os(KEYS_VARIABLE).filter(|path| !path.is_empty());
        match (keys, token_of_environment()?) {
            (Some(_), Some(_)) => Err(Failure::usage(format!(
                "the environment has keys ({KEYS_VARIABLE}) and a token ({TOKEN_VARIABLE} or {TOKEN_FILE_VARIABLE}); \
                 set only one of them"
            ))),
            (Some(keys), None) => Self::of_keys(Path::new(&keys)),
            (None, Some(token)) => Ok(Self::Token(token)),
            (None, None) => Ok(Self::Open),
        }
    }

    fn of_keys(path: &Path) -> Result<Self, Failure> {
        Credentials::load(path).map(Self::Keys).map_err(|error| Failure::failed(error.to_string()))
    }

    /// The options of the cluster with this name. Keys name their cluster, so with them the default name is replaced.
    pub(crate) fn cluster(&self, name: &str) -> Result<ClusterOptions, Failure> {
        let options = ClusterOptions::new(name);
        match self {
            Self::Open => Ok(options),
            Self::Token(token) => Ok(options.token(token.clone())),
            Self::Keys(keys) if name == CLUSTER_DEFAULT || name == keys.cluster() => {
                Ok(options.credentials(keys.clone()))
            }
            Self::Keys(keys) => {
                let limit = format!("{:?}, the cluster that the keys are for", keys.cluster());
                Err(Failure::Rejected(CallError::bad_field("cluster", name, limit)))
            }
        }
    }

    /// The token, if there is one.
    pub(crate) fn token(&self) -> Option<Token> {
        match self {
            Self::Token(token) => Some(token.clone()),
            Self::Open | Self::Keys(_) => None,
        }
    }
}

/// The options of the cluster with this name, with the keys or the token of the environment.
pub(crate) fn cluster_of_environment(name: &str) -> Result<ClusterOptions, Failure> {
    Trust::of_environment()?.cluster(name)
}

/// Returns the token in the environment, or else the one in the file that the environment names.
fn token_of_environment() -> Result<Option<Token>, Failure> {
    let text = match std::env::var(TOKEN_VARIABLE) {
        Ok(text) => Some(text),
        Err(_) => std::env::var_os(TOKEN_FILE_VARIABLE)
            .map(|path| token_in(TOKEN_FILE_VARIABLE, Path::new(&path)))
            .transpose()?,
    };
    text.map(valid).transpose()
}

/// The token of this text, if it can be one.
pub(crate) fn valid(text: String) -> Result<Token, Failure> {
    Token::new(text).ok_or_else(|| {
        let limit = "1 to 1024 bytes, on one line";
        Failure::Rejected(CallError::bad_field("token", "an invalid text", limit))
    })
}

/// Reads a file with a token that this setting names. The last line may end.
fn token_in(setting: &str, path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(unmarked(&text).trim_end_matches(['\r', '\n']).to_owned()),
        Err(error) => Err(Failure::failed(format!("{setting}: can't read {}: {error}", path.display()))),
    }
}
