//! A store with the bucket `docs`, and clients of it.

use std::path::{Path, PathBuf};
use tempfile::TempDir;
use treefold_bench_store::{KEY, REGION, SECRET};
use treefold_objects::Folder;

pub(crate) struct Store {
    directory: TempDir,
    served: treefold_bench_store::Store,
}

impl std::ops::Deref for Store {
    type Target = treefold_bench_store::Store;

    fn deref(&self) -> &Self::Target {
        &self.served
    }
}

impl Store {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("docs")).unwrap();
        let served = treefold_bench_store::Store::start(directory.path(), "127.0.0.1:0").unwrap();
        Self { directory, served }
    }

    pub(crate) fn folder(&self, url: &str) -> Folder {
        folder_at(&self.addr().to_string(), url, SECRET)
    }

    /// Writes a file of the bucket into the store's directory.
    pub(crate) fn put(&self, name: &str, content: &[u8]) {
        let path = self.bucket().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn bucket(&self) -> PathBuf {
        self.directory.path().join("docs")
    }
}

pub(crate) fn folder_at(addr: &str, url: &str, secret: &str) -> Folder {
    let endpoint = format!("http://{addr}");
    let settings = [
        ("aws_endpoint_url", &endpoint[..]),
        ("aws_region", REGION),
        ("aws_access_key_id", KEY),
        ("aws_secret_access_key", secret),
    ];
    Folder::with_settings(url, &settings).unwrap()
}

/// The content of all files below a directory.
pub(crate) fn content(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(here) = open.pop() {
        for entry in std::fs::read_dir(here).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().to_string_lossy().into_owned();
                found.push((name, std::fs::read(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}
