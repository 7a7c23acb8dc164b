//! The services that `--serve` can name.
//!
//! ```text
//! NAME[=FOLDER]:partitions=IDS/TOTAL[:KEY=VALUE]…
//!
//! search=/srv/docs:partitions=0-3/12            partitions 0 to 3 of the folder's twelve
//! search=.:partitions=0/1:data=/var/idx:files=5000
//! search=.:partitions=0/1:emulate=4              the same with stretched aggregations, on four emulated processors
//! micro:partitions=0,8/16                       emulated work
//! micro:partitions=0/1:name=batch               the same as a service of another name
//! search=/srv/docs:partitions=auto/64:replicas=2   the nodes share the partitions among themselves
//! echo:partitions=0/4                           endpoints that send each packet back
//! hosts:partitions=3/100                        this host's metrics, as the fourth of a hundred hosts
//! hosts:partitions=0/2:name=web-1               the same under another name than the system's
//! mirror=flights:partitions=0/4                 the first of four mirrors of a feed
//! mirror=flights:partitions=0/4:http=127.0.0.1:7780   the same with a listener for readers over HTTP
//! mirror=flights:partitions=0/4:promises=/var/m0      the same, for a feed that a standby may take over
//! mirror=flights:partitions=0/4:deletes=departed:retention=6h    events of these types, and age, remove keys
//! vectors=v.npy:partitions=0-3/16:metric=cosine  nearest neighbours among the rows of a file
//! faces=DIR:model=FILE:partitions=0-3/16        recognition of the people in a folder of pictures
//! exec=errors:command=grep -c -- {query} part-{partition}:reduce=sum-lines:partitions=0-3/12   a command-line tool
//! sql=/srv/tables:partitions=0-3/16             Parquet and CSV files, if the program that runs this one has an SQL engine
//! sql=/srv/{partition}:partitions=0-3/16:name=sales:memory=4GB:threads=2   the same with a folder for each partition
//! search=s3://bucket/docs:partitions=auto/64:cache=20G   an index in an object store, with copies on this machine's disk
//! sql=s3://bucket/tables:partitions=0-3/16      tables in an object store
//! daemon:endpoints=0-31/512                     32 emulated daemons of a parallel tool, as endpoints of streams
//! ```
//!
//! A `Kind` reads an argument, and an `Offer` opens its service; `kind.rs` has the table of kinds, and each other file has
//! one. `words.rs` splits arguments, `placing.rs` opens services whose nodes share partitions.

pub mod pulse;

#[cfg(feature = "full")]
pub mod daemon;
pub(crate) mod echo;
#[cfg(feature = "full")]
mod exec;
pub(crate) mod folders;
#[cfg(feature = "full")]
mod hosts;
mod kind;
mod micro;
#[cfg(feature = "mirrors")]
mod mirror;
mod placing;
mod search;
#[cfg(feature = "full")]
mod sql;
#[cfg_attr(not(feature = "full"), path = "serve/no_stores.rs")]
mod stored;
#[cfg(feature = "full")]
mod vectors;
mod words;

use bytes::Bytes;
use folders::Folder;
use kind::{KINDS, Offer, kind, kind_of};
use std::any::Any;
use std::net::SocketAddr;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use treefold::{CallError, Client, Operator, PartitionSet, Service};
use words::Words;

pub use search::{Corpus, search_service};

/// One argument of `--serve`.
#[derive(Clone, Debug)]
pub struct Serve {
    offer: Arc<dyn Offer>,
    partitions: PartitionSet,
    total: u32,
    /// True if the total was given, false if it was assumed.
    declared: bool,
    /// Copies of each partition, if the nodes share the partitions among themselves. Then `partitions` is empty.
    placing: Option<u32>,
}

/// A service of a node, and its part that the node starts.
pub struct Opened {
    pub service: Service,
    pub companion: Option<Companion>,
}

impl From<Service> for Opened {
    fn from(service: Service) -> Self {
        Self { service, companion: None }
    }
}

/// A part of a service that is a client of its own node: a mirror.
pub struct Companion {
    /// Connections that its listener takes; 0 without one.
    pub connections_max: usize,
    /// Starts it, once the node runs.
    pub start: Box<dyn FnOnce(Client) -> Starting + Send>,
}

type Starting = Pin<Box<dyn Future<Output = Result<Running, String>> + Send>>;

/// A companion that has started.
pub struct Running {
    /// Its feed, and the address of its listener for readers.
    pub readers: Option<(String, SocketAddr)>,
    /// Ends the listener.
    pub end: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// It runs until this is dropped.
    pub kept: Box<dyn Any + Send>,
}

/// Formats an error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(&format!(": {next}"));
        cause = next.source();
    }
    text
}

impl Serve {
    /// The name of the service.
    pub fn name(&self) -> &str {
        self.offer.name()
    }

    /// True if opening it may take long.
    pub fn may_block(&self) -> bool {
        self.offer.may_block()
    }

