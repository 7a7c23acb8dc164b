//! A certificate, a grant and a file of keys. The first byte of the input chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::time::SystemTime;
use treefold_certificates::{Anchors, Certificate, Grant, KeyFile, Usage, verify};

fuzz_target!(|input: &[u8]| {
    let [what, rest @ ..] = input else { return };
    match what % 3 {
        0 => {
            let der = rest.to_vec().into();
            if let Ok(certificate) = Certificate::read(&der) {
                assert_eq!(certificate.grant.to_string().parse(), Ok(certificate.grant));
            }
            assert!(verify(&[der], &Anchors::default(), Usage::Connect, SystemTime::now()).is_err());
        }
        1 => {
            let Ok(text) = std::str::from_utf8(rest) else { return };
            let Ok(grant) = text.parse::<Grant>() else { return };
            assert_eq!(grant.to_string().parse(), Ok(grant), "an accepted grant is written so that it reads the same");
        }
        _ => {
            let Ok(file) = KeyFile::parse(rest) else { return };
            let _ = file.anchors();
        }
    }
});
