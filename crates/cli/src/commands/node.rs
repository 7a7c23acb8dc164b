//! `treefold node`: runs a node of a cluster until it is stopped.

use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use crate::parse;
use crate::serve::{Opened, Running, Serve, filtering_services, known_services, make_reduce};
use crate::trust::{KEYS_VARIABLE, TOKEN_VARIABLE};
use attached::Attached;
use clap::Args;
use reload::Reloading;
use serde::Serialize;
use settings::Settings;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use treefold::push::application;
use treefold::shares::ShareSetting;
use treefold::{Limits, Node, NodeBuilder, Service, StartError};
use treefold_gateway::Gateway;

mod attached;
pub(crate) mod files;
pub(crate) mod gateway;
mod reload;
pub(crate) mod settings;

/// Default address to listen at.
pub(crate) const LISTEN_DEFAULT: &str = "127.0.0.1:7700";

/// Exit code after a second signal to stop, as shells report it for SIGINT.
const STOPPED_TWICE: i32 = 130;

/// Run a node: host partitions, take part in trees, serve as the front of calls
///
/// When the node is ready, it prints one line, `listening on ADDR`, to standard output. On SIGTERM or SIGINT
/// it tells the cluster that it leaves, finishes open work, and refuses new work; a second signal ends it at
/// once.
///
/// Every flag can also be a key of a TOML file given by --config; flags override the file. The file also
/// takes the tables `limits` and `tuning` (docs/configuration.md, treefold config). On SIGHUP the node reads the
/// file again, and takes new shares and a new log filter.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct NodeArgs {
    /// Address to listen at, TCP and UDP; port 0 takes any free port [default: 127.0.0.1:7700]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,

    /// Address at which other nodes reach this one, if it listens on all addresses [default: the one that
    /// faces the first node it joins]
    #[arg(long, value_name = "ADDR")]
    advertise: Option<String>,

    /// Nodes of the cluster to join: HOST:PORT, dns:NAME:PORT for all addresses of a name, dns:_service._tcp.NAME for SRV
    /// records, or @FILE with one of these on each line. Names and files are looked up again; the node's own address may be
    /// among them. Leave it out for the first node
    #[arg(long, value_name = "ADDR", value_delimiter = ',', value_parser = parse::seed)]
    join: Vec<String>,

    /// Rack of the node; trees keep traffic inside racks
    #[arg(long, value_name = "RACK")]
    rack: Option<String>,

    /// Zone of the node
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,

    /// Name that the node keeps when it restarts, also at another address: placement gives it the same partitions
    /// again [default: its address]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Host no partitions and fold passing partials: trees run over this node within its rack, between the
    /// racks of its zone, or between zones
    #[arg(long, conflicts_with_all = ["serve", "attach"])]
    relay: bool,

    /// Applications whose workers may attach here and push results to be folded; may be repeated.
    /// docs/push.md lists the reduces
    #[arg(long, value_name = "APPLICATION", value_delimiter = ',')]
    accept: Vec<String>,

    /// Share of the node for a service, if several services compete, as in search=3 or nightly=1:batch; may
    /// be repeated [default: 1 each, interactive]
    #[arg(long = "share", value_name = "SERVICE=SHARE[:CLASS]", value_parser = parse::share)]
    shares: Vec<ShareSetting>,

    /// Number of jobs that the node announces to run at a time [default: the machine's processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    processors: Option<u32>,

    /// Number of worker threads for operators [default: as many as processors]
    #[arg(long, value_name = "N", value_parser = parse::workers)]
    workers: Option<usize>,

    /// Service to serve, with its partitions; may be repeated (see below)
    #[arg(long, value_name = "SERVICE", value_parser = str::parse::<Serve>)]
    serve: Vec<Serve>,

    /// TOML file with any of these settings
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// File to record all inputs of the node to, for `treefold replay`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Name of the cluster; nodes of other clusters are refused [default: treefold]
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,

    /// Token of the cluster; nodes with another token are refused. Other users of this machine can read a command line, so
    /// better set the environment variable TREEFOLD_TOKEN, or TREEFOLD_TOKEN_FILE to a file [default: these]
    #[arg(long, value_name = "TOKEN", conflicts_with = "keys")]
    token: Option<String>,

    /// File with the keys of this node, from `treefold keys issue node`; the node then accepts only processes with a
    /// certificate of the same authority [default: the environment variable TREEFOLD_KEYS]
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,

    /// Listen beyond this machine without keys and without a token, also with the gateway: any program that reaches the node
    /// may do everything
    #[arg(long)]
    insecure: bool,

    #[command(flatten)]
    attached: attached::AttachArgs,

    #[command(flatten)]
    gateway: Box<gateway::GatewayArgs>,

    /// Time that open work may take to finish after the first signal [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    grace: Option<Duration>,
}