    /// Returns a message about the assumed total, if none was given.
    pub fn assumption(&self) -> Option<String> {
        let Self { partitions, total, declared, .. } = self;
        (!declared).then(|| {
            format!(
                "--serve {} gives no total: assuming {total} partitions, or as many as the cluster has ever seen; \
                 answers report that the total is a guess. Declare the total as in \
                 partitions={partitions}/{total}",
                self.offer.name()
            )
        })
    }

    /// Number of emulated processors that the service asks for.
    ///
    /// The node must announce as many, because its load and its trees follow from them.
    pub fn emulated_processors(&self) -> Option<u32> {
        self.offer.emulated_processors()
    }

    /// The folders and files of the service, for checks before the node starts.
    pub(crate) fn folders(&self) -> Vec<Folder> {
        self.offer.folders(self.total)
    }

    /// Makes the service ready.
    ///
    /// May block, if [`may_block`](Self::may_block) says so.
    pub fn open(&self) -> Result<Opened, String> {
        if let Some(replicas) = self.placing {
            return placing::open(&self.offer, self.total, replicas).map(Opened::from);
        }
        let opened = self.offer.open(&self.partitions, self.total)?;
        if self.declared {
            return Ok(opened);
        }
        Ok(Opened { service: opened.service.guess_total(), ..opened })
    }
}

/// Refuses parameters that the endpoints of a service known to this program could not read.
///
/// The endpoints could not report the error to the stream's front-end.
pub fn check_endpoint_params(service: &str, params: &Bytes) -> Result<(), String> {
    kind(service).map_or(Ok(()), |kind| kind.check_endpoint_params(params))
}

/// Returns the argument of `--serve` for one service over all of a network's back-ends, as a template.
///
/// Each back-end has one endpoint of the service.
pub fn one_each(service: &str) -> String {
    let key = kind_of(service).map_or("partitions", kind::Kind::numbered_by);
    format!("{service}:{key}={{number}}/{{total}}")
}

/// Returns the services of this program that have filters, without partitions and operators.
pub fn filtering_services() -> Vec<Service> {
    KINDS.iter().filter_map(|kind| kind.filtering()).collect()
}

/// Returns the services of this program without partitions: their operators and filters, for a client that folds by itself.
pub fn known_services() -> Vec<Service> {
    let known = |kind: &&dyn kind::Kind| {
        let (filtering, operators) = (kind.filtering(), kind.operators());
        let is_known = filtering.is_some() || !operators.is_empty();
        is_known.then(|| {
            with_operators(filtering.unwrap_or_else(|| Service::new(kind.name())), kind.name(), operators)
        })
    };
    KINDS.iter().filter_map(known).collect()
}

/// Makes an operator that folds as nodes declare it for services which this node does not have.
pub fn make_reduce(name: &str) -> Option<Arc<dyn Operator>> {
    #[cfg(feature = "full")]
    if let Some(operator) = treefold_exec::declared(name) {
        return Some(operator);
    }
    let (service, aggregation) = name.split_once('/')?;
    let operators = kind(service)?.operators();
    operators.into_iter().find(|(name, _)| *name == aggregation).map(|(_, operator)| operator)
}

/// A service of a built-in kind, perhaps under another name.
fn with_operators<N: Into<String>>(
    service: Service,
    kind: &'static str,
    operators: Vec<(N, Arc<dyn Operator>)>,
) -> Service {
    operators
        .into_iter()
        .fold(service.kind(kind), |service, (name, operator)| service.operator(name, operator))
}

impl FromStr for Serve {
    type Err = CallError;

    fn from_str(text: &str) -> Result<Self, CallError> {
        let Some((by_hand, replicas)) = placing::split(text)? else { return Self::by_hand(text) };
        let serve = Self::by_hand(&by_hand)?;
        if !serve.offer.is_shared() {
            let allowed = "partitions=auto/TOTAL for search, micro, exec, sql, vectors and faces";
            return Err(CallError::bad_field("serve", text, allowed));
        }
        Ok(Self { partitions: PartitionSet::default(), placing: Some(replicas), ..serve })
    }
}

impl Serve {
    /// Parses an argument that names its partitions.
    fn by_hand(text: &str) -> Result<Self, CallError> {
        let Some(kind) = kind_of(text) else {
            let more =
                if cfg!(feature = "full") { None } else { Some("others in a build of `make release`") };
            let forms: Vec<_> = KINDS.iter().map(|kind| kind.form()).chain(more).collect();
            return Err(CallError::bad_field("serve", text, forms.join("; ")));
        };
        let words = Words::split(text, kind)?;
        let offer = kind.parse(&words)?;
        let (partitions, total) = words.partitions()?;
        let declared = total.is_some();
        let total = total.unwrap_or_else(|| partitions.runs().last().map_or(0, |&(_, end)| end));
        Ok(Self { offer, partitions, total, declared, placing: None })
    }
}

/// True for a folder in an object store, as in `s3://bucket/docs`.
fn is_in_store(folder: &str) -> bool {
    let scheme = folder.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.chars().all(|c| c.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests;
