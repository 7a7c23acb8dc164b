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
//! A folder may contain colons, and so may a command: only a colon before a known key ends it. Nodes on one machine that serve
//! parts of one folder share one index directory and build it in turn.
//!
//! The partitions of `micro` are also endpoints of streams ([`pulse`]).

pub mod pulse;

mod exec;
pub(crate) mod folders;
mod hosts;
mod placing;
#[cfg(feature = "objects")]
mod stored;
#[cfg(feature = "vectors")]
mod vectors;

pub mod daemon;

use crate::parse::{self, partitions_of_total};
use crate::sql::{self, Tables};
use bytes::Bytes;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use treefold::{Body, CallError, Operator, PartitionSet, Service};
use treefold_feed::{HttpOptions, MirrorOptions, PromiseFile, Unstarted, mirror};
use treefold_hosts::Pace;
use treefold_micro::PROCESSORS_MAX;
use treefold_mirror::Name;
use treefold_mirror::rules::file::StateOptions;
use treefold_search::{Bar, IndexOptions, Progress, Report, Shard};

/// Keys that may follow a colon.
const KEYS: [&str; 13] = [
    "partitions",
    "endpoints",
    "data",
    "files",
    "emulate",
    "name",
    "http",
    "http-public",
    "promises",
    "deletes",
    "retention",
    "memory",
    "threads",
];

/// One argument of `--serve`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serve {
    what: What,
    partitions: PartitionSet,
    total: u32,
    /// True if the total was given, false if it was assumed.
    declared: bool,
    /// Copies of each partition, if the nodes share the partitions among themselves. Then `partitions` is empty.
    placing: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    /// A folder, and the number of emulated processors for stretched aggregations; `None` for no such aggregations.
    Search(Corpus, Option<u32>),
    /// Emulated work, under this name; `None` for the default name.
    Micro(Option<String>),
    /// Endpoints of streams that send each packet back.
    Echo,
    /// This host, under this name; `None` for the system's name.
    Hosts(Option<String>),
    Daemon,
    /// A mirror of this feed.
    Mirror(String, MirrorWish),
    /// A command-line tool.
    Exec(exec::Tool),
    /// Tables, by the engine of the program that runs this one.
    Sql(Tables),
    /// An index or tables in an object store.
    #[cfg(feature = "objects")]
    Stored(stored::Stored),
    /// Vectors or faces.
    #[cfg(feature = "vectors")]
    Near(vectors::Near),
}

/// Options of a mirror besides its feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct MirrorWish {
    /// Its listener for readers.
    http: Option<HttpOptions>,
    /// The file of its promises.
    promises: Option<PathBuf>,
    state: StateOptions,
}

/// A service of a node, and the mirror in it, which the node starts.
#[derive(Debug)]
pub struct Opened {
    pub service: Service,
    pub mirror: Option<(Unstarted, Option<HttpOptions>)>,
}

/// A folder to search, and how to index it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus {
    pub folder: PathBuf,
    /// Directory of the index; `None` for the search service's default.
    pub data: Option<PathBuf>,
    pub files_max: Option<u64>,
}

impl Corpus {
    /// Indexes the folder, or finds that its index is still valid.
    ///
    /// Blocks.
    pub fn index(&self, partitions: u32, progress: &dyn Progress) -> Result<Report, String> {
        let mut options = IndexOptions::new(partitions);
        options.data_directory.clone_from(&self.data);
        options.files_max = self.files_max;
        treefold_search::index(&self.folder, &options, progress).map_err(|error| chain(&error))
    }
}

