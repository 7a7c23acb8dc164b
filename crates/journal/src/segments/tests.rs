//! Tests of the journal on real files: order, torn records, damage, full disks.

use super::*;
use crate::files::TORN_FILES_MAX;
use crate::record::Head;
use proptest::prelude::*;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

fn open(directory: &Path, options: Options) -> Opened {
    Segments::open(directory, 0, options).unwrap()
}

fn small() -> Options {
    Options { segment_bytes: 200, ..Options::default() }
}

fn payload(position: u64) -> Vec<u8> {
    format!("event {position} {}", "x".repeat(position as usize % 40)).into_bytes()
}

fn append(journal: &mut Segments, positions: std::ops::RangeInclusive<u64>) {
    for position in positions {
        journal.append(position, position, &payload(position)).unwrap();
        journal.flush().unwrap();
    }
}

fn stored(journal: &Segments, after: u64) -> Vec<u64> {
    let mut found = Vec::new();
    let read = journal.read_after(after, &mut |stored| {
        assert_eq!(stored.payload, payload(stored.last));
        found.push(stored.last);
    });
    read.unwrap();
    found
}

fn segment_files(directory: &Path) -> Vec<PathBuf> {
    segments(directory).unwrap().into_iter().map(|first| segment_path(directory, first)).collect()
}

#[test]
fn records_are_there_after_opening_again() {
    let directory = TempDir::new().unwrap();
    let mut journal = open(directory.path(), small()).journal;
    append(&mut journal, 1..=50);
    assert_eq!((journal.durable(), journal.first()), (50, 1));
    drop(journal);
    let Opened { mut journal, torn } = open(directory.path(), small());
    assert_eq!((torn, journal.last(), journal.durable()), (None, 50, 50));
    append(&mut journal, 51..=60);
    assert_eq!(stored(&journal, 0), (1..=60).collect::<Vec<_>>());
    assert_eq!(stored(&journal, 55), [56, 57, 58, 59, 60]);
    assert!(segment_files(directory.path()).len() > 5);
}

#[test]
fn one_flush_serves_many_records() {
    let directory = TempDir::new().unwrap();
    let mut journal = open(directory.path(), Options::default()).journal;
    for position in 1..=100 {
        journal.append(position, position, &payload(position)).unwrap();
    }
    assert_eq!((journal.last(), journal.durable()), (100, 0));
    assert_eq!(journal.flush().unwrap(), 100);
}

#[test]
fn whole_segments_are_trimmed() {
    let directory = TempDir::new().unwrap();
    let mut journal = open(directory.path(), small()).journal;
    append(&mut journal, 1..=50);
    let before = segment_files(directory.path()).len();
    journal.trim(30).unwrap();
    assert!(segment_files(directory.path()).len() < before);
    assert!(journal.first() <= 31 && journal.first() > 1);
    assert_eq!(stored(&journal, 30), (31..=50).collect::<Vec<_>>());
    journal.trim(50).unwrap();
    drop(journal);
    let mut journal = open(directory.path(), small()).journal;
    assert_eq!(journal.last(), 50, "the segment that is written stays");
    append(&mut journal, 51..=52);
}

#[test]
fn record_out_of_order_or_too_long_is_refused() {
    let directory = TempDir::new().unwrap();
    let mut journal = open(directory.path(), Options { pending_bytes_max: 100, ..small() }).journal;
    assert!(matches!(journal.append(2, 2, b""), Err(JournalError::Order { expected: 1, given: 2 })));
    journal.append(1, 3, b"three events").unwrap();
    assert!(matches!(journal.append(3, 4, b""), Err(JournalError::Order { expected: 4, given: 3 })));
    let refused = journal.append(4, 4, &[0; 80]).unwrap_err().to_string();
    assert_eq!(refused, "pending is 164 bytes; allowed: 100");
    journal.flush().unwrap();
    journal.append(4, 4, &[0; 80]).unwrap();
}

