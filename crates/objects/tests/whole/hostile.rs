//! Stores that refuse, lie, or speak something else.

use crate::store::{Store, folder_at};
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
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
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let text = Arc::new(text);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, text) = (stream.unwrap(), Arc::clone(&text));
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(text.as_bytes());
            });
        }
    });
    addr
}

fn listing(names: impl Iterator<Item = String>) -> String {
    let mut body = "<ListBucketResult><Name>docs</Name><IsTruncated>false</IsTruncated>".to_owned();
    for name in names {
        let _ = write!(
            body,
            "<Contents><Key>{name}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
             <ETag>\"x\"</ETag><Size>5</Size></Contents>"
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
