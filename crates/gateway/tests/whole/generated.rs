//! The code for gRPC is generated from `docs/treefold.proto`, and kept, so that a build needs no generator.

use prost::Message;
use std::path::{Path, PathBuf};

/// Set to write the files instead of comparing them.
const WRITE: &str = "TREEFOLD_WRITE_GENERATED";
const ESSAY: &str = "//! Generated from `docs/treefold.proto` by the test `kept_code_is_that_of_the_proto_file`. Do not edit.\n\n";
/// Where the server's part begins, which has a file of its own.
const SERVER: &str = "pub mod treefold_server {\n";

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn kept_code_is_that_of_the_proto_file() {
    let set = protox::compile(["treefold.proto"], [here("../../docs")]).unwrap();
    let dir = tempfile::TempDir::new().unwrap();
    let descriptors = set.encode_to_vec();
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .bytes(".")
        .out_dir(dir.path())
        .compile_fds(set)
        .unwrap();
    let code = std::fs::read_to_string(dir.path().join("treefold.v1.rs")).unwrap();
    let (messages, server) = code.split_once(SERVER).unwrap();
    let messages = format!("{ESSAY}{messages}pub mod treefold_server;\n");
    let server = format!("{ESSAY}{}\n", server.trim_end().strip_suffix('}').unwrap().trim_end());
    let files = [
        ("src/grpc/generated/mod.rs", messages.into_bytes()),
        ("src/grpc/generated/treefold_server.rs", server.into_bytes()),
        ("src/grpc/generated/treefold.binpb", descriptors),
    ];
    for (path, expected) in files {
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(here(path), &expected).unwrap();
        }
        let kept = std::fs::read(here(path)).unwrap_or_default();
        assert!(kept == expected, "{path} is out of date: run this test with {WRITE}=1");
    }
}
