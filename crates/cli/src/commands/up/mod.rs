//! `treefold up`: starts a network of processes from a topology file, and keeps it running.
//!
//! This process is the front-end. [`bar`] shows the progress of the start; [`shown`] prints the running
//! network.

mod bar;
mod shown;

use super::node::Signals;
use super::node::gateway::{self, GatewayArgs, GatewayFile};
use super::topology::source::read_topology;
use crate::args::AT_VARIABLE;
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use crate::parse::{self, Words};
use crate::serve::{Serve, known_services, make_reduce, one_each};
use crate::trust::{Given, KEYS_VARIABLE, TOKEN_VARIABLE, Trust};
use bar::Bar;
use clap::Args;
use shown::{Awaited, Summary, failures_text, refused};
use std::net::SocketAddr;
use std::time::Duration;
use treefold::{Node, NodeBuilder};
use treefold_network::Network;
use treefold_network::launch::command::{node_command, ssh_default};
use treefold_network::launch::{Launcher, NetworkEvent, Token, UpOptions};
use treefold_network::topology::Topology;

/// Time that processes have to end when the network ends.
const GRACE: Duration = Duration::from_secs(2);

/// Start a network of processes from a topology file, with this process as its front-end
///
/// Each process starts its own children: children on its own host directly, others by ssh. When all processes
/// have attached, a summary is printed, and the network runs until Ctrl-C, or until the command given after
/// `--` ends. That command gets the front-end's address in TREEFOLD_AT and the token in TREEFOLD_TOKEN. When
/// this process dies, the network ends.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Up {
    /// Topology file; - for standard input
    topology: String,

    /// Service of the back-ends, without partitions; each back-end serves one of them, in the topology's
    /// order [default: echo]
    #[arg(long, value_name = "SERVICE")]
    serve: Vec<String>,

    /// Program to run as every back-end; it must attach. {attach}, {number}, {total} and {place} are replaced
    /// by its parent's address, its number, the number of back-ends, and its name
    #[arg(long, value_name = "COMMAND", conflicts_with = "serve", value_parser = parse::words)]
    back_end: Option<Words>,

    /// Start all processes on this host, even if the topology names other hosts
    #[arg(long)]
    local: bool,

    /// Start no process: wait for processes that attach themselves, and print the command line of each
    #[arg(long, conflicts_with = "local")]
    wait: bool,

    /// Program that runs commands on other hosts
    #[arg(long, value_name = "PROGRAM", default_value = "ssh")]
    ssh: String,

    /// Option of that program, as in --ssh-option=-p2222; may be repeated
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    ssh_option: Vec<String>,

    /// Path of treefold on other hosts [default: its path on this host]
    #[arg(long, value_name = "PATH")]
    remote_program: Option<String>,

    /// Time for all processes to start
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse::duration)]
    timeout: Duration,

    /// Keep the network running even if some processes do not start
    #[arg(long)]
    allow_failures: bool,

    /// Token of the network [default: the environment variable TREEFOLD_TOKEN, else a random one]
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,

    /// Address at which the front-end listens [default: any port; only on the loopback address if all
    /// processes are local]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,

    /// Address at which other hosts reach the front-end
    #[arg(long, value_name = "ADDR")]
    advertise: Option<String>,

    #[command(flatten)]
    gateway: Box<GatewayArgs>,

    /// Command to run when the network is up; the network ends with it
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  treefold up tree.top                                  over ssh, until Ctrl-C
  treefold topology kary 4 --back-ends 16 | treefold up - --local --serve hosts
  treefold up tree.top --ssh-option=-p2222 --remote-program /opt/treefold/bin/treefold
  treefold up tree.top --wait                           a job manager starts the processes
  treefold up tree.top --back-end './daemon {attach} hosts {number} {total}'
  treefold up tree.top -- sh -c 'treefold status --at $TREEFOLD_AT'";