#[test]
fn second_process_is_refused() {
    let directory = TempDir::new().unwrap();
    let first = open(directory.path(), small());
    let refused = Segments::open(directory.path(), 0, small()).unwrap_err();
    assert!(matches!(refused, JournalError::Locked(_)), "{refused}");
    drop(first);
    open(directory.path(), small());
}

#[test]
fn journal_opens_after_a_crash_at_every_byte_of_its_last_segment() {
    let directory = TempDir::new().unwrap();
    let mut journal = open(directory.path(), small()).journal;
    append(&mut journal, 1..=20);
    drop(journal);
    let path = segment_files(directory.path()).pop().unwrap();
    let whole = fs::read(&path).unwrap();
    let mut most = 0;
    for length in 0..=whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let Opened { mut journal, torn } = open(directory.path(), small());
        let last = journal.last();
        assert!(last >= most, "more bytes hold no fewer records");
        most = last;
        assert_eq!(stored(&journal, 0), (1..=last).collect::<Vec<_>>());
        if let Some(torn) = torn {
            assert_eq!((torn.segment, torn.offset + torn.bytes), (path.clone(), length as u64));
            assert_eq!(fs::read(torn.kept).unwrap(), whole[torn.offset as usize..length]);
        }
        append(&mut journal, last + 1..=last + 2);
        assert_eq!(stored(&journal, last), [last + 1, last + 2]);
        for later in segment_files(directory.path()).into_iter().filter(|other| *other > path) {
            fs::remove_file(later).unwrap();
        }
    }
    assert_eq!(most, 20);
}

#[test]
fn damage_in_the_middle_is_an_error_with_its_place() {
    let directory = TempDir::new().unwrap();
    let mut journal = open(directory.path(), small()).journal;
    append(&mut journal, 1..=20);
    drop(journal);
    let path = segment_files(directory.path()).remove(1);
    let mut bytes = fs::read(&path).unwrap();
    bytes[40] ^= 1;
    fs::write(&path, bytes).unwrap();
    let refused = Segments::open(directory.path(), 0, small()).unwrap_err();
    assert!(matches!(&refused, JournalError::Damaged { segment, .. } if *segment == path), "{refused}");
    fs::remove_file(&path).unwrap();
    let refused = Segments::open(directory.path(), 0, small()).unwrap_err();
    assert!(refused.to_string().contains("does not follow"), "a missing segment: {refused}");
}

/// Opens a journal whose last segment has a broken record, by its number from the end.
fn open_broken(
    directory: &Path,
    from_end: usize,
    break_it: impl Fn(&mut [u8]),
) -> Result<Opened, JournalError> {
    let path = segment_files(directory).pop().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let mut starts = vec![SEGMENT_HEAD_BYTES];
    let salt = Salt::read(&bytes).unwrap();
    while let Some(head) = Head::read(&bytes[starts[starts.len() - 1]..], salt) {
        starts.push(starts[starts.len() - 1] + HEAD_BYTES + head.payload_bytes);
    }
    let (from, to) = (starts[starts.len() - 1 - from_end], starts[starts.len() - from_end]);
    break_it(&mut bytes[from..to]);
    fs::write(path, bytes).unwrap();
    Segments::open(directory, 0, Options::default())
}

#[test]
fn broken_record_before_intact_ones_that_were_written_later_is_damage() {
    for byte in [0, 8, HEAD_BYTES + 1] {
        let directory = TempDir::new().unwrap();
        let mut journal = open(directory.path(), Options::default()).journal;
        append(&mut journal, 1..=20);
        drop(journal);
        let path = segment_files(directory.path()).pop().unwrap();
        let bytes = fs::metadata(&path).unwrap().len();
        let refused = open_broken(directory.path(), 5, |record| record[byte] ^= 1).unwrap_err();
        assert!(matches!(refused, JournalError::Damaged { .. }), "byte {byte}: {refused}");
        assert_eq!(fs::metadata(&path).unwrap().len(), bytes, "the file is not changed");
    }
}