const EXAMPLES: &str = "\
Services:
  search=DIR:partitions=IDS/TOTAL[:data=DIR][:files=N][:emulate=K]
      Full-text search over the text files below DIR, split into TOTAL partitions. Aggregations:
      search/topk, search/terms, search/sample, search/categorise and search/words. The index is
      kept, and reused when nothing has changed. With emulate, also search/stretched-topk and so on:
      they take a multiple of their processor time, on K emulated processors. See apps/search/README.md.
  search=DIR:partitions=auto/TOTAL[:replicas=N]
      The nodes share the partitions among themselves, with N copies of each (see `treefold placement`).
      All nodes need the same files in DIR. So it is with micro, exec, sql, vectors and faces.
  micro:partitions=IDS/TOTAL
      Emulated work of given durations. Aggregations: micro/spin, micro/hold, micro/sum.
  echo:partitions=IDS/TOTAL
      Endpoints of streams that send each packet back.
  hosts:partitions=ID/TOTAL[:name=NAME]
      This host's processors, memory, network, disks and processes, as host ID of TOTAL. Aggregation:
      hosts/now, which `treefold top` shows.
  vectors=FILE:partitions=IDS/TOTAL:metric=cosine|ip|l2[:index=exact|hnsw][:attributes=FILE][:KEY=VALUE]...
      Nearest neighbours among the rows of a .npy or .fvecs file. Aggregations: vectors/nearest,
      vectors/get, vectors/count. With {partition} in FILE, each partition has a file of its own.
      Further keys: name=NAME, data=DIR, memory=BYTES, links=N, breadth=N. See docs/vectors.md.
  faces=DIR:model=FILE:partitions=IDS/TOTAL[:name=NAME]
      Recognition of the people in DIR/PERSON/PICTURE.pgm or .png, with a model of
      `treefold faces train`. Aggregation: faces/recognise.
  mirror=FEED:partitions=ID/TOTAL[:http=ADDR]
      A mirror of a feed, which `treefold mirror feed` feeds. Aggregations: FEED/get, FEED/status.
      With http, readers follow it over HTTP at an address of this machine, or with http-public at any.
  exec=NAME:command=LINE:reduce=REDUCE:partitions=IDS/TOTAL[:KEY=VALUE]...
      A command-line tool: each call of NAME/run starts the command LINE for each partition.
      {query} in a word of LINE is the call's parameter, {partition} and {total} are numbers;
      a command without {query} gets the parameters on standard input. REDUCE folds what the
      commands print: sum-lines, sum-counts, count, merge-sorted, unique, top-k (with k=N),
      concatenate or append; or, with reduce-command=LINE instead, a command. Further keys:
      dir=DIR, order=ORDER, empty=CODES, output=BYTES, memory=BYTES. See docs/exec.md.
  sql=DIR:partitions=IDS/TOTAL[:name=NAME][:memory=SIZE][:threads=N]
      SQL over the Parquet and CSV files in DIR, which `treefold sql` asks. Needs the command of the
      Python package: pip install 'treefold[sql]'. See docs/sql.md.
  daemon:endpoints=IDS/TOTAL
      Emulated daemons of a parallel tool, as endpoints of streams: `treefold bench tool` starts them.

