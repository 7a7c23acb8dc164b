//! The folders and files that a service of a node reads and writes, for checks before the node starts.

use std::path::{Path, PathBuf};

/// A folder or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    /// The setting that names it.
    pub(crate) setting: &'static str,
    /// True if the node writes there.
    pub(crate) written: bool,
}

impl Folder {
    /// A folder that the node writes to.
    pub(super) fn written(path: PathBuf, setting: &'static str) -> Self {
        Self { path, setting, written: true }
    }
}

/// A folder or file that `--serve` names.
pub(super) fn read(path: &Path) -> Folder {
    Folder { path: before_placeholder(path), setting: "serve", written: false }
}

/// The path up to the first part that differs between partitions.
fn before_placeholder(path: &Path) -> PathBuf {
    let fixed: PathBuf =
        path.components().take_while(|part| !part.as_os_str().to_string_lossy().contains('{')).collect();
    if fixed.as_os_str().is_empty() { PathBuf::from(".") } else { fixed }
}

#[cfg(test)]
mod tests {
    use super::super::Serve;
    use super::*;

    fn folders(text: &str) -> Vec<Folder> {
        text.parse::<Serve>().unwrap().folders()
    }

    #[test]
    fn a_search_reads_its_folder_and_writes_its_index() {
        let [corpus, index] = folders("search=/srv/docs:partitions=0/2:data=/var/idx").try_into().unwrap();
        assert_eq!((corpus.path, corpus.written), ("/srv/docs".into(), false));
        assert_eq!((index.path, index.written), ("/var/idx".into(), true));
        assert!(folders("micro:partitions=0/2").is_empty());
    }

    #[test]
    fn a_folder_of_each_partition_is_checked_above_them() {
        assert_eq!(before_placeholder(Path::new("/srv/{partition}/a")), Path::new("/srv"));
        assert_eq!(before_placeholder(Path::new("part-{partition}.npy")), Path::new("."));
    }
}
