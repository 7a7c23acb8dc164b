//! An ssh configuration, which may include itself. Accepted hosts must be valid names in a topology.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treefold_network::topology::host::check_host;
use treefold_network::topology::ssh_config::{SshConfigFile, read_ssh_config};

fuzz_target!(|input: &str| {
    let file = SshConfigFile { name: "config".into(), text: input.into() };
    let mut include = |pattern: &str| {
        let is_itself = pattern.ends_with("config");
        Ok(if is_itself { vec![file.clone()] } else { Vec::new() })
    };
    match read_ssh_config(&file, &mut include) {
        Ok(found) => {
            found.hosts.iter().for_each(|host| check_host(host).expect("an accepted host must be valid"));
            found.remarks.iter().for_each(|remark| drop(remark.to_string()));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
