//! A running origin is asked and set by its service: changes at one position, refusals, and repeated requests.

use crate::world::{offer, start_mirror, start_origin_of, until};
use std::sync::Arc;
use std::time::Duration;
use treefold::{Client, Node};
use treefold_feed::operating::{
    FunctionLoader, Module, OriginReport, RulesShown, SetAnswer, SetReason, SetRequest,
};
use treefold_feed::{MirrorStatus, Origin, origin_service};
use treefold_mirror::change::{ModeChoice, Parameter, Version};
use treefold_mirror::rules::{Function, Mode, RuleFile};
use treefold_mirror::{Event, Name};

/// Starts a node with an origin on it.
async fn start_operated(
    seed: &Node,
    epoch: u32,
    rules: &str,
    loader: Option<FunctionLoader>,
) -> (Node, Origin) {
    let (service, desk) = origin_service("flights", loader);
    let node = Node::builder().join([seed.addr()]).service(service).start().await.unwrap();
    assert!(node.members_at_least(2, Duration::from_secs(20)).await);
    let origin = start_origin_of(epoch, &node.client(), rules).await;
    desk.attend(&origin);
    (node, origin)
}

async fn set(client: &Client, request: &SetRequest) -> SetAnswer {
    let call = client.call::<SetAnswer>("flights.origin/set", request).deadline(Duration::from_secs(20));
    call.await.unwrap().value.expect("the origin answers")
}

fn checkpoint_every(events: u64) -> SetRequest {
    SetRequest { parameters: vec![Parameter::CheckpointEvery(events)], ..SetRequest::numbered() }
}

#[tokio::test]
async fn rules_change_at_the_same_position_at_all_mirrors() {
    let (first, a) = start_mirror(0, 2, None).await;
    let (second, b) = start_mirror(1, 2, Some(&first)).await;
    assert!(first.members_at_least(2, Duration::from_secs(20)).await);
    let (node, origin) = start_operated(&first, 1, "", None).await;
    assert!(second.sees(node.id(), Duration::from_secs(20)).await);
    until("both mirrors follow", async || origin.status().await.unwrap().mirrors.len() == 2).await;
    offer(&origin, 1..=500).await;
    // Any node of the cluster finds the origin.
    let client = second.client();
    let rules = "[[rule]]\nname='low'\ndiscard={type='position',field='at',below=1000}\n";
    let answer = set(&client, &SetRequest { rules: Some(rules.to_owned()), ..SetRequest::numbered() }).await;
    assert_eq!((answer.epoch, answer.rules_version, answer.refused), (1, 2, None));
    assert_eq!(
        answer.position,
        Some(501),
        "the events that were offered before are chosen by the former rules"
    );
    offer(&origin, 501..=1_200).await;
    until("both have the chosen events", async || a.cut().position == 701 && b.cut() == a.cut()).await;
    let mirrors = client.call::<Vec<MirrorStatus>>("flights/status", &()).await.unwrap().value.unwrap();
    let versions: Vec<u32> = mirrors.iter().map(|mirror| mirror.rules_version).collect();
    assert_eq!(versions, [2, 2]);
    let report = client.call::<OriginReport>("flights.origin/status", &()).await.unwrap().value.unwrap();
    assert_eq!((report.rules_version, report.rules[0].suppressed, report.position), (2, 499, 701));
    let shown = client.call::<RulesShown>("flights.origin/rules", &()).await.unwrap().value.unwrap();
    assert_eq!(RuleFile::read(&shown.rules).unwrap().rules[0].name.as_str(), "low");
    assert_eq!(shown.rules_version, 2);
}

#[tokio::test]
async fn invalid_rules_are_refused_with_line_and_column() {
    let (first, _a) = start_mirror(0, 1, None).await;
    let (node, origin) = start_operated(&first, 1, "", None).await;
    until("the mirror follows", async || !origin.status().await.unwrap().mirrors.is_empty()).await;
    let client = node.client();
    let rules = "[[rule]]\nname='run'\noverwrite={type='position',run=1}\n".to_owned();
    let answer = set(&client, &SetRequest { rules: Some(rules), ..SetRequest::numbered() }).await;
    let refused = answer.refused.unwrap();
    assert_eq!((answer.rules_version, refused.reason), (1, SetReason::Problems));
    assert_eq!((refused.problems[0].line, refused.problems[0].column), (2, 6));
    let nothing = set(&client, &SetRequest::numbered()).await.refused.unwrap();
    assert_eq!(nothing.reason, SetReason::Request);
    let large = SetRequest { rules: Some(" ".repeat((1 << 20) + 1)), ..SetRequest::numbered() };
    assert!(set(&client, &large).await.refused.unwrap().message.contains("allowed: 1048576"));
    let functions = [(Name::new("f").unwrap(), Module("bytes".into()))].into();
    let function = set(&client, &SetRequest { functions, ..SetRequest::numbered() }).await.refused.unwrap();
    assert_eq!(function.message, "function `f`: this origin takes no functions that are sent to it");
}

