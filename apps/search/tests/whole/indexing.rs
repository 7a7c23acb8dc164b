//! Files that an indexing run takes, leaves out and refuses, and indexes that it keeps or rebuilds.

use crate::folder::{Folder, files_below, index_with, opened, paths, search};
use std::fs;
use std::sync::Mutex;
use treefold_search::{IndexError, IndexOptions, Shard, Skipped, Step, data_directory, index, partition_of};

const FILES: &[(&str, &str)] = &[
    ("README.md", "# Trees\nTrees fold partial results."),
    ("src/lib.rs", "//! Waves climb.\npub fn fold_partials() {}"),
    ("src/wave/state.rs", "//! The wave machine.\nstruct Wave;"),
    ("notes.txt", "nothing of note"),
];

#[test]
fn every_text_file_is_indexed_in_its_partition() {
    let folder = Folder::new(FILES);
    let report = folder.index(3);
    assert_eq!((report.files, report.documents, report.partitions), (4, 4, 3));
    assert_eq!(report.bytes, FILES.iter().map(|(_, text)| text.len() as u64).sum::<u64>());
    for (path, _) in FILES {
        let shard = Shard::open(&report.directory, partition_of(path, 3), 3).unwrap();
        assert!(shard.documents() > 0, "{path}");
    }
    let documents: u64 = (0..3).map(|id| Shard::open(&report.directory, id, 3).unwrap().documents()).sum();
    assert_eq!(documents, 4);
}

#[test]
fn skipped_files_are_counted_by_reason() {
    let folder = Folder::new(FILES);
    folder.write("image.png", b"\x89PNG\0\0");
    folder.write("latin1.txt", b"caf\xe9");
    folder.write("huge.txt", &vec![b'x'; 2000]);
    folder.write(".hidden/file.txt", b"hidden files are not even looked at");
    #[cfg(unix)]
    std::os::unix::fs::symlink("README.md", folder.path().join("link.md")).unwrap();
    let options = IndexOptions { file_bytes_max: 1000, ..folder.options(2) };
    let report = index_with(&folder.path(), &options).unwrap();
    assert_eq!(report.skipped, Skipped { binary: 2, too_large: 1, ..Skipped::default() });
    assert_eq!((report.documents, report.files), (4, 7));
}

#[cfg(unix)]
#[test]
fn file_with_non_unicode_name_counts_as_unreadable() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new(FILES);
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
    fs::write(folder.path().join(name), "text").unwrap();
    let report = folder.index(1);
    assert_eq!((report.documents, report.skipped.unreadable), (4, 1));
}

#[test]
fn git_ignore_holds_in_a_work_tree_only() {
    let folder = Folder::new(FILES);
    folder.write(".gitignore", b"notes.txt\n");
    assert_eq!(folder.index(1).documents, 4);
    fs::create_dir(folder.path().join(".git")).unwrap();
    assert_eq!(folder.index(1).documents, 3);
    let options = IndexOptions { git_ignore: false, ..folder.options(1) };
    assert_eq!(index_with(&folder.path(), &options).unwrap().documents, 4);
}

#[test]
fn a_cap_keeps_the_first_files_in_path_order() {
    let folder = Folder::new(FILES);
    let options = IndexOptions { files_max: Some(2), ..folder.options(2) };
    let report = index_with(&folder.path(), &options).unwrap();
    assert_eq!((report.documents, report.skipped.over_limit), (2, 2));
    assert_eq!(paths(&search(&opened(&report.directory, 2), "*", 9)), ["README.md", "notes.txt"]);

    let bytes = FILES[0].1.len() as u64;
    let options = IndexOptions { bytes_max: Some(bytes), ..folder.options(2) };
    let report = index_with(&folder.path(), &options).unwrap();
    assert_eq!((report.documents, report.bytes, report.skipped.over_limit), (1, bytes, 3));
}

#[test]
fn index_is_kept_until_folder_or_relevant_options_change() {
    let folder = Folder::new(FILES);
    assert!(!folder.index(2).reused);
    let again = folder.index(2);
    assert!(again.reused);
    assert_eq!((again.documents, again.files), (4, 4));

    let changes: [&dyn Fn(); 3] =
        [&|| folder.write("new.txt", b"new"), &|| folder.write("new.txt", b"longer than before"), &|| {
            fs::remove_file(folder.path().join("new.txt")).unwrap();
        }];
    for change in changes {
        change();
        assert!(!folder.index(2).reused);
        assert!(folder.index(2).reused);
    }
    let stricter = IndexOptions { file_bytes_max: 20, ..folder.options(2) };
    assert!(!index_with(&folder.path(), &stricter).unwrap().reused);
}

#[test]
fn open_shard_keeps_its_index_while_folder_is_indexed_again() {
    let folder = Folder::new(FILES);
    let before = folder.partitions(1);
    folder.write("new.txt", b"brand new");
    let after = folder.partitions(1);
    assert_eq!(search(&before, "new", 9).matched, 0);
    assert_eq!(search(&before, "trees", 9).matched, 1);
    assert_eq!(search(&after, "new", 9).matched, 1);
}

