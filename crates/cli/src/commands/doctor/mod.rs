//! `treefold doctor`: checks this host and a running cluster, and says what to do about each problem.
//!
//! - [`finding`]: the results. [`nodes`] asks nodes, many at once; [`udp`] asks them by UDP.
//! - Of this host: [`open_files`], [`machine`], [`folders`], [`clock`], [`certificate`], [`port`], [`system`].
//! - Of the cluster: [`greeting`], [`clocks`], [`cluster`].

mod certificate;
mod clock;
mod clocks;
mod cluster;
mod finding;
mod folders;
mod greeting;
mod machine;
mod nodes;
mod open_files;
mod port;
mod system;
mod udp;

use crate::args::AT_VARIABLE;
use crate::commands::node::settings;
use crate::config::{NodeFile, Problem, Settled};
use crate::exit::{Failure, Verdict};
use crate::output::style::Style;
use crate::output::{Format, print, print_json};
use crate::serve::Serve;
use crate::serve::folders::Folder;
use crate::trust::{Given, KEYS_VARIABLE, Trust};
use clap::Args;
use finding::{Finding, Level, capped};
use nodes::Seen;
use serde::Serialize;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use treefold::parts::{Seed, lookup, resolve};
use treefold::{CLUSTER_DEFAULT, ClusterOptions};

/// Time to look up the address to listen at.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Check this host and a running cluster, and say what to do about each problem
///
/// It prints one line a check: ok, warn or fail, the state, and the thing to do. With --config it checks the host for the
/// node of that file; with --at it asks these nodes and the members that they see. The exit code is 1 if a check failed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Doctor {
    /// Nodes of a running cluster: HOST:PORT, dns:NAME:PORT, dns:_service._tcp.NAME, or @FILE with one of these on each line.
    /// Members that they see are asked too [default: `join` of the file]
    #[arg(
        long,
        value_name = "NODE",
        env = AT_VARIABLE,
        hide_env_values = true,
        value_delimiter = ',',
        value_parser = crate::parse::seed
    )]
    at: Vec<String>,

    /// Configuration file of the node on this host
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Folder that a process on this host writes, such as the journal of a feed; may be repeated
    #[arg(long = "folder", value_name = "DIR")]
    folders: Vec<PathBuf>,

    /// Most nodes to ask, those of --at first
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    nodes: u32,

    /// Time limit for each answer of a node
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = crate::parse::duration)]
    timeout: Duration,

    /// Name of the cluster [default: the file's, or treefold]
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  treefold doctor
  treefold doctor --config /etc/treefold/node.toml
  treefold doctor --at 10.0.0.1:7700,10.0.0.2:7700
  treefold doctor --at 10.0.0.1:7700 -o json | jq '.findings[] | select(.level != \"ok\")'";

#[derive(Serialize)]
struct Report {
    ok: usize,
    warn: usize,
    fail: usize,
    findings: Vec<Finding>,
}

impl Doctor {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let began = clock::Moment::now();
        let mut findings = Vec::new();
        let file = read(self.config.as_deref(), &mut findings);
        let cluster =
            self.cluster.clone().or(file.cluster.clone()).unwrap_or_else(|| CLUSTER_DEFAULT.to_owned());
        let options = trusted(&file, &cluster, &mut findings);
        let at = if self.at.is_empty() { &file.join } else { &self.at };
        let named = named(at, &mut findings).await;
        let (seen, cut) = ask(named, options.as_ref(), self.nodes as usize, self.timeout).await;
        let here = host(&file, self.config.is_some(), self.folders, &seen).await;
        findings.extend(here);
        findings.extend(began.check());
        if !seen.is_empty() {
            findings.extend(cut);
            findings.extend(nodes::check(&seen));
            findings.extend(greeting::check(&seen, &cluster));
            findings.extend(udp::check(&seen));
            findings.extend(clocks::check(&seen));
            findings.extend(cluster::check(&seen));
        }
        report(findings, format)
    }
}

/// Reads the file, if there is one. If it has problems, the checks go on with the defaults.
fn read(path: Option<&Path>, findings: &mut Vec<Finding>) -> NodeFile {
    let Some(path) = path else { return NodeFile::default() };
    let advice = "correct the file (docs/configuration.md); the other checks use the defaults";
    match Settled::read_all(path) {
        Ok(Ok(settled)) => {
            findings.push(match settings::check(&settled.file) {
                Ok(()) => Finding::ok("config", "the file is valid"),
                Err(refused) => Finding::fail("config", settled.problem(&refused).to_string(), advice),
            });
            let warning = |warning| Finding::warn("config", warning, "let only the user of the node read it");
            findings.extend(settled.warnings(path).into_iter().map(warning));
            return settled.file;
        }
        Ok(Err(problems)) => {
            let problem = |problem: &Problem| Finding::fail("config", problem.to_string(), advice);
            findings.extend(capped(problems.iter().map(problem).collect()));
        }
        Err(refused) => findings.push(Finding::fail("config", refused.to_string(), advice)),
    }
    NodeFile::default()
}

