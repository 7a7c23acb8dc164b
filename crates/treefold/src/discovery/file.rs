//! Files of addresses: one text on each line.

use super::{Found, Seed, take_some};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Instant;
use treefold_operators::text::unmarked;

/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Looks up what the lines of a file say. A wrong line is a problem, but the others count.
pub(super) fn find(path: &Path, give_up_at: Instant) -> Found {
    let text = match read(path) {
        Ok(text) => text,
        Err(error) => return Err(error).into(),
    };
    let mut found = Found::default();
    let mut seeds = Vec::new();
    for (at, line) in unmarked(&text).lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        match Seed::parse(line) {
            _ if line.is_empty() => {}
            Ok(Seed::File(_)) => found.complain(at, line, "a file can't name another file"),
            Ok(seed) => seeds.push((at, line, seed)),
            Err(problem) => found.complain(at, line, problem),
        }
    }
    take_some(&mut seeds);
    for (at, line, seed) in seeds {
        if Instant::now() >= give_up_at {
            break;
        }
        let Found { addrs, problem } = seed.find(give_up_at);
        found.addrs.extend(addrs);
        if let Some(problem) = problem {
            found.complain(at, line, &problem.to_string());
        }
    }
    found
}

impl Found {
    /// Remembers the first problem of a file.
    fn complain(&mut self, at: usize, line: &str, problem: &str) {
        let problem = format!("line {}, {line:?}: {problem}", at + 1);
        self.problem.get_or_insert_with(|| io::Error::new(io::ErrorKind::InvalidData, problem));
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let problem = format!("the file is too long; allowed: at most {FILE_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::{ADDRS_PER_NAME_MAX, lookup};
    use std::io::Write;

    async fn found(text: &str) -> Found {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        lookup(&format!("@{}", file.path().display())).await
    }

    #[tokio::test]
    async fn lines_are_addresses_and_comments() {
        let found = found("\u{feff}10.0.0.1:7700\r\n# the first rack\n\n  10.0.0.2:7700 # new\r\n\r\n").await;
        assert_eq!(found.addrs, ["10.0.0.1:7700", "10.0.0.2:7700"].map(|addr| addr.parse().unwrap()));
        assert!(found.problem.is_none());
    }

    #[tokio::test]
    async fn a_wrong_line_is_named_and_the_others_count() {
        let found = found("10.0.0.1:7700\n@other\nnonsense\n").await;
        assert_eq!(found.addrs, ["10.0.0.1:7700".parse().unwrap()]);
        let problem = found.problem.unwrap().to_string();
        assert_eq!(problem, r#"line 2, "@other": a file can't name another file"#);
    }

    #[tokio::test]
    async fn long_files_are_bounded() {
        let line = |at: u32| format!("10.{}.{}.{}:7700\n", at >> 16, (at >> 8) & 255, at & 255);
        let many: String = (1..=10_000).map(line).collect();
        let taken = found(&many).await;
        assert_eq!(taken.addrs.len(), ADDRS_PER_NAME_MAX);
        let too_long = found(&"# nothing\n".repeat(200_000)).await;
        assert!(too_long.problem.unwrap().to_string().contains("at most 1048576 bytes"));
    }

    #[tokio::test]
    async fn an_absent_file_is_a_problem() {
        let absent = lookup("@/no/such/file").await;
        assert!(absent.addrs.is_empty());
        assert_eq!(absent.problem.unwrap().kind(), io::ErrorKind::NotFound);
    }
}