#[test]
fn unfinished_index_is_ignored_and_damaged_index_is_rebuilt() {
    let folder = Folder::new(FILES);
    let directory = folder.index(2).directory;
    let manifest = directory.join("manifest.json");
    let saved = fs::read(&manifest).unwrap();

    fs::remove_file(&manifest).unwrap();
    assert!(matches!(Shard::open(&directory, 0, 2), Err(IndexError::Unfinished { .. })));
    assert!(!folder.index(2).reused);

    fs::write(&manifest, &saved[..saved.len() / 2]).unwrap();
    assert!(matches!(Shard::open(&directory, 0, 2), Err(IndexError::Damaged { .. })));
    assert!(!folder.index(2).reused);

    for file in
        files_below(&directory).into_iter().filter(|file| file.extension().is_some_and(|e| e == "store"))
    {
        fs::write(file, b"torn").unwrap();
    }
    let refused = (0..2).filter_map(|id| Shard::open(&directory, id, 2).err()).next().unwrap();
    assert!(
        matches!(&refused, IndexError::Damaged { file } if file.extension().is_some_and(|e| e == "store"))
    );
    assert!(!folder.index(2).reused);
    assert!(folder.index(2).reused);
}

/// Opens all partitions, and searches them.
fn usable(directory: &std::path::Path) -> Result<(), IndexError> {
    let shards: Vec<Shard> = (0..2).map(|id| Shard::open(directory, id, 2)).collect::<Result<_, _>>()?;
    assert_eq!(shards.iter().map(Shard::documents).sum::<u64>(), 4);
    Ok(())
}

#[test]
fn a_changed_bit_of_any_file_is_found_and_the_index_rebuilt() {
    let folder = Folder::new(FILES);
    let directory = folder.index(2).directory;
    assert!(usable(&directory).is_ok());
    let mut tried = 0;
    for file in files_below(&directory) {
        let good = fs::read(&file).unwrap();
        for at in (0..good.len()).step_by(7 + good.len() / 24) {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            fs::write(&file, &bad).unwrap();
            let refused = usable(&directory).err();
            // A bit of the seal may be in white space or a name; then another file is missing.
            let named = file.file_name().unwrap().to_str().unwrap();
            let is_typed =
                matches!(&refused, Some(IndexError::Damaged { .. } | IndexError::OtherVersion { .. }));
            assert!(is_typed, "{named}, byte {at}: {refused:?}");
            tried += 1;
        }
        fs::write(&file, &good).unwrap();
    }
    assert!(tried > 100, "{tried}");
    assert!(folder.index(2).reused, "all bits are as before");
    let names = || {
        files_below(&directory)
            .into_iter()
            .filter(|file| file.ends_with("0000/seal.json"))
            .collect::<Vec<_>>()
    };
    for ending in ["fieldnorm", "fast", "idx"] {
        let before = names();
        let of_kind = |file: &std::path::PathBuf| file.extension().is_some_and(|found| found == ending);
        let file = files_below(&directory).into_iter().find(of_kind).unwrap();
        let mut bytes = fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&file, bytes).unwrap();
        assert!(!folder.index(2).reused, "{ending}");
        assert!(usable(&directory).is_ok());
        // An upload takes equal names and sizes for equal files.
        assert!(names() != before, "another build has another name");
    }
}

#[test]
fn an_index_of_another_version_is_told_apart_and_rebuilt() {
    let folder = Folder::new(FILES);
    let directory = folder.index(2).directory;
    let manifest = directory.join("manifest.json");
    let before = r#"{"schema_version": 3, "digest": "0123456789abcdef", "partitions": 2, "documents": 4, "bytes": 9,
        "skipped": {"unreadable": 0, "binary": 0, "too_large": 0, "over_limit": 0}}"#;
    fs::write(&manifest, before).unwrap();
    let refused = Shard::open(&directory, 0, 2).unwrap_err();
    assert!(matches!(refused, IndexError::OtherVersion { .. }), "{refused:?}");
    assert!(refused.to_string().contains("schema 3") && refused.to_string().contains("Unicode"), "{refused}");
    assert!(!folder.index(2).reused);
    assert!(usable(&directory).is_ok());
}

#[test]
fn remains_of_a_killed_run_are_removed() {
    let folder = Folder::new(FILES);
    let data = folder.data(1);
    fs::create_dir_all(data.join("generation-0123456789abcdef/0000")).unwrap();
    folder.index(1);
    let generations = || {
        let names =
            fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("generation-")).count()
    };
    assert_eq!(generations(), 1);
    folder.write("new.txt", b"new");
    folder.index(1);
    assert_eq!(generations(), 1);
}

#[test]
fn concurrent_runs_take_turns_and_the_second_reuses_the_index() {
    let folder = Folder::new(FILES);
    let reports: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| folder.index(2))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert_eq!(reports.iter().filter(|report| !report.reused).count(), 1);
    assert!(reports.iter().all(|report| report.documents == 4));
}