#[tokio::test]
async fn repeated_request_is_answered_and_not_carried_out_again() {
    let (first, _a) = start_mirror(0, 1, None).await;
    let (node, origin) = start_operated(&first, 1, "", None).await;
    until("the mirror follows", async || !origin.status().await.unwrap().mirrors.is_empty()).await;
    let client = node.client();
    let request =
        SetRequest { if_version: Some(Version { epoch: Some(1), version: 1 }), ..checkpoint_every(7) };
    let answer = set(&client, &request).await;
    assert_eq!((answer.rules_version, &answer.refused), (2, &None));
    assert_eq!(set(&client, &request).await, answer);
    // Of two others with the same expectation, one is refused.
    let second = SetRequest { request: 0, ..request };
    let refused = set(&client, &second).await;
    assert_eq!((refused.rules_version, refused.refused.unwrap().reason), (2, SetReason::Version));
    assert_eq!(origin.rules().await.unwrap().rules.checkpoint.every_events, 7);
}

#[tokio::test]
async fn mode_that_was_fixed_is_reported() {
    let (first, _a) = start_mirror(0, 1, None).await;
    let (node, origin) = start_operated(&first, 1, "", None).await;
    until("the mirror follows", async || !origin.status().await.unwrap().mirrors.is_empty()).await;
    let loaded = SetRequest { mode: Some(ModeChoice::Loaded), ..SetRequest::numbered() };
    assert_eq!(set(&node.client(), &loaded).await.rules_version, 2);
    let report = origin.report().await.unwrap();
    assert_eq!((report.mode, report.mode_choice), (Mode::Loaded, ModeChoice::Loaded));
}

#[tokio::test]
async fn origin_that_no_mirror_follows_refuses_changes() {
    let (first, mirror) = start_mirror(0, 1, None).await;
    let running = start_origin_of(1, &first.client(), "").await;
    offer(&running, 1..=10).await;
    until("the mirror follows the first origin", async || mirror.cut().position == 10).await;
    // A second origin of the epoch gets no mirror, and learns it with its first event.
    let (node, second) = start_operated(&first, 1, "", None).await;
    offer(&second, 1..=1).await;
    until("the second one is alone", async || second.status().await.unwrap().mirrors.is_empty()).await;
    let refused = set(&node.client(), &checkpoint_every(3)).await.refused.unwrap();
    assert_eq!(refused.reason, SetReason::NoMirrors);
}

#[tokio::test]
async fn functions_are_made_of_bytes_that_are_sent() {
    let (first, mirror) = start_mirror(0, 1, None).await;
    let loader: FunctionLoader = Arc::new(|bytes| {
        let kind = Name::new(String::from_utf8(bytes.to_vec()).map_err(|error| error.to_string())?);
        let kind = kind.map_err(|error| error.to_string())?;
        let rename = move |event: &Event, out: &mut Vec<Event>| {
            out.push(Event { kind: kind.clone(), ..event.clone() });
            Ok(())
        };
        Ok(Box::new(rename) as Box<dyn Function>)
    });
    let (node, origin) = start_operated(&first, 1, "", Some(loader)).await;
    until("the mirror follows", async || !origin.status().await.unwrap().mirrors.is_empty()).await;
    let client = node.client();
    let rules = Some("[[rule]]\nname='own'\nfunction={name='rename',type='position'}".to_owned());
    let sent = |bytes: &'static [u8]| [(Name::new("rename").unwrap(), Module(bytes.into()))].into();
    let missing = set(&client, &SetRequest { rules: rules.clone(), ..SetRequest::numbered() }).await;
    assert_eq!(missing.refused.unwrap().message, "rule `own`: function `rename` is unknown here");
    let invalid = SetRequest { rules: rules.clone(), functions: sent(b"a b"), ..SetRequest::numbered() };
    let invalid = set(&client, &invalid).await.refused.unwrap();
    assert_eq!(invalid.reason, SetReason::Function);
    assert!(invalid.message.starts_with("function `rename`: `a b` is not a name"), "{}", invalid.message);
    let valid = SetRequest { rules, functions: sent(b"moved"), ..SetRequest::numbered() };
    assert_eq!(set(&client, &valid).await.refused, None);
    offer(&origin, 1..=100).await;
    until("the mirror has the events", async || mirror.cut().position == 100).await;
    assert_eq!(origin.report().await.unwrap().rules[0].made, 100);
}