/// Makes the search service with these partitions of an index.
pub fn search_service(
    directory: &Path,
    partitions: impl IntoIterator<Item = u32>,
    total: u32,
) -> Result<Service, String> {
    let mut service = search().total(total);
    for partition in partitions {
        let shard = Shard::open(directory, partition, total).map_err(|error| chain(&error))?;
        service = service.partition(partition, shard);
    }
    Ok(service)
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
    /// True if opening it may take long.
    pub fn may_block(&self) -> bool {
        match &self.what {
            What::Search(..) | What::Hosts(_) | What::Sql(_) => true,
            #[cfg(feature = "objects")]
            What::Stored(_) => true,
            #[cfg(feature = "vectors")]
            What::Near(_) => true,
            _ => false,
        }
    }

    /// Returns a message about the assumed total, if none was given.
    pub fn assumption(&self) -> Option<String> {
        let Self { partitions, total, declared, .. } = self;
        (!declared).then(|| {
            format!(
                "--serve {} gives no total: assuming {total} partitions, or as many as the cluster has ever seen; \
                 answers report that the total is a guess. Declare the total as in \
                 partitions={partitions}/{total}",
                self.name()
            )
        })
    }

    /// Number of emulated processors that the service asks for.
    ///
    /// The node must announce as many, because its load and its trees follow from them.
    pub fn emulated_processors(&self) -> Option<u32> {
        match &self.what {
            What::Search(_, emulated) => *emulated,
            #[cfg(feature = "objects")]
            What::Stored(stored) => stored.emulated_processors(),
            _ => None,
        }
    }

    fn name(&self) -> &str {
        match &self.what {
            What::Search(..) => treefold_search::SERVICE,
            What::Micro(name) => name.as_deref().unwrap_or(treefold_micro::SERVICE),
            What::Echo => crate::echo::SERVICE,
            What::Hosts(_) => treefold_hosts::SERVICE,
            What::Daemon => treefold_daemon::SERVICE,
            What::Mirror(feed, ..) => feed,
            What::Exec(tool) => &tool.name,
            What::Sql(tables) => &tables.name,
            #[cfg(feature = "objects")]
            What::Stored(stored) => stored.name(),
            #[cfg(feature = "vectors")]
            What::Near(near) => near.name(),
        }
    }

    /// Makes the service ready.
    ///
    /// May block: a folder may have to be indexed first, with a progress bar if standard error is a terminal.
    pub fn open(&self) -> Result<Opened, String> {
        if let Some(replicas) = self.placing {
            return Ok(Opened { service: self.open_placed(replicas)?, mirror: None });
        }
        let mut unstarted = None;
        let service = match &self.what {
            What::Search(corpus, emulated) => {
                let report = corpus.index(self.total, &Bar::new())?;
                let service = search_service(&report.directory, self.partitions.iter(), self.total)?;
                match emulated {
                    Some(processors) => with_stretched(service, *processors),
                    None => service,
                }
            }
            What::Echo => echo_service(&self.partitions, self.total),
            What::Micro(name) => micro_service(name.as_deref(), &self.partitions, self.total),
            What::Hosts(name) => hosts::serve(&self.partitions, self.total, name.as_deref())?,
            What::Daemon => daemon::run(&self.partitions, self.total),
            What::Exec(tool) => tool.service(&self.partitions, self.total)?,
            What::Sql(tables) => tables.service(&self.partitions, self.total)?,
            #[cfg(feature = "objects")]
            What::Stored(stored) => stored.open(&self.partitions, self.total)?,
            #[cfg(feature = "vectors")]
            What::Near(near) => near.service(&self.partitions, self.total)?,
            What::Mirror(feed, MirrorWish { http, promises, state }) => {
                let number = self.partitions.iter().next().expect("invariant: a mirror has one partition");
                let mut options = MirrorOptions::new(feed, number, self.total);
                options.state = state.clone();
                if let Some(path) = promises {
                    let read = PromiseFile::read(path, feed, number, self.total);
                    options.promises = Some(read.map_err(|error| format!("{}: {error}", path.display()))?);
                }
                let (service, mirror) = mirror(options);
                unstarted = Some((mirror, http.clone()));
                service
            }
        };
        let service = if self.declared { service } else { service.guess_total() };
        Ok(Opened { service, mirror: unstarted })
    }
}

fn micro_service(name: Option<&str>, partitions: &PartitionSet, total: u32) -> Service {
    micro(name.unwrap_or(treefold_micro::SERVICE)).total(total).endpoints(partitions.iter(), pulse::Pulse)
}

/// Refuses parameters that the endpoints of a service known to this program could not read.
///
/// The endpoints could not report the error to the stream's front-end.
pub fn check_endpoint_params(service: &str, params: &Bytes) -> Result<(), String> {
    match service {
        treefold_hosts::SERVICE => Pace::read(params).map(drop).map_err(|error| error.to_string()),
        treefold_micro::SERVICE if !params.is_empty() => pulse::Part::decode(params)
            .map(drop)
            .map_err(|_| "a part is \"echo\", \"tick\" or \"witness\"".to_owned()),
        treefold_daemon::SERVICE => treefold_daemon::Part::decode(params)
            .map(drop)
            .map_err(|error| format!("{error}; a part is Answer, Clock or Sample, as in {DAEMON_PARAMS}")),
        _ => Ok(()),
    }
}