#[test]
fn broken_record_before_intact_ones_of_the_same_write_is_torn_and_kept() {
    let directory = TempDir::new().unwrap();
    let mut journal = open(directory.path(), Options::default()).journal;
    append(&mut journal, 1..=10);
    for position in 11..=20 {
        journal.append(position, position, &payload(position)).unwrap();
    }
    journal.flush().unwrap();
    drop(journal);
    // The kernel had written the pages of the last write in another order when the power was cut.
    let Opened { journal, torn } = open_broken(directory.path(), 5, |record| record.fill(0)).unwrap();
    assert_eq!(journal.last(), 15);
    let torn = torn.unwrap();
    let kept = fs::read(&torn.kept).unwrap();
    assert_eq!(kept.len() as u64, torn.bytes);
    assert!(kept.windows(8).any(|bytes| bytes == b"event 20"));
}

#[test]
fn payload_that_looks_like_a_record_is_no_damage() {
    let directory = TempDir::new().unwrap();
    let mut journal = open(directory.path(), Options::default()).journal;
    append(&mut journal, 1..=3);
    let mut forged = vec![b' '; 10];
    record::write(&mut forged, Salt::random(), 5, 5, 4, b"forged");
    forged.extend([b' '; 10]);
    journal.append(4, 4, &forged).unwrap();
    journal.flush().unwrap();
    drop(journal);
    let path = segment_files(directory.path()).pop().unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(fs::metadata(&path).unwrap().len() - 1).unwrap();
    let Opened { journal, torn } = open(directory.path(), Options::default());
    assert_eq!((journal.last(), torn.is_some()), (3, true));
}

#[test]
fn segment_without_its_head_is_damaged_unless_it_has_nothing() {
    let directory = TempDir::new().unwrap();
    let mut journal = open(directory.path(), Options::default()).journal;
    append(&mut journal, 1..=3);
    drop(journal);
    let path = segment_files(directory.path()).pop().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[..SEGMENT_HEAD_BYTES].fill(0);
    fs::write(&path, &bytes).unwrap();
    assert!(matches!(Segments::open(directory.path(), 0, small()), Err(JournalError::Damaged { .. })));
    fs::write(&path, [0; 4096]).unwrap();
    assert_eq!(open(directory.path(), small()).journal.last(), 0);
}

#[test]
fn oldest_torn_ends_are_removed() {
    let directory = TempDir::new().unwrap();
    for position in 1..=12 {
        let mut journal = open(directory.path(), Options::default()).journal;
        append(&mut journal, position..=position);
        drop(journal);
        let path = segment_files(directory.path()).pop().unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"torn").unwrap();
    }
    let is_torn = |entry: &io::Result<fs::DirEntry>| {
        entry.as_ref().unwrap().path().extension().is_some_and(|ending| ending == "torn")
    };
    assert_eq!(fs::read_dir(directory.path()).unwrap().filter(is_torn).count(), TORN_FILES_MAX);
}

/// Mounts a small file system, if this process may; unmounts it when dropped.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let directory = TempDir::new().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(directory.path());
        mount.output().ok().filter(|ended| ended.status.success()).map(|_| Self(directory))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn full_disk_is_an_error_until_there_is_room() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: this test must be allowed to mount a file system");
        return;
    };
    let options = Options { segment_bytes: 16 << 10, ..Options::default() };
    let mut journal = open(disk.0.path(), options).journal;
    let (mut position, filling) = (0, vec![7; 3_000]);
    let refused = loop {
        position += 1;
        journal.append(position, position, &filling).unwrap();
        if let Err(refused) = journal.flush() {
            break refused;
        }
    };
    assert!(matches!(refused, JournalError::Full(_)), "{refused}");
    assert_eq!(journal.durable(), position - 1);
    journal.append(position + 1, position + 1, &filling).unwrap();
    assert!(matches!(journal.flush(), Err(JournalError::Full(_))), "still full");
    let first = journal.first();
    journal.trim(position / 2).unwrap();
    assert!(journal.first() > first);
    assert_eq!(journal.flush().unwrap(), position + 1, "nothing is lost");
    drop(journal);
    let Opened { journal, torn } = open(disk.0.path(), options);
    assert_eq!((torn, journal.last()), (None, position + 1));
}

