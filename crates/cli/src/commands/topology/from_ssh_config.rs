//! `treefold topology from-ssh-config`: any layout over the hosts that `ssh` knows.

use super::places::Places;
use super::source::Source;
use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::Args;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use treefold::CallError;
use treefold_network::topology::generate::{LAYOUT_NAMES, Layout};
use treefold_network::topology::host::Host;
use treefold_network::topology::ssh_config::{SshConfigFile, fits, read_ssh_config};

/// Make a topology over the hosts that an ssh configuration names
///
/// Hosts are the names behind Host that are no patterns, included files' too. What is left out (Match blocks, an
/// Include that holds for one host only) is told on standard error.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FromSshConfig {
    /// The configuration; - is standard input [default: ~/.ssh/config]
    #[arg(value_name = "FILE")]
    file: Option<String>,

    /// How processes are arranged: flat, kary:K, binomial, binomial:N, balanced:SHAPE
    #[arg(long, value_name = "LAYOUT", default_value = "kary:8", value_parser = layout)]
    layout: Layout,

    /// Take hosts that fit this pattern (* and ?) only; may be repeated
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,

    /// Leave out hosts that fit this pattern; may be repeated
    #[arg(long, value_name = "PATTERN")]
    except: Vec<String>,

    #[command(flatten)]
    places: Places,
}

const EXAMPLES: &str = "\
Examples:
  treefold topology from-ssh-config --only 'node*'
  treefold topology from-ssh-config cluster.conf --layout flat --except '*-gw'";

fn layout(text: &str) -> Result<Layout, CallError> {
    text.parse().map_err(|_| CallError::bad_field("layout", text, LAYOUT_NAMES))
}

impl FromSshConfig {
    pub(super) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let path = self.path()?;
        let source = Source::read(&path)?;
        let file = SshConfigFile { name: source.name, text: source.text };
        let directory = directory_of_includes(&path);
        let found = read_ssh_config(&file, &mut |pattern| included(pattern, directory.as_deref()))
            .map_err(|error| Failure::failed(error.to_string()))?;
        found.remarks.iter().for_each(|remark| eprintln!("treefold: {remark}"));
        let hosts: Vec<Host> = found
            .hosts
            .iter()
            .filter(|name| self.takes(name))
            .filter_map(|name| Host::new(name).ok())
            .collect();
        if hosts.is_empty() {
            let (file, all) = (&file.name, found.hosts.len());
            return Err(Failure::failed(match all {
                0 => format!("{file} names no hosts"),
                all => format!("{file} names {all} hosts, and --only and --except leave none"),
            }));
        }
        self.places.make(&self.layout, Some(hosts), format)
    }

    fn path(&self) -> Result<String, Failure> {
        if let Some(file) = &self.file {
            return Ok(file.clone());
        }
        let home = home().ok_or_else(|| Failure::usage("which FILE? HOME is not set"))?;
        Ok(Path::new(&home).join(".ssh/config").to_string_lossy().into_owned())
    }

    fn takes(&self, name: &Arc<str>) -> bool {
        let fits_any = |patterns: &[String]| patterns.iter().any(|pattern| fits(pattern, name));
        (self.only.is_empty() || fits_any(&self.only)) && !fits_any(&self.except)
    }
}

fn home() -> Option<OsString> {
    std::env::var_os("HOME").filter(|home| !home.is_empty())
}

/// Where relative paths of an Include begin: beside the system's own configuration, else in ~/.ssh, whatever the
/// file. That is OpenSSH's rule.
fn directory_of_includes(path: &str) -> Option<PathBuf> {
    let system = Path::new("/etc/ssh");
    if Path::new(path).starts_with(system) {
        return Some(system.to_owned());
    }
    home().map(|home| Path::new(&home).join(".ssh"))
}

/// The files that an Include asks for, in the order of their names.
fn included(pattern: &str, directory: Option<&Path>) -> io::Result<Vec<SshConfigFile>> {
    let unknown = || io::Error::new(io::ErrorKind::NotFound, "HOME is not set");
    let path = match pattern.strip_prefix("~/") {
        Some(rest) => Path::new(&home().ok_or_else(unknown)?).join(rest),
        None if Path::new(pattern).is_absolute() => PathBuf::from(pattern),
        None => directory.ok_or_else(unknown)?.join(pattern),
    };
    let invalid = |error: glob::PatternError| io::Error::new(io::ErrorKind::InvalidInput, error);
    let paths = glob::glob(&path.to_string_lossy()).map_err(invalid)?;
    let read = |path: PathBuf| {
        let source =
            Source::read(&path.to_string_lossy()).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(SshConfigFile { name: source.name, text: source.text })
    };
    // Directories that a pattern happens to fit are nothing to read.
    let files = paths.filter(|path| path.as_ref().map_or(true, |path| path.is_file()));
    files.map(|path| read(path.map_err(io::Error::from)?)).collect()
}
