//! Prints a network: its processes, the processes it waits for, and the processes that failed.

use super::AT_VARIABLE;
use crate::exit::Failure;
use crate::output::{Format, print_json};
use crate::trust::TOKEN_VARIABLE;
use serde::Serialize;
use std::time::Duration;
use treefold_gateway::Gateway;
use treefold_network::Network;
use treefold_network::launch::command::{quote, quote_all};
use treefold_network::launch::{Failed, Token, UpError};
use treefold_network::topology::{Process, Role};

/// Largest number of failures printed as text; JSON has all.
const FAILURES_SHOWN_MAX: usize = 10;

/// A running network.
#[derive(Serialize)]
pub(super) struct Summary {
    front_end: String,
    token: String,
    started_ms: f64,
    processes: usize,
    back_ends: usize,
    inner: usize,
    failed: Vec<Loss>,
    places: Vec<Place>,
    /// The beginning of the gateway's addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<String>,
}

/// A process and its address.
#[derive(Serialize)]
struct Place {
    process: String,
    role: &'static str,
    addr: Option<String>,
}

#[derive(Serialize)]
struct Loss {
    process: String,
    host: String,
    what: String,
    last_words: Vec<String>,
}

impl Loss {
    fn of(failed: &Failed) -> Self {
        let host = failed.place.rsplit_once(':').map_or(failed.place.as_str(), |(host, _)| host);
        let (process, what) = (failed.place.clone(), failed.what.clone());
        Self { process, host: host.to_owned(), what, last_words: failed.last_words.clone() }
    }
}

impl Summary {
    pub(super) fn of(network: &Network, token: &Token, gateway: Option<&Gateway>) -> Self {
        let processes = network.topology().processes();
        let count = |role| processes.iter().filter(|process| process.role == role).count();
        let place = |(process, addr): (&Process, Option<std::net::SocketAddr>)| Place {
            process: process.name(),
            role: process.role.name(),
            addr: addr.map(|addr| addr.to_string()),
        };
        Self {
            front_end: network.node().addr().to_string(),
            token: token.reveal().to_owned(),
            started_ms: ms(network.took()),
            processes: processes.len(),
            back_ends: count(Role::BackEnd),
            inner: count(Role::Inner),
            failed: network.failures().iter().map(Loss::of).collect(),
            places: processes.iter().zip(network.addrs()).map(place).collect(),
            gateway: gateway.map(Gateway::url),
        }
    }

    pub(super) fn text(&self) -> String {
        let lacking = match self.failed.len() {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let gateway = self.gateway.as_ref().map_or_else(String::new, |url| format!("\ngateway at {url}"));
        format!(
            "{} processes up in {:.0} ms: {} back-ends, {} inner{lacking}\n{AT_VARIABLE}={}\n{TOKEN_VARIABLE}={}{gateway}",
            self.places.iter().filter(|place| place.addr.is_some()).count(),
            self.started_ms,
            self.back_ends,
            self.inner,
            self.front_end,
            quote(&self.token),
        )
    }
}

fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// Command lines of the processes to start.
#[derive(Serialize)]
pub(super) struct Awaited {
    awaited: Vec<AwaitedProcess>,
}

#[derive(Serialize)]
struct AwaitedProcess {
    process: String,
    host: String,
    command: String,
}

impl Awaited {
    pub(super) fn new<'a>(lines: impl Iterator<Item = (&'a Process, Vec<String>)>, token: &Token) -> Self {
        let prefix = format!("{TOKEN_VARIABLE}={}", quote(token.reveal()));
        let one = |(process, words): (&Process, Vec<String>)| AwaitedProcess {
            process: process.name(),
            host: process.host.to_string(),
            command: format!("{prefix} {}", quote_all(&words)),
        };
        Self { awaited: lines.map(one).collect() }
    }

    /// Returns one line for each process: the host, a tab, and the command to run there.
    pub(super) fn text(&self) -> String {
        let line = |one: &AwaitedProcess| format!("{}\t{}", one.host, one.command);
        self.awaited.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Formats failures, one per line, each with the last output of the process.
pub(super) fn failures_text(failed: &[Failed]) -> String {
    let mut lines: Vec<String> = failed.iter().take(FAILURES_SHOWN_MAX).map(ToString::to_string).collect();
    if failed.len() > FAILURES_SHOWN_MAX {
        lines.push(format!("and {} more; -o json shows all", failed.len() - FAILURES_SHOWN_MAX));
    }
    lines.join("\n")
}

/// Converts the failure of a start.
///
/// In JSON it prints every process that failed.
pub(super) fn refused(error: &UpError, format: Format) -> Failure {
    let UpError::Failed { failed, started, total } = error else {
        return Failure::failed(error.to_string());
    };
    let text = format!("{started} of {total} processes came up\n{}", failures_text(failed));
    if format == Format::Text {
        return Failure::failed(text);
    }
    #[derive(Serialize)]
    struct Refusal {
        started: usize,
        total: usize,
        failed: Vec<Loss>,
    }
    print_json(&Refusal { started: *started, total: *total, failed: failed.iter().map(Loss::of).collect() });
    Failure::Told(text)
}
