//! The folders and files that a service of a node reads and writes, for checks before the node starts.

use super::{Serve, What};
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

impl Serve {
    /// The folders and files of the service.
    pub(crate) fn folders(&self) -> Vec<Folder> {
        match &self.what {
            What::Search(corpus, _) => {
                let default = || treefold_search::data_directory(&corpus.folder, self.total).ok();
                let index = corpus.data.clone().or_else(default);
                let index = index.map(|path| Folder { path, setting: "data", written: true });
                std::iter::once(read(&corpus.folder)).chain(index).collect()
            }
            What::Sql(tables) => vec![read(&tables.folder)],
            #[cfg(feature = "objects")]
            What::Stored(stored) => {
                let written = |path| Folder { path, setting: "data", written: true };
                stored.directory().map(written).into_iter().collect()
            }
            What::Mirror(_, wish) => {
                let parent = wish.promises.as_deref().and_then(Path::parent);
                let folder =
                    |path: &Path| Folder { path: path.to_owned(), setting: "promises", written: true };
                parent.map(folder).into_iter().collect()
            }
            #[cfg(feature = "vectors")]
            What::Near(near) => {
                let data =
                    near.data().map(|path| Folder { path: path.clone(), setting: "data", written: true });
                near.sources().into_iter().map(read).chain(data).collect()
            }
            What::Micro(_) | What::Echo | What::Hosts(_) | What::Daemon | What::Exec(_) => Vec::new(),
        }
    }
}

fn read(path: &Path) -> Folder {
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