/// The options with which this host greets nodes; `None` if its keys or its token are not usable.
fn trusted(file: &NodeFile, cluster: &str, findings: &mut Vec<Finding>) -> Option<ClusterOptions> {
    let environment = std::env::var_os(KEYS_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Some(keys) = file.keys.clone().or(environment) {
        findings.push(certificate::check(&keys));
    }
    let given =
        Given { keys: file.keys.clone(), token: file.token.clone(), token_file: file.token_file.clone() };
    match Trust::given(given).and_then(|trust| trust.cluster(cluster)) {
        Ok(options) => Some(options),
        Err(refused) => {
            let advice = "correct this first: no node was greeted";
            findings.push(Finding::fail("trust", refused.to_string(), advice));
            None
        }
    }
}

/// The nodes that are meant: each address that a name in DNS or a file has, and all others as they are given.
async fn named(at: &[String], findings: &mut Vec<Finding>) -> Vec<String> {
    let mut nodes = Vec::new();
    for given in at {
        if Seed::name_in_dns(given).is_none() && !given.starts_with('@') {
            nodes.push(given.clone());
            continue;
        }
        let found = lookup(given).await;
        if let Some(problem) = found.problem {
            let advice = "correct the name, its entry in DNS, or the file";
            findings.push(Finding::fail("lookup", format!("{given}: {problem}"), advice));
        }
        nodes.extend(found.addrs.iter().map(ToString::to_string));
    }
    nodes
}

/// Asks the named nodes, then other members that they see. Returns a finding too if there are more members than are asked.
async fn ask(
    mut named: Vec<String>,
    options: Option<&ClusterOptions>,
    nodes_max: usize,
    limit: Duration,
) -> (Vec<Seen>, Option<Finding>) {
    named.truncate(nodes_max);
    let mut seen = nodes::ask(named, options, limit).await;
    let known: BTreeSet<SocketAddr> = seen
        .iter()
        .flat_map(|node| node.addr.into_iter().chain(node.facts().map(|facts| facts.node.addr)))
        .collect();
    let members = seen.iter().filter_map(Seen::facts).flat_map(|facts| &facts.members).map(|node| node.addr);
    let others: BTreeSet<SocketAddr> = members.filter(|addr| !known.contains(addr)).collect();
    let room = nodes_max.saturating_sub(seen.len());
    let all = seen.len() + others.len();
    let cut = (others.len() > room).then(|| {
        Finding::warn(
            "nodes",
            format!("{nodes_max} of {all} nodes are asked"),
            "raise --nodes to ask more of them",
        )
    });
    // Spread over all members, so that a part of the cluster is not left out.
    let step = others.len().div_ceil(room.max(1)).max(1);
    let others = others.into_iter().step_by(step).take(room).map(|addr| addr.to_string()).collect();
    seen.extend(nodes::ask(others, options, limit).await);
    (seen, cut)
}

/// The checks of this host.
async fn host(file: &NodeFile, has_file: bool, written: Vec<PathBuf>, seen: &[Seen]) -> Vec<Finding> {
    let limits = file.limits.clone().unwrap_or_default();
    let mut findings = open_files::check(&limits, file.gateway.connections_max());
    findings.extend(machine::check(&limits, file.processors));
    findings.extend(system::check());
    let written = written.into_iter().map(|path| Folder { path, setting: "--folder", written: true });
    let mut folders: Vec<Folder> = written.collect();
    for text in &file.serve {
        match text.parse::<Serve>() {
            Ok(serve) => folders.extend(serve.folders()),
            Err(refused) => {
                findings.push(Finding::fail("config", refused.to_string(), "correct `serve` in the file"));
            }
        }
    }
    if let Some(parent) = file.record.as_deref().and_then(|path| path.parent()) {
        folders.push(Folder { path: parent.to_owned(), setting: "record", written: true });
    }
    findings.extend(folders::check(folders).await);
    if has_file {
        findings.extend(listening(file, seen).await);
    }
    findings
}

/// The checks of the address that the node of the file listens at.
async fn listening(file: &NodeFile, seen: &[Seen]) -> Vec<Finding> {
    let given = file.listen.as_deref().unwrap_or(crate::commands::node::LISTEN_DEFAULT);
    let advice = "correct `listen` in the file";
    let looked = tokio::time::timeout(LOOKUP_TIMEOUT, resolve(given)).await;
    let addr = match looked {
        Ok(Ok(addrs)) => addrs[0],
        Ok(Err(error)) => return vec![Finding::fail("listen", error.to_string(), advice)],
        Err(_) => {
            return vec![Finding::fail("listen", format!("{given} can't be looked up in time"), advice)];
        }
    };
    let nodes: Vec<SocketAddr> =
        seen.iter().filter(|node| node.facts().is_some()).filter_map(|node| node.addr).collect();
    let mut findings = port::check(given, addr, &nodes);
    findings.extend(system::container(Some(addr), file.advertise.as_deref()));
    findings
}

fn report(findings: Vec<Finding>, format: Format) -> Result<Verdict, Failure> {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let report =
        Report { ok: count(Level::Ok), warn: count(Level::Warn), fail: count(Level::Fail), findings };
    match format {
        Format::Json => print_json(&report),
        Format::Text => {
            let style = Style::of_stdout();
            report.findings.iter().for_each(|finding| print(finding.line(style)));
        }
    }
    match report.fail {
        0 => Ok(Verdict::Full),
        fail => Err(Failure::Told(format!("{fail} of {} checks failed", report.findings.len()))),
    }
}