#[test]
fn partitions_of_many_pieces_are_the_same_as_of_one() {
    let many: Vec<_> = (0..60).map(|n| (format!("{n:02}.txt"), format!("wave {n} of {}", n % 7))).collect();
    let many: Vec<_> = many.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let folder = Folder::new(&many);
    let whole = opened(&folder.index(2).directory, 2);
    let cut =
        IndexOptions { piece_bytes_max: 30, data_directory: Some(folder.data(99)), ..folder.options(2) };
    let steps = Mutex::new(Vec::new());
    let report = index(folder.path(), &cut, &|step| steps.lock().unwrap().push(step)).unwrap();
    let pieced = opened(&report.directory, 2);

    assert_eq!(search(&whole, "wave 3", 50), search(&pieced, "wave 3", 50));
    let steps = steps.into_inner().unwrap();
    assert!(steps.contains(&Step::Merging { partitions: 2, partitions_total: 2 }));
    let bytes = report.bytes;
    assert!(steps.contains(&Step::Indexing { files: 60, files_total: 60, bytes, bytes_total: bytes }));
    assert_eq!(steps.last(), Some(&Step::Done));
}

#[test]
fn empty_folder_makes_an_empty_index() {
    let folder = Folder::new(&[]);
    folder.write("binary", b"\0");
    let partitions = opened(&folder.index(2).directory, 2);
    for query in ["*", "trees", "\"two words\"", "path:[a TO z]", "path: IN [a b]", "+a +b +c"] {
        assert_eq!(search(&partitions, query, 9).matched, 0, "{query}");
    }
    folder.write("another", b"\0");
    let cut = IndexOptions { piece_bytes_max: 1, ..folder.options(1) };
    assert_eq!(index_with(&folder.path(), &cut).unwrap().documents, 0);
}

#[test]
fn every_folder_and_split_has_its_own_default_directory() {
    let (one, other) = (Folder::new(FILES), Folder::new(FILES));
    let directories =
        [(&one, 2), (&one, 3), (&other, 2)].map(|(folder, n)| data_directory(&folder.path(), n));
    match directories {
        [Ok(a), Ok(b), Ok(c)] => {
            assert!(a != b && a != c && b != c);
            assert!(a.parent().unwrap().ends_with("treefold/search"));
            assert_eq!(data_directory(&one.path().join("src/.."), 2).unwrap(), a);
        }
        refused => assert!(refused.iter().all(|one| matches!(one, Err(IndexError::NoHome)))),
    }
}

#[test]
fn the_index_may_lie_inside_the_folder() {
    let folder = Folder::new(FILES);
    let options = IndexOptions { data_directory: Some(folder.path().join("index")), ..folder.options(2) };
    assert!(!index_with(&folder.path(), &options).unwrap().reused);
    let again = index_with(&folder.path(), &options).unwrap();
    assert!(again.reused);
    assert_eq!(again.files, 4);
}

#[test]
fn errors_name_their_cause() {
    let folder = Folder::new(FILES);
    let missing = index_with(&folder.path().join("nowhere"), &folder.options(1)).unwrap_err();
    assert!(missing.to_string().ends_with("folder/nowhere"), "{missing}");
    let file = index_with(&folder.path().join("README.md"), &folder.options(1)).unwrap_err();
    assert!(matches!(file, IndexError::Folder { .. }), "{file:?}");
    let none = index_with(&folder.path(), &folder.options(0)).unwrap_err();
    assert_eq!(none.to_string(), "0 partitions: it must be 1 to 4096");

    let blocked =
        IndexOptions { data_directory: Some(folder.path().join("README.md/x")), ..folder.options(1) };
    let refused = index_with(&folder.path(), &blocked).unwrap_err();
    assert!(matches!(&refused, IndexError::DataDirectory { .. }), "{refused:?}");
    assert!(refused.to_string().ends_with("README.md/x"), "{refused}");

    let report = folder.index(2);
    let other = Shard::open(&report.directory, 0, 3).unwrap_err();
    assert!(other.to_string().ends_with("holds 2 partitions; partition 0 of 3 was asked for"), "{other}");
    assert!(matches!(Shard::open(&report.directory, 2, 2), Err(IndexError::OtherSplit { .. })));
}

#[cfg(unix)]
#[test]
fn index_on_a_read_only_volume_can_be_opened() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new(FILES);
    let directory = folder.index(1).directory;
    let before = files_below(&directory);
    let directories = |mode| {
        for file in &before {
            fs::set_permissions(file.parent().unwrap(), fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    directories(0o555);
    let documents = Shard::open(&directory, 0, 1).map(|shard| shard.documents());
    directories(0o755);
    assert_eq!(documents.unwrap(), 4);
    // Even a user that may write everywhere (root) must not have written.
    assert_eq!(files_below(&directory), before);
}
