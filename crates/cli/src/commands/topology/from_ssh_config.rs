//! `treefold topology from-ssh-config`: makes a topology over the hosts of an ssh configuration.

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
/// Hosts are the names after Host that are not patterns, also in included files. Parts that are skipped
/// (Match blocks, an Include that holds for one host only) are reported on standard error.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FromSshConfig {
    /// Configuration to read; - for standard input [default: ~/.ssh/config]
    #[arg(value_name = "FILE")]
    file: Option<String>,

    /// Arrangement of the processes: flat, kary:K, binomial, binomial:N, balanced:SHAPE
    #[arg(long, value_name = "LAYOUT", default_value = "kary:8", value_parser = layout)]
    layout: Layout,

    /// Pattern (with * and ?) of the hosts to take; may be repeated
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,

    /// Pattern of hosts to leave out; may be repeated
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
        found.remarks.iter().for_each(|remark| crate::tell!("treefold: {remark}"));
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
                all => format!(
                    "{file} names {all} hosts, but --only and --except leave none; change the patterns"
                ),
            }));
        }
        self.places.make(&self.layout, Some(hosts), format)
    }

    fn path(&self) -> Result<String, Failure> {
        if let Some(file) = &self.file {
            return Ok(file.clone());
        }
        let home =
            home().ok_or_else(|| Failure::usage("HOME is not set; give the FILE of the configuration"))?;
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

/// Returns the directory of relative paths in an Include: beside the system's own configuration, otherwise
/// ~/.ssh, for any file.
///
/// That is OpenSSH's rule.
fn directory_of_includes(path: &str) -> Option<PathBuf> {
    let system = Path::new("/etc/ssh");
    if Path::new(path).starts_with(system) {
        return Some(system.to_owned());
    }
    home().map(|home| Path::new(&home).join(".ssh"))
}

/// Reads the files that an Include names, in the order of their names.
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
    // A pattern may also match directories, which are skipped.
    let files = paths.filter(|path| path.as_ref().map_or(true, |path| path.is_file()));
    files.map(|path| read(path.map_err(io::Error::from)?)).collect()
}
