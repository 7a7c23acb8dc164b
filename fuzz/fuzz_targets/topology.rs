//! A topology file. A valid one is written in both forms and must read the same again. Errors must be
//! printable.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treefold_network::topology::Bounds;
use treefold_network::topology::excerpt::{EXCERPT_COLUMNS, excerpts};
use treefold_network::topology::parse::parse;
use treefold_network::topology::write::{Form, to_text};

/// Small, so that inputs reach the limits, and the written text is not much longer than the input.
const BOUNDS: Bounds = Bounds { processes_max: 256, fan_out_max: 64, ..Bounds::DEFAULT };

fuzz_target!(|input: &str| {
    let topology = match parse(input, &BOUNDS) {
        Ok(topology) => topology,
        Err(problems) => {
            assert!(!excerpts(&problems, input, "fuzz", EXCERPT_COLUMNS).is_empty());
            return;
        }
    };
    for form in [Form::Terse, Form::Plain] {
        let text = to_text(&topology, form);
        let again = parse(&text, &BOUNDS).unwrap_or_else(|problems| panic!("{problems}: {text}"));
        assert_eq!(again.processes(), topology.processes(), "{text}");
    }
});
