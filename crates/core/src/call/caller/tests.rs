//! Calls say which waves of their origin may be open.

use crate::call::CallOptions;
use crate::effect::Effect;
use crate::id::{NodeId, RequestId};
use crate::input::{Command, Input};
use crate::membership::card::{MemberCard, ServiceCard};
use crate::message::Message;
use crate::node::Node;
use crate::node::tests::summing;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;

/// A client calls; returns the number of each wave, and how many it says may be open.
fn call(client: &mut Node<Bytes>, request: u64, slices: u32) -> Vec<(u64, u32)> {
    let command = Command::Call {
        request: RequestId(request),
        name: "s/sum".into(),
        params: Bytes::new().into(),
        options: CallOptions { slices, ..CallOptions::default() },
    };
    client.handle_input(Instant::START, Input::Command(command));
    let mut said = Vec::new();
    while let Some(effect) = client.poll_effect() {
        if let Effect::Send { message: Message::Call(call), .. } = effect {
            said.push((call.tag.wave.sequence, call.in_flight));
        }
    }
    said
}

#[test]
fn slices_of_a_call_are_in_flight_together_and_with_older_calls() {
    let server = NodeId::new(([10, 0, 0, 2], 7700).into(), 2);
    let mut card = MemberCard::new(server);
    let service = ServiceCard { partitions: PartitionSet::first(1), total: 1, declared: true, placed: None };
    card.services.insert("s".into(), service);
    let mut config = summing(NodeId::new(([0, 0, 0, 0], 0).into(), 1));
    config.kinds[0].is_sliceable = true;
    let mut client = Node::new(config, Instant::START);
    client.handle_input(Instant::START, Input::Connected { peer: server });
    let heard = Input::Message { from: server, message: Message::Cards(vec![Arc::new(card)].into()) };
    client.handle_input(Instant::START, heard);
    assert_eq!(call(&mut client, 1, 1), [(1, 1)]);
    client.handle_input(Instant::START, Input::Command(Command::Cancel { request: RequestId(1) }));
    assert_eq!(call(&mut client, 2, 3), [(2, 1), (3, 2), (4, 3)], "the first call has ended");
    assert_eq!(call(&mut client, 3, 1), [(5, 4)], "the second has not");
}
