//! The settings of a run, completed from the command line: paths, link speeds and durations.

use std::path::PathBuf;

/// A client's host represents several machines: the paper has five in each rack.
const CLIENT_EDGES: u32 = 5;

/// The settings of one run of this program.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) treefold: PathBuf,
    pub(crate) folder: PathBuf,
    /// Number of files of the folder that are indexed.
    pub(crate) files: u64,
    pub(crate) edge_mbit: u32,
    pub(crate) relay_mbit: u32,
    pub(crate) uplink_mbit: u32,
    /// Of each measurement.
    pub(crate) seconds: f64,
    pub(crate) repeats: u32,
    pub(crate) quick: bool,
    /// Only these series of an experiment; empty means all.
    pub(crate) series: Vec<String>,
}

impl Settings {
    /// Returns whether a series is measured.
    pub(crate) fn wants(&self, series: &str) -> bool {
        self.series.is_empty() || self.series.iter().any(|wanted| wanted == series)
    }

    /// Returns the speed of a client's link.
    pub(crate) fn client_mbit(&self) -> u32 {
        self.edge_mbit.saturating_mul(CLIENT_EDGES)
    }
}

/// Returns the treefold beside this program, where cargo puts both.
pub(crate) fn treefold_beside() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.with_file_name("treefold");
    beside.is_file().then_some(beside)
}

/// Finds a folder with much real text: the sources of the crates this was built from, otherwise the installed
/// documentation.
pub(crate) fn folder_default() -> Option<PathBuf> {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let sources = cargo.map(|cargo| cargo.join("registry").join("src"));
    let holds_something = |path: &PathBuf| path.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    sources.into_iter().chain([PathBuf::from("/usr/share/doc")]).find(holds_something)
}
