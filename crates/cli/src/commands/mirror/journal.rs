//! The journal of `treefold mirror feed`.

use super::nats::NatsArgs;
use crate::exit::Failure;
use crate::parse;
use clap::Args;
use std::path::Path;
use std::time::Duration;
use treefold::CallError;
use treefold_feed::OriginOptions;
use treefold_journal::{Journal, JournalError, Opened, Options, Segments, Sync};

/// Bytes of one file of the journal. Whole files are forgotten, so a new origin sends about so many bytes again.
const SEGMENT_BYTES: u64 = 4 << 20;

/// The shortest interval between two syncs. Below it, a thread would do nothing else.
const INTERVAL_LEAST: Duration = Duration::from_millis(1);

/// How events are kept until the mirrors have them.
#[derive(Debug, Args)]
pub(super) struct JournalArgs {
    /// Directory of the journal, or nats://SERVER/STREAM for one in a JetStream stream; made if absent. With a journal that
    /// has events, the feed continues after them
    #[arg(long, value_name = "DIR")]
    journal: Option<String>,

    /// Servers that keep the stream of a journal, if the stream is made
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5), requires = "journal")]
    journal_replicas: u8,

    /// When the journal is forced to the disk: always (nothing acknowledged is lost), interval:TIME (a power cut may lose
    /// the last interval), never (a power cut may lose more). For a JetStream stream, sync_interval of the server decides
    /// [default: always]
    #[arg(long, value_name = "POLICY", value_parser = sync, requires = "journal")]
    sync: Option<Sync>,

    /// Mirrors that must have an event before it is acknowledged to its source. With 0, the loss of the origin's disk,
    /// or the death of an origin without a journal, loses acknowledged events
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(..=64))]
    copies: u32,
}

impl JournalArgs {
    /// Opens the journal, and reports torn records.
    pub(super) fn apply(&self, nats: &NatsArgs, options: &mut OriginOptions) -> Result<(), Failure> {
        options.copies = self.copies;
        let Some(place) = &self.journal else { return Ok(()) };
        options.journal = Some(match stream_of(place)? {
            Some((url, stream)) => {
                if self.sync.is_some() {
                    let message = "--sync is for a journal in a directory; for a stream, set sync_interval of nats-server";
                    return Err(Failure::usage(message));
                }
                nats.journal(url, stream, usize::from(self.journal_replicas))?
            }
            None => self.segments(Path::new(place))?,
        });
        Ok(())
    }

    fn segments(&self, directory: &Path) -> Result<Box<dyn Journal>, Failure> {
        let sync = self.sync.unwrap_or(Sync::Always);
        let settings = Options { sync, segment_bytes: SEGMENT_BYTES, ..Options::default() };
        let Opened { journal, torn } =
            Segments::open(directory, 0, settings).map_err(|error| not_opened(&error))?;
        if let Some(torn) = torn {
            let (segment, kept) = (torn.segment.display(), torn.kept.display());
            crate::tell!(
                "treefold: {segment}: a crash has torn the last {} bytes, from byte {} on; they are cut off, and kept in {kept}",
                torn.bytes,
                torn.offset
            );
        }
        Ok(Box::new(journal))
    }
}

pub(super) fn not_opened(error: &JournalError) -> Failure {
    Failure::failed(format!("the journal: {error}"))
}

/// The server and the stream that a journal's place names. `None` for a directory.
fn stream_of(place: &str) -> Result<Option<(String, String)>, Failure> {
    let Some((scheme, rest)) = place.split_once("://").filter(|(scheme, _)| ["nats", "tls"].contains(scheme))
    else {
        return Ok(None);
    };
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    match rest.split_once('/') {
        Some((addr, stream)) if !addr.is_empty() && !stream.is_empty() && stream.chars().all(is_allowed) => {
            Ok(Some((format!("{scheme}://{addr}"), stream.to_owned())))
        }
        _ => Err(Failure::usage(format!(
            "journal `{place}` has no address or no name of a stream; expected nats://SERVER/STREAM, as in \
             nats://127.0.0.1:4222/JOURNAL, with letters, digits, _ and - in the name"
        ))),
    }
}

fn sync(text: &str) -> Result<Sync, CallError> {
    match text.split_once(':') {
        None if text == "always" => Ok(Sync::Always),
        None if text == "never" => Ok(Sync::Never),
        Some(("interval", time)) if parse::duration(time)? >= INTERVAL_LEAST => {
            Ok(Sync::Interval(parse::duration(time)?))
        }
        _ => Err(CallError::bad_field(
            "sync",
            text,
            "always, never, or interval:TIME of at least 1ms, as in interval:100ms",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_of_a_journal_is_a_directory_or_a_stream() {
        let stream = |place: &str| stream_of(place).ok();
        assert_eq!(stream("flights.journal"), Some(None));
        assert_eq!(stream("/a/b"), Some(None));
        let found = Some(Some(("nats://one:1,two:2".to_owned(), "JOURNAL".to_owned())));
        assert_eq!(stream("nats://one:1,two:2/JOURNAL"), found);
        for wrong in ["nats://one:1", "nats:///JOURNAL", "nats://one:1/a.b", "nats://one:1/"] {
            assert_eq!(stream(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn policies_are_read_and_others_refused() {
        assert_eq!(sync("always").unwrap(), Sync::Always);
        assert_eq!(sync("never").unwrap(), Sync::Never);
        assert_eq!(sync("interval:100ms").unwrap(), Sync::Interval(Duration::from_millis(100)));
        for wrong in ["", "often", "interval", "interval:", "interval:often", "interval:0s", "always:1s"] {
            assert!(sync(wrong).is_err(), "{wrong}");
        }
    }
}
