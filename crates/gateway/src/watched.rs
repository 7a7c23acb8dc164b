//! A file that is read again when it has changed.
//!
//! A changed file that cannot be used is logged, and the former content stays in use: a slip of the editor must not lock
//! everybody out, nor let anybody in.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio::time::sleep;

/// Pause between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The time of the last change, and the length, of each file. `None` if it cannot be seen.
type Marks = Vec<Option<(SystemTime, u64)>>;
/// Reads the content again, given the former content.
type Load<T> = Box<dyn Fn(Option<&T>) -> Result<T, String> + Send + Sync>;

/// The content of some files.
pub(crate) struct Watched<T> {
    paths: Vec<PathBuf>,
    load: Load<T>,
    content: RwLock<Arc<T>>,
    /// The marks of the content in use.
    read_at: Marks,
}

impl<T> Debug for Watched<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Watched<T> {
    pub(crate) fn new(paths: Vec<PathBuf>, content: T, read_at: Marks, load: Load<T>) -> Arc<Self> {
        Arc::new(Self { paths, load, content: RwLock::new(Arc::new(content)), read_at })
    }

    /// The present content.
    pub(crate) fn content(&self) -> Arc<T> {
        Arc::clone(&self.content.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks at the files until the gateway has ended.
    pub(crate) async fn follow(watched: Arc<Self>, mut ended: watch::Receiver<()>) {
        let mut seen = watched.read_at.clone();
        loop {
            tokio::select! {
                _ = ended.changed() => return,
                () = sleep(LOOK_EVERY) => {}
            }
            let marks = marks_of(&watched.paths);
            if marks != seen {
                seen = marks;
                watched.read_again();
            }
        }
    }

    fn read_again(&self) {
        match (self.load)(Some(&self.content())) {
            Ok(content) => {
                *self.content.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(content);
                tracing::info!(paths = ?self.paths, "read again");
            }
            Err(problem) => {
                tracing::warn!(%problem, "a changed file can't be used; its former content stays in use");
            }
        }
    }
}

/// The marks of files, to be taken before the files are read.
pub(crate) fn marks_of(paths: &[PathBuf]) -> Marks {
    let mark = |path: &PathBuf| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    paths.iter().map(mark).collect()
}
