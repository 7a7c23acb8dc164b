//! Stores that refuse, lie, or speak something else.

use crate::store::{Store, folder_at};
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use treefold_bench_store::SECRET;
use treefold_objects::{Cache, Folder, ObjectsError};

#[test]
fn wrong_keys_and_missing_objects_are_told_apart() {
    let store = Store::start();
    store.put("index/a", b"a");
    let refused = folder_at(&store.addr().to_string(), "s3://docs/index", "wrong").list("").unwrap_err();
    assert!(matches!(refused, ObjectsError::Refused { .. }), "{refused}");
    let missing = store.folder("s3://nowhere/index").list("").unwrap_err();
    assert!(matches!(missing, ObjectsError::Missing { .. }), "{missing}");
    let folder = store.folder("s3://docs/index");
    let missing = folder.read("b").unwrap_err();
    assert!(matches!(&missing, ObjectsError::Missing { name, .. } if name == "b"), "{missing}");
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::in_directory(directory.path(), 1 << 20).unwrap();
    let missing = cache.open(&folder, "none", || folder.list("none")).unwrap_err();
    assert!(matches!(missing, ObjectsError::Missing { .. }), "{missing}");
}

/// Answers every connection with this text, and closes it.
fn answering(text: String) -> String {
    answering_with(move |_| text.clone()).0
}

/// Answers the request of every connection, and closes it. The number is that of answers whose client took all of them.
fn answering_with(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let (answer, taken) = (Arc::new(answer), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&taken);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer, count) = (stream.unwrap(), Arc::clone(&answer), Arc::clone(&count));
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                let read = stream.read(&mut request).unwrap_or(0);
                let wrote = stream.write_all(answer(&String::from_utf8_lossy(&request[..read])).as_bytes());
                count.fetch_add(u32::from(wrote.is_ok()), Ordering::Relaxed);
            });
        }
    });
    (addr, taken)
}

fn listing(names: impl Iterator<Item = String>) -> String {
    listing_of(5, names)
}

fn listing_of(bytes: u64, names: impl Iterator<Item = String>) -> String {
    let mut body = "<ListBucketResult><Name>docs</Name><IsTruncated>false</IsTruncated>".to_owned();
    for name in names {
        let _ = write!(
            body,
            "<Contents><Key>{name}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
             <ETag>\"x\"</ETag><Size>{bytes}</Size></Contents>"
        );
    }
    body.push_str("</ListBucketResult>");
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn list(answer: String) -> ObjectsError {
    let folder: Folder = folder_at(&answering(answer), "s3://docs/index", SECRET);
    folder.list("").unwrap_err()
}

#[test]
fn names_that_lead_out_of_the_cache_are_refused() {
    for name in ["index/../../../tmp/x", "index/a\\..\\b", "index//etc/passwd"] {
        let refused = list(listing([name.to_owned()].into_iter()));
        assert!(matches!(refused, ObjectsError::Name { .. }), "{name}: {refused}");
    }
}

#[test]
fn a_listing_without_end_is_refused_at_the_limit() {
    let names = (0..=treefold_objects::OBJECTS_MAX).map(|number| format!("index/{number}"));
    let refused = list(listing(names));
    assert!(
        matches!(refused, ObjectsError::Limit { .. }) && refused.to_string().contains("100000"),
        "{refused}"
    );
}

#[test]
fn garbage_and_errors_of_the_server_are_a_store_that_cannot_be_reached() {
    let error = "HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    for answer in ["\0\0garbage\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n<a>", error] {
        let failed = list(answer.to_owned());
        assert!(failed.is_unreachable(), "{answer:?}: {failed}");
    }
}

#[test]
fn a_store_that_sends_more_than_it_was_asked_for_is_not_read_to_the_end() {
    const LENGTH: u64 = 20 << 20;
    let (addr, taken) = answering_with(|request| {
        if request.contains("list-type") {
            return listing_of(LENGTH, ["index/a".to_owned()].into_iter());
        }
        let range = request
            .lines()
            .find_map(|line| line.to_lowercase().strip_prefix("range: bytes=").map(str::to_owned));
        let (range, body) = (range.unwrap_or_default(), "x".repeat(30 << 20));
        format!(
            "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes {}/{LENGTH}\r\ncontent-length: {}\r\netag: \"x\"\r\n\
             last-modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nconnection: close\r\n\r\n{body}",
            range.trim(),
            body.len()
        )
    });
    let folder = folder_at(&addr, "s3://docs/index", SECRET);
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::in_directory(directory.path(), 1 << 30).unwrap();
    let changed = cache.open(&folder, "all", || folder.list("")).unwrap_err();
    assert!(matches!(&changed, ObjectsError::Changed { name, .. } if name == "a"), "{changed}");
    // Each of the three answers is larger than the buffers of its connection, so nobody has taken one whole.
    assert_eq!(taken.load(Ordering::Relaxed), 1, "the listing was taken, and nothing else");
}
