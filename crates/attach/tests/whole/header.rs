//! Checks that `include/treefold.h` is exactly the output of cbindgen for the sources.

use std::fs;
use std::path::Path;

/// The files whose items are in the header, in that order.
const SHOWN: [&str; 10] = [
    "code.rs",
    "network.rs",
    "stream.rs",
    "packet.rs",
    "row.rs",
    "number.rs",
    "connection.rs",
    "raising.rs",
    "front.rs",
    "wave.rs",
];

#[test]
fn the_header_is_up_to_date() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("cbindgen.toml is valid");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in SHOWN {
        builder = builder.with_src(here.join("src").join(file));
    }
    let mut made = Vec::new();
    builder.generate().expect("the sources can be read").write(&mut made);
    let header = here.join("include/treefold.h");
    if std::env::var_os("TREEFOLD_WRITE_HEADER").is_some() {
        fs::write(&header, &made).expect("the header can be written");
    }
    let is = fs::read(&header).unwrap_or_default();
    assert!(
        is == made,
        "include/treefold.h differs from the sources: run TREEFOLD_WRITE_HEADER=1 cargo test -p treefold-attach --test whole header"
    );
}
