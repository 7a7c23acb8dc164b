//! Keys of a cluster, and keys that its authority would not issue.

use crate::finding::Setback;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use treefold::Right;
use treefold_certificates::{Authority, Grant, KeyFile, PRIVATE_FILE_MODE, Role, Services};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The address that certificates of legitimate nodes allow.
const PLACE: &str = "127.0.0.1";

/// An authority, and the folder of the files that it has issued.
pub(crate) struct Keys {
    directory: PathBuf,
    authority: Authority,
}

/// The time of a certificate's validity.
#[derive(Clone, Copy)]
pub(crate) enum Valid {
    Now,
    Before,
    Later,
}

impl Keys {
    /// A new authority for a cluster.
    pub(crate) fn new(directory: &Path, cluster: &str) -> Result<Self, Setback> {
        let authority = Authority::new(cluster).map_err(Setback::doing("make an authority"))?;
        Ok(Self { directory: directory.to_owned(), authority })
    }

    /// Issues a node's keys, for these addresses, or a client's, for none.
    pub(crate) fn issue(
        &self,
        name: &str,
        may: &[Right],
        at: Option<&str>,
        valid: Valid,
    ) -> Result<KeyFile, Setback> {
        let at = at.map(str::parse).transpose().map_err(Setback::doing("read a place"))?;
        let grant = Grant {
            cluster: self.authority.cluster().to_owned(),
            role: if at.is_some() { Role::Node } else { Role::Client },
            name: name.to_owned(),
            may: may.iter().copied().collect(),
            services: Services::Named(["micro".to_owned()].into_iter().collect()),
            at: at.into_iter().collect(),
        };
        let now = SystemTime::now();
        let (from, until) = match valid {
            Valid::Now => (now - DAY, now + DAY),
            Valid::Before => (now - 2 * DAY, now - DAY),
            Valid::Later => (now + DAY, now + 2 * DAY),
        };
        self.authority.issue_from(&grant, from, until).map_err(Setback::doing("issue keys"))
    }

    /// Issues keys as [`issue`](Self::issue) does, valid now, and writes their file.
    pub(crate) fn file(&self, name: &str, may: &[Right], at: Option<&str>) -> Result<PathBuf, Setback> {
        let path = self.directory.join(format!("{name}.pem"));
        let text = self.issue(name, may, at, Valid::Now)?.to_pem();
        let file =
            File::options().create(true).write(true).truncate(true).mode(PRIVATE_FILE_MODE).open(&path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(Setback::doing(format_args!("write {}", path.display())))?;
        Ok(path)
    }

    /// The file of a legitimate node.
    pub(crate) fn of_node(&self) -> Result<PathBuf, Setback> {
        self.file("node", &[Right::Join], Some(PLACE))
    }

    /// The file of a legitimate client.
    pub(crate) fn of_client(&self) -> Result<PathBuf, Setback> {
        self.file("client", &[Right::Call], None)
    }
}
