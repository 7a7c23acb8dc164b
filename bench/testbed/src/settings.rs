//! What the command line says, made whole: where things are, how fast links are, how long to measure.

use std::path::PathBuf;

/// Clients' machines stand for several: the paper has five in each rack.
const CLIENT_EDGES: u32 = 5;

/// How one run of this program is to be made.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) treefold: PathBuf,
    pub(crate) folder: PathBuf,
    /// How many files of the folder are indexed.
    pub(crate) files: u64,
    pub(crate) edge_mbit: u32,
    pub(crate) relay_mbit: u32,
    pub(crate) uplink_mbit: u32,
    /// Of each measurement.
    pub(crate) seconds: f64,
    pub(crate) repeats: u32,
    pub(crate) quick: bool,
    /// Only these series of an experiment; all when there are none.
    pub(crate) series: Vec<String>,
}

impl Settings {
    /// Whether a series is to be measured.
    pub(crate) fn wants(&self, series: &str) -> bool {
        self.series.is_empty() || self.series.iter().any(|wanted| wanted == series)
    }

    /// Of a client's link.
    pub(crate) fn client_mbit(&self) -> u32 {
        self.edge_mbit.saturating_mul(CLIENT_EDGES)
    }
}

/// The treefold beside this program, which is where cargo puts both.
pub(crate) fn treefold_beside() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.with_file_name("treefold");
    beside.is_file().then_some(beside)
}

/// A folder with much real text: the sources of the crates this was built from, else the documentation that packages
/// bring.
pub(crate) fn folder_default() -> Option<PathBuf> {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let sources = cargo.map(|cargo| cargo.join("registry").join("src"));
    let holds_something = |path: &PathBuf| path.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    sources.into_iter().chain([PathBuf::from("/usr/share/doc")]).find(holds_something)
}
