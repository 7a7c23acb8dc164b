//! Cold and warm copies, a store that fails, versions, and room.

use crate::store::{Store, content};
use std::fs;
use std::path::Path;
use treefold_objects::{Cache, Folder, LocalCopy, ObjectsError};

const PLENTY: u64 = 1 << 30;

fn open(cache: &Cache, folder: &Folder, part: &str) -> Result<LocalCopy, ObjectsError> {
    cache.open(folder, part, || folder.list(part))
}

fn bytes(seed: u32, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).max(1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn a_part_is_copied_once_and_found_again_without_the_store() {
    let store = Store::start();
    // more than two pieces, an empty file, and a folder
    let large = bytes(1, (20 << 20) + 17);
    store.put("index/0/large", &large);
    store.put("index/0/deep/empty", b"");
    store.put("index/1/other", b"not copied");
    let (directory, folder) = (tempfile::tempdir().unwrap(), store.folder("s3://docs/index"));
    let cache = Cache::in_directory(directory.path(), PLENTY).unwrap();
    let first = open(&cache, &folder, "0").unwrap();
    let expected = vec![("0/deep/empty".to_owned(), Vec::new()), ("0/large".to_owned(), large)];
    assert!(content(first.files()) == expected);
    let sent = store.sent();
    assert!(sent > 20 << 20);

    let again = open(&cache, &folder, "0").unwrap();
    assert_eq!(again.files(), first.files());
    assert!(store.sent() < sent + (64 << 10), "only a listing was sent");

    store.cut_off();
    let warm = open(&Cache::in_directory(directory.path(), PLENTY).unwrap(), &folder, "0").unwrap();
    assert!(content(warm.files()) == expected);
    let refused = open(&cache, &folder, "1").unwrap_err();
    assert!(
        matches!(&refused, ObjectsError::Unreachable { url, .. } if url == "s3://docs/index"),
        "{refused}"
    );
    store.come_back();
    assert_eq!(content(open(&cache, &folder, "1").unwrap().files()).len(), 1);
}

#[test]
fn an_interrupted_copy_goes_on_with_the_missing_files() {
    let store = Store::start();
    for part in 10..50 {
        store.put(&format!("0/{part}"), &bytes(part, 1 << 20));
    }
    let (directory, folder) = (tempfile::tempdir().unwrap(), store.folder("s3://docs"));
    let cache = Cache::in_directory(directory.path(), PLENTY).unwrap();
    store.cut_off_after(24 << 20);
    let cut = open(&cache, &folder, "0").unwrap_err();
    assert!(cut.is_unreachable(), "{cut}");
    let sent = store.sent();
    store.come_back();
    let copy = open(&cache, &folder, "0").unwrap();
    let expected: Vec<_> = (10..50).map(|part| (format!("0/{part}"), bytes(part, 1 << 20))).collect();
    assert!(content(copy.files()) == expected);
    let rest = store.sent() - sent;
    assert!(rest < 40 << 20, "the second try fetched {rest} of {} bytes", 40 << 20);
}

#[test]
fn a_changed_object_is_copied_anew_and_the_old_copy_stays_while_it_is_held() {
    let store = Store::start();
    store.put("0/a", b"old");
    store.put("0/b", b"same");
    let (directory, folder) = (tempfile::tempdir().unwrap(), store.folder("s3://docs"));
    let cache = Cache::in_directory(directory.path(), PLENTY).unwrap();
    let old = open(&cache, &folder, "0").unwrap();
    store.put("0/a", b"newer");
    let new = open(&cache, &folder, "0").unwrap();
    assert_eq!(fs::read(old.files().join("0/a")).unwrap(), b"old");
    assert_eq!(fs::read(new.files().join("0/a")).unwrap(), b"newer");
    // Without the store, the copy that was used last is taken.
    store.cut_off();
    let kept = open(&cache, &folder, "0").unwrap();
    assert_eq!(fs::read(kept.files().join("0/a")).unwrap(), b"newer");
}

#[test]
fn an_object_that_is_replaced_during_the_copy_fails_it() {
    let store = Store::start();
    store.put("0/a", b"first");
    let (directory, folder) = (tempfile::tempdir().unwrap(), store.folder("s3://docs"));
    let cache = Cache::in_directory(directory.path(), PLENTY).unwrap();
    for (second, what) in [(Some(&b"a longer one"[..]), "replaced"), (None, "removed")] {
        store.put("0/a", b"first");
        let listed = folder.list("0").unwrap();
        match second {
            Some(second) => store.put("0/a", second),
            None => fs::remove_file(store.bucket().join("0/a")).unwrap(),
        }
        let changed = cache.open(&folder, "0", || Ok(listed)).unwrap_err();
        assert!(matches!(&changed, ObjectsError::Changed { name, .. } if name == "0/a"), "{what}: {changed}");
    }
}

#[test]
fn unheld_copies_make_room_and_held_ones_do_not() {
    let store = Store::start();
    for part in 0..4 {
        store.put(&format!("{part}/data"), &bytes(part, 100_000));
    }
    let (directory, folder) = (tempfile::tempdir().unwrap(), store.folder("s3://docs"));
    let cache = Cache::in_directory(directory.path(), 250_000).unwrap();
    let zero = open(&cache, &folder, "0").unwrap();
    drop(open(&cache, &folder, "1").unwrap());
    let two = open(&cache, &folder, "2").unwrap();
    assert!(is_below(directory.path(), 250_000), "the copy of part 1 was removed");
    assert!(zero.files().join("0/data").exists() && two.files().join("2/data").exists());

    let full = open(&cache, &folder, "3").unwrap_err();
    let ObjectsError::Full { bytes: needed, in_use, limit, .. } = full else { panic!("{full}") };
    assert_eq!((needed, in_use, limit), (100_000, 200_000, 250_000));
    drop(zero);
    drop(open(&cache, &folder, "3").unwrap());
    // A part that exceeds the cache alone is refused, and nothing is removed for it: neither what is held, nor what is not.
    store.put("big/data", &bytes(9, 300_000));
    let copies = || content(directory.path()).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let before = copies();
    assert!(matches!(open(&cache, &folder, "big").unwrap_err(), ObjectsError::Full { .. }));
    assert_eq!(copies(), before);
    drop(two);
}

fn is_below(directory: &Path, limit: usize) -> bool {
    content(directory)
        .iter()
        .filter(|(name, _)| name.ends_with("data"))
        .map(|(_, data)| data.len())
        .sum::<usize>()
        <= limit
}

#[test]
fn the_same_address_in_another_store_is_another_folder() {
    let (one, other) = (Store::start(), Store::start());
    one.put("0/a", b"of one");
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::in_directory(directory.path(), PLENTY).unwrap();
    drop(open(&cache, &one.folder("s3://docs"), "0").unwrap());
    other.cut_off();
    assert!(open(&cache, &other.folder("s3://docs"), "0").unwrap_err().is_unreachable());
}

#[test]
fn several_threads_that_want_one_part_copy_it_once() {
    let store = Store::start();
    store.put("0/data", &bytes(1, 6 << 20));
    let (directory, folder) = (tempfile::tempdir().unwrap(), store.folder("s3://docs"));
    let cache = Cache::in_directory(directory.path(), PLENTY).unwrap();
    std::thread::scope(|scope| {
        let open = || scope.spawn(|| open(&cache, &folder, "0").unwrap());
        let copies: Vec<_> = (0..4).map(|_| open()).collect();
        let mut files: Vec<_> =
            copies.into_iter().map(|copy| copy.join().unwrap().files().to_owned()).collect();
        files.dedup();
        assert_eq!(files.len(), 1);
    });
    let sent = store.sent();
    assert!(sent < 7 << 20, "{sent} bytes were sent for a part of 6 MiB");
}

#[test]
fn a_copy_in_use_whose_files_were_removed_is_reported() {
    let store = Store::start();
    store.put("0/data", b"data");
    let (directory, folder) = (tempfile::tempdir().unwrap(), store.folder("s3://docs"));
    let cache = Cache::in_directory(directory.path(), PLENTY).unwrap();
    let held = open(&cache, &folder, "0").unwrap();
    fs::remove_file(held.files().join("0/data")).unwrap();
    let damaged = open(&cache, &folder, "0").unwrap_err();
    assert!(damaged.to_string().contains("in use"), "{damaged}");
    drop(held);
    let mended = open(&cache, &folder, "0").unwrap();
    assert_eq!(fs::read(mended.files().join("0/data")).unwrap(), b"data");
}

#[test]
fn a_changed_bit_in_a_copy_is_found_and_the_file_copied_again() {
    let store = Store::start();
    let (data, other) = (bytes(1, 300_000), bytes(2, 300_000));
    store.put("0/data", &data);
    store.put("0/other", &other);
    let (directory, folder) = (tempfile::tempdir().unwrap(), store.folder("s3://docs"));
    let cache = Cache::in_directory(directory.path(), PLENTY).unwrap();
    let held = open(&cache, &folder, "0").unwrap();
    let file = held.files().join("0/data");
    let flip = || {
        let mut changed = fs::read(&file).unwrap();
        changed[150_000] ^= 4;
        fs::write(&file, changed).unwrap();
    };
    flip();
    let refused = open(&cache, &folder, "0").unwrap_err();
    assert!(matches!(&refused, ObjectsError::Disk { .. }), "{refused}");
    drop(held);
    let sent = store.sent();
    let mended = open(&cache, &folder, "0").unwrap();
    let expected = vec![("0/data".to_owned(), data), ("0/other".to_owned(), other)];
    assert!(content(mended.files()) == expected);
    assert!(store.sent() - sent < 400_000, "only the changed file was sent");
    drop(mended);

    flip();
    store.cut_off();
    let refused = open(&cache, &folder, "0").unwrap_err();
    assert!(refused.is_unreachable(), "a damaged copy is not used instead: {refused}");
    store.come_back();
    assert!(content(open(&cache, &folder, "0").unwrap().files()) == expected);
}

#[test]
fn a_copy_without_checksums_is_completed_and_not_copied_again() {
    let store = Store::start();
    store.put("0/data", &bytes(1, 300_000));
    let (directory, folder) = (tempfile::tempdir().unwrap(), store.folder("s3://docs"));
    let cache = Cache::in_directory(directory.path(), PLENTY).unwrap();
    let files = open(&cache, &folder, "0").unwrap().files().to_owned();
    fs::write(files.parent().unwrap().join("complete"), "").unwrap();
    let sent = store.sent();
    drop(open(&cache, &folder, "0").unwrap());
    assert!(store.sent() - sent < 64 << 10);
    assert!(fs::metadata(files.parent().unwrap().join("complete")).unwrap().len() > 0);
}

#[test]
fn a_directory_is_uploaded_once_and_replaced_objects_are_read() {
    let store = Store::start();
    let source = tempfile::tempdir().unwrap();
    fs::create_dir(source.path().join("sub")).unwrap();
    // one file that is sent in parts, and one that is not
    let large = bytes(3, (17 << 20) + 3);
    fs::write(source.path().join("sub/large"), &large).unwrap();
    fs::write(source.path().join("small"), b"small").unwrap();
    let folder = store.folder("s3://docs/up");
    let sent = folder.upload(source.path(), "gen-1").unwrap();
    assert_eq!((sent.files, sent.bytes, sent.kept), (2, large.len() as u64 + 5, 0));
    let again = folder.upload(source.path(), "gen-1").unwrap();
    assert_eq!((again.files, again.kept), (0, 2));
    folder.write("manifest.json", b"{}".to_vec()).unwrap();
    folder.write("manifest.json", b"[]".to_vec()).unwrap();
    assert_eq!(&folder.read("manifest.json").unwrap().1[..], b"[]");
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::in_directory(directory.path(), PLENTY).unwrap();
    let copy = open(&cache, &folder, "gen-1").unwrap();
    assert!(fs::read(copy.files().join("gen-1/sub/large")).unwrap() == large);
    for name in ["gen-1x/a", "gen-10/a", "gen-2/a/b", "gen-2/c", "zz"] {
        store.put(&format!("up/{name}"), b"a");
    }
    assert_eq!(folder.folders().unwrap(), ["gen-1", "gen-10", "gen-1x", "gen-2"]);
    folder.remove("gen-1").unwrap();
    assert!(folder.list("gen-1").unwrap().is_empty());
}