Examples:
  treefold node --listen 127.0.0.1:7700 --serve search=/srv/docs:partitions=0-5/12
  treefold node --listen 127.0.0.1:0 --join 127.0.0.1:7700 --serve search=/srv/docs:partitions=6-11/12
  treefold node --serve 'exec=hits:command=grep -c -- {query} log:empty=1:reduce=sum-lines:partitions=0/1'
  treefold node --config /etc/treefold.toml --rack r2
  treefold node --listen 0.0.0.0:7700 --keys n7.keys --join dns:treefold.example:7700 --serve micro:partitions=0-3/8
  treefold node --listen 127.0.0.1:0 --join 127.0.0.1:7700 --gateway 127.0.0.1:8080
  treefold node --listen 127.0.0.1:0 --join 127.0.0.1:7700 --relay --rack r2
  treefold node --listen 127.0.0.1:0 --join 127.0.0.1:7700 --relay --rack r2 --accept words";

impl NodeArgs {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let (settled, settings) = self.settle()?;
        if let Some(path) = &self.config {
            settled.warnings(path).iter().for_each(|warning| crate::tell!("treefold: {warning}"));
        }
        crate::log::set_filter(settings.file.log.as_deref());
        if settings.attached.is_some() {
            attached::tie()?;
        }
        let mut reloading = Reloading::catch(&self, settled)?;
        let gateway = settings.file.gateway.clone().options(settings.file.insecure).await?;
        // Both signals are caught from here on, so that a signal during the indexing of a folder ends the
        // process.
        let mut signals = Signals::catch()?;
        // Set before other threads start. If this fails, the allocator keeps its default.
        let limits = settings.file.limits.as_ref().unwrap_or(&Limits::DEFAULT);
        let _ = treefold::memory::keep_freed(limits.held_bytes_max);
        let files = files::raise_limit();
        let services = tokio::select! {
            services = open_services(settings.serve.clone()) => services?,
            () = signals.next() => return Ok(Verdict::Full),
        };
        for assumption in settings.serve.iter().filter_map(Serve::assumption) {
            crate::tell!("treefold: {assumption}");
        }
        let (services, companions): (Vec<_>, Vec<_>) =
            services.into_iter().map(|opened| (opened.service, opened.companion)).unzip();
        let node = start(&settings, services).await?;
        let mut running = Vec::new();
        for companion in companions.into_iter().flatten() {
            files::warn(files, companion.connections_max);
            running.push((companion.start)(node.client()).await.map_err(Failure::failed)?);
        }
        let gateway = match gateway {
            Some(options) => Some(gateway::start(node.client(), options).await?),
            None => None,
        };
        announce(&node, &running, gateway.as_ref(), format);
        let live = async {
            match &settings.attached {
                Some(attached) => attached.live(&node, settings.trust.token(), signals.next()).await,
                None => tokio::select! {
                    () = signals.next() => Ok(false),
                    () = node.ended() => {
                        Err(Failure::failed("the node has ended by an error of its own; the log above says where"))
                    }
                },
            }
        };
        let has_ended = tokio::select! {
            has_ended = live => has_ended?,
            () = reloading.run(&node) => unreachable!("invariant: reloading goes on until the node ends"),
        };
        if has_ended {
            return Ok(Verdict::Full);
        }
        // Mirrors end with the node, their listeners before it.
        let (ends, _kept): (Vec<_>, Vec<_>) = running.into_iter().map(|part| (part.end, part.kept)).unzip();
        let readers_end = async {
            for end in ends {
                end.await;
            }
        };
        let gateway_ends = async {
            if let Some(gateway) = gateway {
                gateway.drain(settings.grace).await;
            }
        };
        let end = async {
            // The node takes the gateway's calls until the last one has ended.
            tokio::join!(readers_end, gateway_ends);
            node.shutdown(settings.grace).await;
        };
        tokio::select! {
            () = end => Ok(Verdict::Full),
            () = signals.next() => std::process::exit(STOPPED_TWICE),
        }
    }
}

/// Opens the services to serve.
///
/// Services that may block are opened on another thread: indexing a folder may take minutes.
async fn open_services(serve: Vec<Serve>) -> Result<Vec<Opened>, Failure> {
    let may_block = serve.iter().any(Serve::may_block);
    let open = move || serve.iter().map(Serve::open).collect::<Result<Vec<_>, String>>();
    // Starting a thread would be a large part of a short start.
    if !may_block {
        return open().map_err(Failure::failed);
    }
    let opened = tokio::task::spawn_blocking(open).await;
    opened.expect("invariant: opening a service does not panic").map_err(Failure::failed)
}