/// The shortest valid parameters of a daemon.
const DAEMON_PARAMS: &str = r#"{"Answer":{"seed":1}}"#;

/// Returns the argument of `--serve` for one service over all of a network's back-ends, as a template.
///
/// Each back-end has one endpoint of the service.
pub fn one_each(service: &str) -> String {
    let key = if service == treefold_daemon::SERVICE { "endpoints" } else { "partitions" };
    format!("{service}:{key}={{number}}/{{total}}")
}

fn echo_service(partitions: &PartitionSet, total: u32) -> Service {
    Service::new(crate::echo::SERVICE).total(total).endpoints(partitions.iter(), crate::echo::Kind)
}

/// Returns the services that this program knows, without partitions: only their operators and filters.
pub fn known_services() -> Vec<Service> {
    #[cfg_attr(not(feature = "vectors"), expect(unused_mut, reason = "a feature adds to it"))]
    let mut known = vec![search(), micro(treefold_micro::SERVICE), hosts::known(), daemon::service(None)];
    #[cfg(feature = "vectors")]
    known.extend(vectors::known());
    known
}

fn search() -> Service {
    with_operators(Service::new(treefold_search::SERVICE), treefold_search::aggregations())
}

/// Adds the stretched forms of the search service's aggregations.
fn with_stretched(service: Service, processors: u32) -> Service {
    let stretched = treefold_micro::stretched(treefold_search::aggregations(), processors);
    stretched.into_iter().fold(service, |service, (name, operator)| service.operator(name, operator))
}

fn micro(name: &str) -> Service {
    with_operators(Service::new(name), treefold_micro::aggregations())
}

fn with_operators(service: Service, operators: Vec<(&'static str, Arc<dyn Operator>)>) -> Service {
    operators.into_iter().fold(service, |service, (name, operator)| service.operator(name, operator))
}

/// Parses a built-in service under another name, as in `batch=micro`.
///
/// A relay given it folds for a service of that name.
pub fn known_as(text: &str) -> Result<(String, String), CallError> {
    let given = text
        .split_once('=')
        .filter(|(name, service)| is_service_name(name) && operators_of(service).is_some());
    let allowed = match cfg!(feature = "vectors") {
        true => "a name, and micro, search, vectors or faces, as in batch=micro",
        false => "a name, and micro or search, as in batch=micro",
    };
    given
        .map(|(name, service)| (name.to_owned(), service.to_owned()))
        .ok_or_else(|| CallError::bad_field("knows", text, allowed))
}

/// Makes the service that [`known_as`] parsed.
pub fn known_service((name, service): &(String, String)) -> Service {
    with_operators(Service::new(name.as_str()), operators_of(service).unwrap_or_default())
}

/// The operators of a built-in service that may have another name.
fn operators_of(service: &str) -> Option<Vec<(&'static str, Arc<dyn Operator>)>> {
    match service {
        treefold_search::SERVICE => Some(treefold_search::aggregations()),
        treefold_micro::SERVICE => Some(treefold_micro::aggregations()),
        #[cfg(feature = "vectors")]
        treefold_vectors::SERVICE => Some(treefold_vectors::aggregations()),
        #[cfg(feature = "vectors")]
        treefold_vectors::faces::SERVICE => Some(treefold_vectors::faces::aggregations()),
        _ => None,
    }
}

fn is_service_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c))
}

impl FromStr for Serve {
    type Err = CallError;

    fn from_str(text: &str) -> Result<Self, CallError> {
        let Some((by_hand, replicas)) = placing::split(text)? else { return Self::by_hand(text) };
        let serve = Self::by_hand(&by_hand)?;
        if !serve.what.is_shared() {
            let allowed = "partitions=auto/TOTAL for search, micro, exec, sql, vectors and faces";
            return Err(CallError::bad_field("serve", text, allowed));
        }
        Ok(Self { partitions: PartitionSet::default(), placing: Some(replicas), ..serve })
    }
}

