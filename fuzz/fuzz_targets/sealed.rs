//! Sealed datagrams to a process that has the keys of a cluster. The input is split into several at each 0xff.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treefold::parts::opened;
use treefold::parts::wire::GroupKey;

fuzz_target!(|input: &[u8]| {
    let whole = GroupKey { epoch: 1, id: 7, polls_only: false, secret: [7; 32] };
    let datagrams: Vec<&[u8]> = input.split(|&byte| byte == 0xff).collect();
    assert_eq!(opened(&[whole, GroupKey { epoch: 2, id: 8, polls_only: true, ..whole }], &datagrams), 0, "a datagram that nobody has sealed is opened");
});