async fn start(settings: &Settings, services: Vec<Service>) -> Result<Node, Failure> {
    let file = &settings.file;
    let attached = settings.attached.as_ref();
    let listen = attached.map_or(LISTEN_DEFAULT, Attached::listens_at);
    let mut builder = Node::builder()
        .listen(file.listen.as_deref().unwrap_or(listen))
        .join(&file.join)
        .cluster(settings.cluster_options()?);
    if let Some(addr) = &file.advertise {
        builder = builder.advertise(addr);
    }
    if let Some(rack) = &file.rack {
        builder = builder.rack(rack);
    }
    if let Some(zone) = &file.zone {
        builder = builder.zone(zone);
    }
    if let Some(name) = &file.name {
        builder = builder.name(name);
    }
    if file.relay {
        builder = builder.relay();
    }
    // A node without partitions folds for others: as a relay on their path, as an inner process of their network, or as a front that
    // is asked to fold. It learns their services from them, but an inner process sees only its own part of the network.
    if services.is_empty() {
        let known = if attached.is_some() { known_services() } else { filtering_services() };
        builder = known.into_iter().fold(builder, NodeBuilder::service).learns(make_reduce);
    }
    for accepted in &file.accept {
        builder = builder.service(application(accepted));
    }
    for (service, share) in &file.shares {
        builder = builder.share(service, share.0);
    }
    if let Some(processors) = file.processors {
        builder = builder.processors(processors);
    }
    if let Some(workers) = file.workers {
        builder = builder.workers(workers);
    }
    if let Some(tuning) = &file.tuning {
        builder = builder.tuning(tuning.clone());
    }
    if let Some(path) = &file.record {
        builder = builder.record(path);
    }
    if let Some(attached) = attached {
        builder = attached.configure(builder);
    }
    #[cfg(feature = "wasm")]
    {
        builder = builder.foreign(crate::foreign::guests());
    }
    for service in services {
        builder = builder.service(service);
    }
    builder.start().await.map_err(|error| not_started(&error))
}

/// The failure for a node that has not started: a usage failure if an argument is the reason.
pub(crate) fn not_started(error: &StartError) -> Failure {
    match error {
        StartError::Exposed { .. } => {
            Failure::usage(format!("{error} ({KEYS_VARIABLE}, {TOKEN_VARIABLE}, --insecure)"))
        }
        StartError::Seed { .. } | StartError::Certificate { .. } | StartError::Setting(_) => {
            Failure::usage(format!("the node can't start: {error}"))
        }
        error => Failure::failed(format!("the node can't start: {error}")),
    }
}

fn announce(node: &Node, running: &[Running], gateway: Option<&Gateway>, format: Format) {
    #[derive(Serialize)]
    struct Ready {
        listening: String,
        process: u32,
        /// Addresses for readers over HTTP, by feed.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        readers: BTreeMap<String, String>,
        /// The beginning of the gateway's addresses.
        #[serde(skip_serializing_if = "Option::is_none")]
        gateway: Option<String>,
    }
    let addr = node.addr();
    let readers = running.iter().filter_map(|part| part.readers.as_ref());
    match format {
        Format::Text => {
            print(format_args!("listening on {addr}"));
            if let Some(gateway) = gateway {
                print(format_args!("gateway at {}", gateway.url()));
            }
            for (feed, addr) in readers {
                print(format_args!("readers of {feed} at http://{addr}/v1/feeds/{feed}/events"));
            }
        }
        Format::Json => {
            let readers = readers.map(|(feed, addr)| (feed.clone(), addr.to_string()));
            let process = std::process::id();
            let gateway = gateway.map(Gateway::url);
            print_json(&Ready { listening: addr.to_string(), process, readers: readers.collect(), gateway });
        }
    }
}

/// The two signals that end a process.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn catch() -> Result<Self, Failure> {
        let catch =
            |kind| signal(kind).map_err(|error| Failure::failed(format!("can't catch signals: {error}")));
        Ok(Self { interrupt: catch(SignalKind::interrupt())?, terminate: catch(SignalKind::terminate())? })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