impl Serve {
    /// Parses an argument that names its partitions.
    fn by_hand(text: &str) -> Result<Self, CallError> {
        if let Some(tool) = text.strip_prefix("exec=") {
            return exec::parse(text, tool);
        }
        let refuse = |limit: &str| CallError::bad_field("serve", text, limit);
        if ["vectors", "faces"]
            .iter()
            .any(|name| text.strip_prefix(name).is_some_and(|rest| rest.starts_with([':', '='])))
        {
            #[cfg(feature = "vectors")]
            return vectors::parse(text);
            #[cfg(not(feature = "vectors"))]
            return Err(refuse("vectors and faces in a build with the feature vectors; this one has none"));
        }
        if names_a_store(text) {
            #[cfg(feature = "objects")]
            return stored::parse(text);
            #[cfg(not(feature = "objects"))]
            return Err(refuse("object stores in a build with the feature objects; this one has none"));
        }
        let (head, options) = split_options(text, &KEYS);
        let (name, folder) = head.split_once('=').map_or((head, None), |(name, folder)| (name, Some(folder)));
        let (mut ids, mut data, mut files_max, mut host) = (None, None, None, None);
        let (mut of_streams, mut wish) = (false, MirrorWish::default());
        let (mut memory, mut threads, mut emulated) = (None, None, None);
        for (key, value) in options {
            match key {
                "partitions" | "endpoints" => {
                    (ids, of_streams) = (Some(partitions_of_total(value)?), key == "endpoints");
                }
                "data" => data = Some(PathBuf::from(value)),
                "name" => host = Some(value.to_owned()),
                "http" | "http-public" => {
                    wish.http = Some(listener(text, value, key == "http-public")?);
                }
                "promises" => wish.promises = Some(PathBuf::from(value)),
                "deletes" => wish.state.deletes = types(value)?,
                "retention" => wish.state.retention_ms = Some(retention_ms(value)?),
                "memory" => memory = Some(value.to_owned()),
                "emulate" => emulated = Some(processors(value)?),
                "threads" => threads = Some(parse::named("threads", value, "a number of threads")?),
                _ => files_max = Some(parse::named("files", value, "a number of files")?),
            }
        }
        let (partitions, total) =
            ids.ok_or_else(|| refuse("a service with its partitions, as in micro:partitions=0-3/12"))?;
        let (declared, total) = (total.is_some(), total_of(&partitions, total));
        let of_a_folder = data.is_some() || files_max.is_some();
        if wish != MirrorWish::default() && name != "mirror" {
            return Err(refuse("http, promises, deletes and retention for mirrors only"));
        }
        if name != "sql" && (memory.is_some() || threads.is_some()) {
            return Err(refuse("memory and threads for sql only"));
        }
        if name != "search" && emulated.is_some() {
            return Err(refuse(
                "emulate for search only; micro/emulated takes its processors from each call",
            ));
        }
        let what = match (name, folder) {
            ("daemon", None) if of_streams && !of_a_folder && host.is_none() => What::Daemon,
            ("daemon", _) => {
                return Err(refuse("daemon with endpoints only, as in daemon:endpoints=0-31/512"));
            }
            _ if of_streams => {
                return Err(refuse("partitions instead of endpoints; only daemon has endpoints"));
            }
            ("search", Some(folder)) if !folder.is_empty() && host.is_none() => {
                What::Search(Corpus { folder: folder.into(), data, files_max }, emulated)
            }
            ("search", _) => return Err(refuse("search with a folder, as in search=DIR:partitions=0-3/12")),
            ("micro", None) if !of_a_folder && host.as_deref().is_none_or(is_service_name) => {
                What::Micro(host)
            }
            ("micro", _) => {
                return Err(refuse(
                    "micro with partitions, as in micro:partitions=0,8/16, and optionally a name, \
                     as in micro:partitions=0/1:name=batch",
                ));
            }
            ("echo", None) if !of_a_folder && host.is_none() => What::Echo,
            ("sql", Some(folder)) if !folder.is_empty() && !of_a_folder && threads != Some(0) => {
                let name = host.unwrap_or_else(|| sql::SERVICE.to_owned());
                if !is_service_name(&name) {
                    return Err(refuse("a name of letters, digits and -_."));
                }
                What::Sql(Tables { folder: folder.into(), name, memory, threads, is_dealt: false })
            }
            ("sql", _) => {
                return Err(refuse(
                    "sql with a folder and partitions, and optionally a name, memory and threads, as in \
                     sql=DIR:partitions=0-3/16:memory=4GB:threads=2",
                ));
            }
            ("mirror", Some(feed))
                if declared
                    && !of_a_folder
                    && host.is_none()
                    && partitions.len() == 1
                    && is_service_name(feed) =>
            {
                What::Mirror(feed.to_owned(), wish)
            }
            ("mirror", _) => {
                return Err(refuse(
                    "mirror with a feed, one partition of a total, and optionally an address for readers, as in \
                     mirror=flights:partitions=0/4:http=127.0.0.1:7780",
                ));
            }
            ("hosts", None) if !of_a_folder && partitions.len() == 1 => What::Hosts(host),
            ("hosts", _) => {
                return Err(refuse(
                    "hosts with one partition, which is this host, as in hosts:partitions=3/100",
                ));
            }
            _ => {
                return Err(refuse(
                    "search=DIR:partitions=IDS/TOTAL, micro:partitions=IDS/TOTAL, echo:partitions=IDS/TOTAL, \
                     hosts:partitions=ID/TOTAL, mirror=FEED:partitions=ID/TOTAL, \
                     vectors=FILE:partitions=IDS/TOTAL:metric=METRIC, faces=DIR:model=FILE:partitions=IDS/TOTAL, \
                     exec=NAME:command=LINE:reduce=REDUCE:partitions=IDS/TOTAL, sql=DIR:partitions=IDS/TOTAL or \
                     daemon:endpoints=IDS/TOTAL",
                ));
            }
        };
        Ok(Self { what, partitions, total, declared, placing: None })
    }
}

