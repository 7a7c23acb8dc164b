//! The options that nodes, clients, workers and attached programs of one cluster share.

use crate::credentials::Credentials;
use crate::node::CLUSTER_DEFAULT;
use crate::wire::Token;
use treefold_core::limits::Limits;

/// A cluster's name, by what its processes recognise each other, and the limits of the side that connects.
///
/// A name alone is enough where the cluster has no token:
///
/// ```
/// use treefold::{ClusterOptions, Limits, Node, Token};
///
/// let staging = Node::builder().cluster("staging");
/// let secret = ClusterOptions::new("prod").token(Token::new("a secret")).limits(Limits::DEFAULT);
/// let prod = Node::builder().cluster(secret);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ClusterOptions {
    pub(crate) name: String,
    pub(crate) trust: Trust,
    pub(crate) insecure: bool,
    pub(crate) limits: Limits,
}

/// By what the processes of a cluster recognise each other.
#[derive(Clone, Debug, Default)]
pub(crate) enum Trust {
    /// By nothing: every process is accepted.
    #[default]
    Open,
    /// By the cluster's token.
    Token(Token),
    /// By certificates of the cluster's authority.
    Certificates(Credentials),
}

impl ClusterOptions {
    /// Options for the cluster `name`, of at most 255 bytes. Nodes refuse peers and clients of another cluster.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The cluster's token. A side with a token refuses every other side that lacks it.
    ///
    /// It replaces a certificate that was given before.
    pub fn token(mut self, token: impl Into<Option<Token>>) -> Self {
        if let Some(token) = token.into() {
            self.trust = Trust::Token(token);
        }
        self
    }

    /// This process's certificate, in a cluster whose processes have certificates. They name the cluster, and the process may
    /// do what its certificate says.
    ///
    /// It replaces a token that was given before, and the name.
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.name = credentials.cluster();
        self.trust = Trust::Certificates(credentials);
        self
    }

    /// Lets nodes listen beyond this machine without a token and without certificates if true. Then every program that reaches them may join the cluster
    /// and do everything.
    pub fn insecure(mut self, insecure: bool) -> Self {
        self.insecure = insecure;
        self
    }

    /// Upper bounds on memory, connections, queues and message sizes.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

/// The cluster [`CLUSTER_DEFAULT`] without a token, with [`Limits::DEFAULT`].
impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            name: CLUSTER_DEFAULT.to_owned(),
            trust: Trust::Open,
            insecure: false,
            limits: Limits::default(),
        }
    }
}

impl<S: Into<String>> From<S> for ClusterOptions {
    fn from(name: S) -> Self {
        Self::new(name)
    }
}