#[test]
fn epochs_are_kept_and_ascend() {
    let directory = TempDir::new().unwrap();
    let mut journal = open(directory.path(), small()).journal;
    assert_eq!(journal.epochs(), []);
    journal.begin_after(40).unwrap();
    journal.begin_epoch(3).unwrap();
    append(&mut journal, 41..=42);
    assert!(matches!(journal.begin_after(50), Err(JournalError::Order { expected: 43, given: 51 })));
    assert!(matches!(journal.begin_epoch(3), Err(JournalError::Epoch { known: 3, given: 3 })));
    journal.begin_epoch(4).unwrap();
    drop(journal);
    let journal = open(directory.path(), small()).journal;
    assert_eq!(journal.epochs(), [Epoch { number: 3, after: 40 }, Epoch { number: 4, after: 42 }]);
    assert_eq!((journal.first(), journal.last()), (41, 42));
}

#[test]
fn journal_that_lost_its_end_begins_further_epochs() {
    let directory = TempDir::new().unwrap();
    let mut journal = open(directory.path(), small()).journal;
    journal.begin_epoch(1).unwrap();
    append(&mut journal, 1..=30);
    journal.begin_epoch(2).unwrap();
    drop(journal);
    for file in segment_files(directory.path()).into_iter().skip(1) {
        fs::remove_file(file).unwrap();
    }
    let mut journal = open(directory.path(), small()).journal;
    let last = journal.last();
    assert!(last < 30);
    journal.begin_epoch(3).unwrap();
    drop(journal);
    let journal = open(directory.path(), small()).journal;
    let epoch = |number, after| Epoch { number, after };
    assert_eq!(journal.epochs(), [epoch(1, 0), epoch(2, last), epoch(3, last)]);
}

#[test]
fn last_record_stays() {
    let directory = TempDir::new().unwrap();
    let mut journal = open(directory.path(), Options { segment_bytes: 1, ..small() }).journal;
    append(&mut journal, 1..=3);
    journal.trim(3).unwrap();
    assert_eq!(stored(&journal, 0), [3]);
    // The writer died after it had made a segment, before it wrote a record.
    drop(journal);
    fs::write(segment_path(directory.path(), 4), Salt::random().segment_head()).unwrap();
    let mut journal = open(directory.path(), small()).journal;
    journal.trim(3).unwrap();
    assert_eq!(stored(&journal, 0), [3]);
}

#[test]
fn last_record_that_is_forced_to_the_disk_stays() {
    let directory = TempDir::new().unwrap();
    let sync = Sync::Interval(Duration::from_secs(3_600));
    let mut journal = open(directory.path(), Options { segment_bytes: 1, sync, ..small() }).journal;
    append(&mut journal, 1..=3);
    // A power failure may take 3, which is in a segment of its own.
    journal.trim(3).unwrap();
    assert_eq!(stored(&journal, 0), [2, 3]);
    journal.sync().unwrap();
    journal.trim(3).unwrap();
    assert_eq!(stored(&journal, 0), [3]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn garbage_at_the_end_never_costs_a_whole_record(
        lengths in prop::collection::vec(0..300_usize, 1..20),
        garbage in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let directory = TempDir::new().unwrap();
        let options = Options { sync: Sync::Never, segment_bytes: 500, ..Options::default() };
        let mut journal = open(directory.path(), options).journal;
        for (index, length) in lengths.iter().enumerate() {
            let position = index as u64 + 1;
            journal.append(position, position, &vec![index as u8; *length]).unwrap();
            journal.flush().unwrap();
        }
        drop(journal);
        let path = segment_files(directory.path()).pop().unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend(&garbage);
        fs::write(&path, bytes).unwrap();
        let Opened { journal, torn } = open(directory.path(), options);
        prop_assert_eq!(torn.is_some(), !garbage.is_empty());
        let mut found = Vec::new();
        journal.read_after(0, &mut |stored| found.push(stored.payload.len())).unwrap();
        prop_assert_eq!(found, lengths);
    }
}
