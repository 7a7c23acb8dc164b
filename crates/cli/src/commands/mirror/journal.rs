//! The journal of `treefold mirror feed`.

use crate::exit::Failure;
use crate::parse;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use treefold::CallError;
use treefold_feed::OriginOptions;
use treefold_journal::{JournalError, Opened, Options, Segments, Sync};

/// Bytes of one file of the journal. Whole files are forgotten, so a new origin sends about so many bytes again.
const SEGMENT_BYTES: u64 = 4 << 20;

/// The shortest interval between two syncs. Below it, a thread would do nothing else.
const INTERVAL_LEAST: Duration = Duration::from_millis(1);

/// How events are kept until the mirrors have them.
#[derive(Debug, Args)]
pub(super) struct JournalArgs {
    /// Directory of the journal; made if absent. With a journal that has events, the feed continues after them
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,

    /// When the journal is forced to the disk: always (nothing acknowledged is lost), interval:TIME (a power cut may lose
    /// the last interval), never (a power cut may lose more)
    #[arg(long, value_name = "POLICY", default_value = "always", value_parser = sync, requires = "journal")]
    sync: Sync,

    /// Mirrors that must have an event before it is acknowledged to its source. With 0, the loss of the origin's disk,
    /// or the death of an origin without a journal, loses acknowledged events
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(..=64))]
    copies: u32,
}

impl JournalArgs {
    /// Opens the journal, and reports torn records.
    pub(super) fn apply(&self, options: &mut OriginOptions) -> Result<(), Failure> {
        options.copies = self.copies;
        let Some(directory) = &self.journal else { return Ok(()) };
        let settings = Options { sync: self.sync, segment_bytes: SEGMENT_BYTES, ..Options::default() };
        let failed = |error: JournalError| Failure::failed(format!("the journal: {error}"));
        let Opened { journal, torn } = Segments::open(directory, 0, settings).map_err(failed)?;
        if let Some(torn) = torn {
            let (segment, kept) = (torn.segment.display(), torn.kept.display());
            eprintln!(
                "treefold: {segment}: a crash has torn the last {} bytes, from byte {} on; they are cut off, and kept in {kept}",
                torn.bytes, torn.offset
            );
        }
        options.journal = Some(Box::new(journal));
        Ok(())
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
    fn policies_are_read_and_others_refused() {
        assert_eq!(sync("always").unwrap(), Sync::Always);
        assert_eq!(sync("never").unwrap(), Sync::Never);
        assert_eq!(sync("interval:100ms").unwrap(), Sync::Interval(Duration::from_millis(100)));
        for wrong in ["", "often", "interval", "interval:", "interval:often", "interval:0s", "always:1s"] {
            assert!(sync(wrong).is_err(), "{wrong}");
        }
    }
}