/// True for an argument such as `search=s3://bucket/docs:…`.
fn names_a_store(text: &str) -> bool {
    let scheme = text.split_once('=').and_then(|(_, rest)| rest.split_once("://")).map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.chars().all(|c| c.is_ascii_alphanumeric()))
}

/// The declared total, or the one that the highest partition shows.
fn total_of(partitions: &PartitionSet, total: Option<u32>) -> u32 {
    total.unwrap_or_else(|| partitions.runs().last().map_or(0, |&(_, end)| end))
}

/// Parses a number of emulated processors.
fn processors(value: &str) -> Result<u32, CallError> {
    let number = value.parse().ok().filter(|number| (1..=PROCESSORS_MAX).contains(number));
    number.ok_or_else(|| {
        CallError::bad_field("emulate", value, format_args!("1 to {PROCESSORS_MAX} processors"))
    })
}

/// Parses the types of events that remove their keys.
fn types(value: &str) -> Result<Vec<Name>, CallError> {
    let of = |name: &str| {
        Name::new(name.to_owned()).map_err(|error| CallError::bad_field("deletes", name, error.to_string()))
    };
    value.split(',').map(of).collect()
}

/// Parses the age at which a key is removed.
fn retention_ms(value: &str) -> Result<u64, CallError> {
    let ms = u64::try_from(parse::duration(value)?.as_millis()).unwrap_or(u64::MAX);
    match ms {
        0 => Err(CallError::bad_field("retention", value, "at least 1ms")),
        ms => Ok(ms),
    }
}

/// Parses the address of a listener for readers. `http` takes addresses of this machine only.
fn listener(text: &str, value: &str, is_public: bool) -> Result<HttpOptions, CallError> {
    let refuse = |limit: &str| CallError::bad_field("serve", text, limit);
    let addr: SocketAddr =
        value.parse().map_err(|_| refuse("http with IP:PORT, as in http=127.0.0.1:7780"))?;
    if !is_public && !addr.ip().is_loopback() {
        return Err(refuse(
            "http with a loopback address. Readers are not authenticated; http-public allows other addresses",
        ));
    }
    Ok(HttpOptions { is_public, ..HttpOptions::new(addr) })
}

/// Splits an argument into the part before the first option, and the options.
///
/// Options are read from the end. A colon that no known key follows belongs to the value before it.
fn split_options<'a>(text: &'a str, keys: &[&str]) -> (&'a str, Vec<(&'a str, &'a str)>) {
    let (mut head, mut options) = (text, Vec::new());
    let mut end = text.len();
    while let Some(at) = text[..end].rfind(':') {
        let option = text[at + 1..head.len()].split_once('=');
        if let Some((key, value)) = option.filter(|(key, _)| keys.contains(key)) {
            options.push((key, value));
            head = &text[..at];
        }
        end = at;
    }
    (head, options)
}

/// Refuses a key that is given twice.
fn each_once(options: &[(&str, &str)]) -> Result<(), String> {
    let mut keys = options.iter().enumerate();
    let twice = keys.find(|&(at, (key, _))| options[..at].iter().any(|(other, _)| other == key));
    twice.map_or(Ok(()), |(_, (key, _))| Err(format!("each key once; {key} is given twice")))
}

#[cfg(test)]
mod tests;