impl Up {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let topology = read_topology(&self.topology)?;
        // The processes of a network have a token. Keys in the environment are for another cluster.
        let given = Trust::given(Given { token: self.token.clone(), ..Given::default() })?;
        let token = match given.token() {
            Some(token) => token,
            None => drawn_token()?,
        };
        let options = self.options(&topology, &token, format)?;
        let gateway = self.gateway.clone().over(GatewayFile::default()).options(false).await?;
        let mut signals = Signals::catch()?;
        let mut network = tokio::select! {
            network = Network::up(topology, options) => network.map_err(|error| refused(&error, format))?,
            () = signals.next() => return Err(Failure::failed("stopped before the network was up")),
        };
        let gateway = match gateway {
            Some(options) => Some(gateway::start(network.client(), options).await?),
            None => None,
        };
        let summary = Summary::of(&network, &token, gateway.as_ref());
        match format {
            Format::Text => print(summary.text()),
            Format::Json => print_json(&summary),
        }
        if !network.failures().is_empty() {
            crate::tell!("{}", failures_text(network.failures()));
        }
        let ended = if self.command.is_empty() {
            keep_up(&mut network, &mut signals).await;
            Ok(Verdict::Full)
        } else {
            run_beside(&mut network, &self.command, &token, &mut signals).await
        };
        if let Some(gateway) = gateway {
            gateway.drain(GRACE).await;
        }
        network.down(GRACE).await;
        ended
    }

    fn options(&self, topology: &Topology, token: &Token, format: Format) -> Result<UpOptions, Failure> {
        let own = crate::own_program()
            .map_err(|error| Failure::failed(format!("can't find the path of this program: {error}")))?;
        let node = node_command(&[own.to_string_lossy().into_owned()]);
        let back_end = match &self.back_end {
            Some(Words(words)) => words.clone(),
            None => self.serving(node.clone())?,
        };
        let mut ssh = ssh_default();
        ssh[0].clone_from(&self.ssh);
        ssh.extend(self.ssh_option.iter().cloned());
        let launcher = match (self.local, self.wait) {
            (true, _) => Launcher::Local,
            (_, true) => Launcher::Wait,
            _ => Launcher::Auto,
        };
        let mut options = UpOptions::new(node, back_end);
        options.launcher = launcher;
        options.ssh = ssh;
        options.remote_program.clone_from(&self.remote_program);
        options.timeout = self.timeout;
        options.allow_failures = self.allow_failures;
        options.token = Some(token.clone());
        options.listen.clone_from(&self.listen);
        options.advertise.clone_from(&self.advertise);
        // The front-end folds what its children give.
        options.node = known_services()
            .into_iter()
            .fold(Node::builder().workers(1), NodeBuilder::service)
            .learns(make_reduce);
        #[cfg(feature = "wasm")]
        {
            options.node = options.node.foreign(crate::foreign::guests());
        }
        if self.wait {
            options.on_ready = Some(announce_awaited(&options, topology, token, format));
        }
        let mut bar = Bar::new();
        options.on_progress = Some(Box::new(move |progress| bar.show(progress)));
        Ok(options)
    }

    /// Returns a back-end's command line: a node that serves the given services.
    fn serving(&self, mut node: Vec<String>) -> Result<Vec<String>, Failure> {
        for service in self.services() {
            let with_partition = one_each(service);
            // Refused once here, and not by every back-end.
            let example = with_partition.replace("{number}", "0").replace("{total}", "1");
            example.parse::<Serve>().map_err(Failure::Rejected)?;
            node.extend(["--serve".to_owned(), with_partition]);
        }
        Ok(node)
    }

    fn services(&self) -> impl Iterator<Item = &str> {
        let default = self.serve.is_empty().then_some(crate::serve::echo::SERVICE);
        self.serve.iter().map(String::as_str).chain(default)
    }
}

type OnReady = Box<dyn FnOnce(SocketAddr) + Send>;

fn announce_awaited(options: &UpOptions, topology: &Topology, token: &Token, format: Format) -> OnReady {
    let (inner, back_end) = (options.inner.clone(), options.back_end.clone());
    let (topology, token) = (topology.clone(), token.clone());
    Box::new(move |addr| {
        let lines = UpOptions::new(inner, back_end);
        let awaited = Awaited::new(lines.command_lines(&topology, addr), &token);
        match format {
            Format::Text => print(awaited.text()),
            Format::Json => print_json(&awaited),
        }
    })
}

/// Reports events until a signal comes.
async fn keep_up(network: &mut Network, signals: &mut Signals) {
    loop {
        tokio::select! {
            event = network.event() => match event {
                Some(event) => tell(&event),
                None => break,
            },
            () = signals.next() => break,
        }
    }
}

/// Runs a command until it ends.
async fn run_beside(
    network: &mut Network,
    command: &[String],
    token: &Token,
    signals: &mut Signals,
) -> Result<Verdict, Failure> {
    let started = tokio::process::Command::new(&command[0])
        .args(&command[1..])
        .env(AT_VARIABLE, network.node().addr().to_string())
        .env(TOKEN_VARIABLE, token.reveal())
        .env_remove(KEYS_VARIABLE)
        .kill_on_drop(true)
        .spawn();
    let mut child = started.map_err(|error| Failure::failed(format!("{}: {error}", command[0])))?;
    let status = loop {
        tokio::select! {
            status = child.wait() => break Some(status),
            () = signals.next() => break None,
            Some(event) = network.event() => tell(&event),
        }
    };
    match status {
        None => Ok(Verdict::Full),
        Some(Ok(status)) if status.success() => Ok(Verdict::Full),
        Some(Ok(status)) => Err(Failure::failed(format!("{}: {status}", command[0]))),
        Some(Err(error)) => Err(Failure::failed(format!("{}: {error}", command[0]))),
    }
}

fn tell(event: &NetworkEvent) {
    match event {
        NetworkEvent::Lost(failed) => crate::tell!("treefold: {failed}"),
        NetworkEvent::Came { place } => crate::tell!("treefold: {place}: attached"),
        NetworkEvent::TurnedAway { from, why } => crate::tell!("treefold: refused {from}: {why}"),
        NetworkEvent::Missed { events } => crate::tell!("treefold: {events} further events were lost"),
        _ => {}
    }
}

/// Draws a token at random.
pub(crate) fn drawn_token() -> Result<Token, Failure> {
    Token::drawn().map_err(|error| {
        Failure::failed(format!("can't draw a random token: {error}; give one with --token"))
    })
}
