//! A file of rules. Accepted rules must be usable.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use treefold_mirror::MirrorLimits;
use treefold_mirror::rules::RuleFile;
use treefold_mirror::select::{Functions, Selector};

fuzz_target!(|text: &str| {
    match RuleFile::read(text) {
        Ok(rules) => {
            // Only a function that this target does not have may be missing.
            let _ = Selector::new(Arc::new(rules), Functions::new(), &MirrorLimits::DEFAULT, 0);
        }
        Err(problems) => {
            for problem in problems {
                assert!(text.get(problem.span).is_some(), "a problem is at a place of the text");
            }
        }
    }
});
