//! The hosts of a made topology's processes: the flags that all layouts share.

use super::shown;
use super::source::Source;
use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::Args;
use treefold::CallError;
use treefold_network::topology::Bounds;
use treefold_network::topology::generate::{GenerateError, Layout, Placement, generate};
use treefold_network::topology::host::{Host, SLOTS_MAX, parse_hosts};
use treefold_network::topology::write::Form;

/// The flag for the hosts of the back-ends.
#[derive(Debug, Args)]
pub(super) struct HostsFlag {
    /// Hosts of the back-ends: node[01-16]:2,gpu1 (ranges; slots after a colon), or @FILE with one host per
    /// line, @- for standard input [default: all on localhost]
    #[arg(long, value_name = "LIST|@FILE")]
    hosts: Option<String>,
}

/// The other flags.
#[derive(Debug, Args)]
pub(super) struct Places {
    /// Number of back-ends [default: one for each slot]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    back_ends: Option<u32>,

    /// Number of back-ends on each host that is listed without a number of slots
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(SLOTS_MAX)))]
    slots: u32,

    /// Hosts of the inner processes, as in --hosts [default: each on the host of the first back-end below it]
    #[arg(long, value_name = "LIST|@FILE")]
    inner_hosts: Option<String>,

    /// Host of the front-end
    #[arg(long, value_name = "HOST", default_value = "localhost", value_parser = front_end)]
    front_end: Host,

    /// Write every process separately, without ranges, in the format that MRNet reads
    #[arg(long)]
    plain: bool,
}

fn front_end(name: &str) -> Result<Host, CallError> {
    Host::new(name)
        .map_err(|error| CallError::bad_field("front_end", name, format_args!("a host's name ({error})")))
}

impl HostsFlag {
    /// Returns the hosts; `None` without the flag.
    pub(super) fn read(&self) -> Result<Option<Vec<Host>>, Failure> {
        self.hosts.as_deref().map(|given| hosts_of("hosts", given)).transpose()
    }
}

impl Places {
    /// Makes the topology and prints it.
    ///
    /// Without hosts, all back-ends are on localhost.
    pub(super) fn make(
        &self,
        layout: &Layout,
        hosts: Option<Vec<Host>>,
        format: Format,
    ) -> Result<Verdict, Failure> {
        let (hosts, slots) = match hosts {
            Some(hosts) => (hosts, self.slots),
            None => {
                let wanted = layout.back_ends().or(self.back_ends.map(u64::from)).ok_or_else(|| {
                    Failure::usage("the number of back-ends is missing; give their hosts with --hosts, or their number with \
                         --back-ends")
                })?;
                let localhost = Host::new("localhost").expect("invariant: localhost is a name");
                (vec![localhost], u32::try_from(wanted).unwrap_or(u32::MAX))
            }
        };
        let inner_hosts = match &self.inner_hosts {
            Some(given) => hosts_of("inner_hosts", given)?,
            None => Vec::new(),
        };
        let placement = Placement {
            front_end: self.front_end.clone(),
            hosts,
            inner_hosts,
            slots,
            back_ends: self.back_ends,
        };
        let topology = generate(layout, &placement, &Bounds::DEFAULT).map_err(|error| refused(&error))?;
        let form = if self.plain { Form::Plain } else { Form::Terse };
        shown::print_made(layout, &topology, form, format);
        Ok(Verdict::Full)
    }
}

/// A layout that can't be made is an error of usage.
fn refused(error: &GenerateError) -> Failure {
    Failure::usage(error.to_string())
}

/// Reads a list of hosts, or the file named after `@`.
fn hosts_of(field: &str, given: &str) -> Result<Vec<Host>, Failure> {
    if let Some(path) = given.strip_prefix('@') {
        let source = Source::read(path)?;
        return parse_hosts(&source.text)
            .map_err(|problems| Failure::failed(format!("{}, {problems}", source.name)));
    }
    parse_hosts(given).map_err(|problems| {
        let wrong = &problems.first().kind;
        Failure::Rejected(CallError::bad_field(
            field,
            given,
            format_args!("hosts and ranges of hosts, as in node[01-16]:2,gpu1 ({wrong})"),
        ))
    })
}
