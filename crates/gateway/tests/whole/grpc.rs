//! Calls, streams and standard services over gRPC.

use crate::each_slice;
use crate::rpc::pb::{self, call_reply, call_request, slice_event, stream_event};
use crate::rpc::{Channel, name, problem, sum};
use crate::tokens::{entry, world_of};
use crate::world::{ENDPOINTS, World, batch};
use futures_util::stream::iter;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use treefold::Body;
use treefold_gateway::tokens::{Entry, GatewayRight, draw};

fn json_of(reply: &pb::CallReply) -> &str {
    match &reply.value {
        Some(call_reply::Value::Json(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn answers_have_the_accounts_that_http_has() {
    let world = World::usual().await;
    let mut channel = world.channel().await;
    let options = pb::CallOptions { explain: Some(true), ..pb::CallOptions::default() };
    let full = channel.sum("null", options).await.unwrap();
    assert_eq!((json_of(&full), full.verdict()), ("6", pb::Verdict::Full));
    let account = full.account.unwrap();
    assert_eq!(account.coverage, Some(pb::Coverage { asked: 4, contributed: 4 }));
    assert!(account.tree.is_some() && account.missing.is_empty());
    let half = pb::CallOptions { min_coverage: Some(0.5), ..pb::CallOptions::default() };
    let request = Request::new(sum(r#"{"fail": [1, 2]}"#, half));
    let partial = channel.ask::<_, pb::CallReply>("Call", request).await.unwrap();
    assert_eq!(partial.metadata().get("treefold-coverage").unwrap(), "2/4");
    let partial = partial.into_inner();
    assert_eq!((json_of(&partial), partial.verdict()), ("3", pb::Verdict::Partial));
    let missing = &partial.account.unwrap().missing[0];
    assert_eq!((missing.partition, missing.reason.as_str()), (1, "local_failed"));
    assert_eq!(missing.detail.as_deref(), Some("asked to fail"));
}

#[tokio::test]
async fn raw_values_travel_as_they_are() {
    let world = World::usual().await;
    let mut channel = world.channel().await;
    let mut call = async |aggregation: &str, params: bytes::Bytes| {
        let request = pb::CallRequest {
            service: "sums".to_owned(),
            aggregation: aggregation.to_owned(),
            params: Some(call_request::Params::Raw(params)),
            options: Some(pb::CallOptions { partitions: Some("1".to_owned()), ..pb::CallOptions::default() }),
            form: pb::Form::Unspecified.into(),
            params_for: Vec::new(),
            reduce_params: None,
        };
        let reply = channel.ask::<_, pb::CallReply>("Call", Request::new(request)).await.unwrap();
        match reply.into_inner().value {
            Some(call_reply::Value::Raw(bytes)) => bytes,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(call("echo", bytes::Bytes::from_static(b"\xc1\0hi")).await, &b"\xc1\0hi"[..]);
    let rows = call("rows", batch(&[70]).encode().unwrap()).await;
    assert_eq!(treefold::operators::codec::Batch::decode(&rows).unwrap(), batch(&[1, 70]));
}

#[tokio::test]
async fn refusals_have_a_code_and_the_fields_of_the_problem() {
    let world = World::usual().await;
    let mut channel = world.channel().await;
    let with = |change: fn(&mut pb::CallRequest)| {
        let mut request = sum("null", pb::CallOptions::default());
        change(&mut request);
        request
    };
    for (request, code, expected, field) in [
        (with(|r| r.service = "faces".into()), Code::NotFound, "unknown_service", "service"),
        (with(|r| r.service = "sums/sum".into()), Code::NotFound, "unknown_service", "service"),
        (with(|r| r.aggregation = "som".into()), Code::NotFound, "unknown_aggregation", "aggregation"),
        (sum("{", pb::CallOptions::default()), Code::InvalidArgument, "bad_body", "json"),
        (sum("7", pb::CallOptions::default()), Code::InvalidArgument, "bad_params", "body"),
        (
            sum("null", pb::CallOptions { deadline_ms: Some(61_000), ..Default::default() }),
            Code::InvalidArgument,
            "bad_field",
            "deadline",
        ),
        (
            sum("null", pb::CallOptions { shape: Some("round".into()), ..Default::default() }),
            Code::InvalidArgument,
            "bad_field",
            "shape",
        ),
    ] {
        let refused = channel.ask::<_, pb::CallReply>("Call", Request::new(request)).await.unwrap_err();
        assert_eq!((refused.code(), name(&refused).as_str()), (code, expected), "{refused:?}");
        assert_eq!(problem(&refused).field.as_deref(), Some(field), "{refused:?}");
    }
    let short = channel.sum(r#"{"fail": [1, 2]}"#, pb::CallOptions::default()).await.unwrap_err();
    assert_eq!((short.code(), name(&short).as_str()), (Code::Unavailable, "coverage"));
    assert_eq!(short.metadata().get("treefold-status").unwrap(), "insufficient");
    let account = problem(&short).account.unwrap();
    assert_eq!(account.coverage.unwrap().asked, 4);
    assert!(account.missing.iter().any(|missing| missing.reason == "local_failed"), "{account:?}");
    let page = world.get("/metrics").await;
    let text = String::from_utf8(page.body).unwrap();
    assert!(text.contains("treefold_gateway_rpcs_total{code=\"3\"} 4"), "{text}");
}

#[tokio::test]
async fn methods_that_do_not_exist_are_unimplemented() {
    let world = World::usual().await;
    let mut channel = world.channel().await;
    let refused = channel.ask::<_, ()>("Cull", Request::new(())).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    let path = "/treefold.v2.Treefold/Call".parse().unwrap();
    let mut grpc = tonic::client::Grpc::new(&mut channel);
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    let refused = grpc.unary(Request::new(()), path, codec).await.unwrap_err();
    assert_eq!((refused.code(), name(&refused).as_str()), (Code::Unimplemented, "unknown_path"));
    channel.authority = "evil.example".to_owned();
    let refused = channel.sum("null", pb::CallOptions::default()).await.unwrap_err();
    assert_eq!((refused.code(), name(&refused).as_str()), (Code::PermissionDenied, "browser"));
}

#[tokio::test]
async fn grpc_timeout_bounds_the_deadline_of_the_call() {
    let world = World::usual().await;
    let mut channel = world.channel().await;
    let mut request = Request::new(sum(r#"{"hold_ms": 40000}"#, pb::CallOptions::default()));
    request.set_timeout(Duration::from_millis(500));
    let late = channel.ask::<_, pb::CallReply>("Call", request).await.unwrap_err();
    // The node's answer comes before the caller gives up, so it has the accounts.
    assert_eq!((late.code(), name(&late).as_str()), (Code::Unavailable, "coverage"));
    assert!(problem(&late).account.unwrap().missing.len() == 4, "{late:?}");
    let mut request = Request::new(sum("null", pb::CallOptions::default()));
    request.metadata_mut().insert("grpc-timeout", "soon".parse().unwrap());
    let refused = channel.ask::<_, pb::CallReply>("Call", request).await.unwrap_err();
    assert_eq!(
        (refused.code(), problem(&refused).field.as_deref()),
        (Code::InvalidArgument, Some("grpc-timeout"))
    );
    let mut request = Request::new(sum("null", pb::CallOptions::default()));
    request.metadata_mut().insert("grpc-timeout", "0m".parse().unwrap());
    let refused = channel.ask::<_, pb::CallReply>("Call", request).await.unwrap_err();
    assert_eq!(refused.code(), Code::DeadlineExceeded);
}

#[tokio::test]
async fn cancelled_rpc_cancels_its_call() {
    let world = World::usual().await;
    let mut channel = world.channel().await;
    let options = pb::CallOptions { deadline_ms: Some(50_000), ..pb::CallOptions::default() };
    let asking = tokio::spawn(async move {
        drop(channel.sum(r#"{"hold_ms": 40000}"#, options).await);
    });
    world.until_open(1).await;
    asking.abort();
    world.until_cancelled(1).await;
}

#[tokio::test]
async fn tokens_and_limits_are_those_of_http() {
    let (caller, slow) = (draw().unwrap(), draw().unwrap());
    let rights = [GatewayRight::Call];
    let limited = Entry { requests_per_s: Some(1), ..entry("slow", &slow, &["*"], &rights) };
    let (world, _file) = world_of(&[entry("caller", &caller, &["sums"], &rights), limited]).await;
    let mut channel = world.channel().await;
    let with_token = |token: &str| {
        let mut request = Request::new(sum("null", pb::CallOptions::default()));
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        request
    };
    let refused = channel.sum("null", pb::CallOptions::default()).await.unwrap_err();
    assert_eq!((refused.code(), name(&refused).as_str()), (Code::Unauthenticated, "no_token"));
    assert!(channel.ask::<_, pb::CallReply>("Call", with_token(&caller)).await.is_ok());
    let status = with_token(&caller).map(|_| pb::StatusRequest {});
    let refused = channel.ask::<_, pb::StatusReply>("Status", status).await.unwrap_err();
    assert_eq!((refused.code(), name(&refused).as_str()), (Code::PermissionDenied, "denied"));
    let faces = with_token(&caller).map(|call| pb::CallRequest { service: "faces".to_owned(), ..call });
    let refused = channel.ask::<_, pb::CallReply>("Call", faces).await.unwrap_err();
    assert_eq!((refused.code(), problem(&refused).given.as_deref()), (Code::PermissionDenied, Some("faces")));
    assert!(channel.ask::<_, pb::CallReply>("Call", with_token(&slow)).await.is_ok());
    let refused = channel.ask::<_, pb::CallReply>("Call", with_token(&slow)).await.unwrap_err();
    assert_eq!((refused.code(), name(&refused).as_str()), (Code::ResourceExhausted, "rate"));
    assert_eq!(refused.metadata().get("grpc-retry-pushback-ms").unwrap(), "1000");
    assert_eq!(problem(&refused).retry_after_s, Some(1));
    // Health needs no token.
    let check = HealthClient::new(&mut channel).check(HealthCheckRequest::default()).await;
    assert_eq!(check.unwrap().into_inner().status(), ServingStatus::Serving);
}

#[tokio::test]
async fn messages_are_bounded_by_bytes_and_time() {
    let world = World::with_limits(|limits| {
        limits.body_bytes_max = 1_000;
        limits.body_within = Duration::from_millis(300);
    })
    .await;
    let mut channel = world.channel().await;
    let padded = |bytes: usize| sum(&format!("null{}", " ".repeat(bytes)), pb::CallOptions::default());
    assert!(channel.ask::<_, pb::CallReply>("Call", Request::new(padded(900))).await.is_ok());
    let refused = channel.ask::<_, pb::CallReply>("Call", Request::new(padded(1_000))).await.unwrap_err();
    assert_eq!((refused.code(), name(&refused).as_str()), (Code::ResourceExhausted, "body_too_large"));
    // A request whose message never comes.
    let mut grpc = tonic::client::Grpc::new(&mut channel);
    let codec = tonic_prost::ProstCodec::<pb::CallRequest, pb::CallReply>::default();
    let path = "/treefold.v1.Treefold/Call".parse().unwrap();
    let never = Request::new(futures_util::stream::pending::<pb::CallRequest>());
    let late = tokio::time::timeout(crate::world::WITHIN, grpc.client_streaming(never, path, codec)).await;
    let late = late.unwrap().unwrap_err();
    assert_eq!((late.code(), name(&late).as_str()), (Code::DeadlineExceeded, "body_timeout"));
}

#[tokio::test]
async fn state_of_the_node_is_that_over_http() {
    let world = World::usual().await;
    let mut channel = world.channel().await;
    channel.sum("null", pb::CallOptions::default()).await.unwrap();
    let status = channel.ask("Status", Request::new(pb::StatusRequest {})).await.unwrap();
    let status: pb::StatusReply = status.into_inner();
    assert_eq!((status.counters["calls_full"], status.open["calls"]), (1, 0));
    let node = status.node.unwrap();
    assert_eq!(node.addr, world.node.addr().to_string());
    assert_eq!(node.services["sums"].partitions, [0, 1, 2, 3]);
    let services = channel.ask("Services", Request::new(pb::ServicesRequest {})).await.unwrap();
    let services: pb::ServicesReply = services.into_inner();
    assert_eq!((services.services["sums"].total, services.services["sums"].declared), (4, true));
    let nodes = channel.ask("Nodes", Request::new(pb::NodesRequest {})).await.unwrap();
    let nodes: pb::NodesReply = nodes.into_inner();
    assert_eq!(nodes.nodes[0].addr, node.addr);
}

#[tokio::test]
async fn services_are_described_by_reflection() {
    let world = World::usual().await;
    let mut channel = world.channel().await;
    let ask = |message| ServerReflectionRequest { host: String::new(), message_request: Some(message) };
    let questions = [
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol("treefold.v1.CallRequest".to_owned())),
    ];
    let mut client = ServerReflectionClient::new(&mut channel);
    let mut answers = client.server_reflection_info(iter(questions)).await.unwrap().into_inner();
    let Some(MessageResponse::ListServicesResponse(list)) =
        answers.message().await.unwrap().unwrap().message_response
    else {
        panic!("a list");
    };
    let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    for expected in ["treefold.v1.Treefold", "grpc.health.v1.Health"] {
        assert!(names.contains(&expected), "{names:?}");
    }
    let described = answers.message().await.unwrap().unwrap().message_response;
    assert!(matches!(described, Some(MessageResponse::FileDescriptorResponse(_))), "{described:?}");
}

#[tokio::test]
async fn health_and_streams_end_with_the_gateway() {
    let world = World::usual().await;
    let (mut channel, mut other) = (world.channel().await, world.channel().await);
    let mut health = HealthClient::new(&mut channel);
    let unknown = HealthCheckRequest { service: "faces".to_owned() };
    assert_eq!(health.check(unknown).await.unwrap_err().code(), Code::NotFound);
    let service = HealthCheckRequest { service: "treefold.v1.Treefold".to_owned() };
    let mut watched = health.watch(service).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    let request = pb::OpenStreamRequest { service: "meters".to_owned(), ..pb::OpenStreamRequest::default() };
    let mut stream = other.open::<_, pb::StreamEvent>("OpenStream", request).await.unwrap();
    assert!(stream.message().await.unwrap().is_some());
    let World { node, gateway } = world;
    let draining = tokio::spawn(gateway.drain(Duration::from_secs(20)));
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    let ended = stream.message().await.unwrap_err();
    assert_eq!((ended.code(), name(&ended).as_str()), (Code::Unavailable, "ending"));
    draining.await.unwrap();
    drop(node);
}

#[tokio::test]
async fn health_follows_the_node_and_has_places() {
    let world = World::with_limits(|limits| limits.watchers_max = 1).await;
    let (mut channel, mut other) = (world.channel().await, world.channel().await);
    let mut watched =
        HealthClient::new(&mut channel).watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    let refused = HealthClient::new(&mut other).watch(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!((refused.code(), name(&refused).as_str()), (Code::Unavailable, "busy"));
    world.node.abort();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
}

#[tokio::test]
async fn waves_of_a_stream_are_messages() {
    let world = World::usual().await;
    let mut channel = world.channel().await;
    let request = pb::OpenStreamRequest {
        service: "meters".to_owned(),
        filter: "sum".to_owned(),
        every_ms: Some(20),
        ..pb::OpenStreamRequest::default()
    };
    let mut stream = channel.open::<_, pb::StreamEvent>("OpenStream", request).await.unwrap();
    let Some(stream_event::Event::Opened(opened)) = stream.message().await.unwrap().unwrap().event else {
        panic!("the stream is opened first");
    };
    assert_eq!(opened.endpoints, "0-2");
    for tag in 1..=3 {
        let Some(stream_event::Event::Wave(wave)) = stream.message().await.unwrap().unwrap().event else {
            panic!("a wave");
        };
        assert_eq!((wave.tag, wave.contributors.as_str(), wave.packets.len()), (tag, "0-2", 1));
        assert_eq!(wave.coverage.unwrap().contributed, u64::from(ENDPOINTS));
    }
    drop(stream);
    world.until_streams(0).await;
    let wrong = pb::OpenStreamRequest {
        service: "meters".to_owned(),
        filter: "no such filter".to_owned(),
        ..pb::OpenStreamRequest::default()
    };
    let refused = channel.open::<_, pb::StreamEvent>("OpenStream", wrong).await.unwrap_err();
    assert_eq!((refused.code(), name(&refused).as_str()), (Code::InvalidArgument, "filter"));
}

#[tokio::test]
async fn one_connection_carries_many_calls_at_once() {
    let world = World::usual().await;
    let Channel { sender, connection, authority } = world.channel().await;
    let calls = (0..40).map(|_| {
        let mut channel = Channel {
            sender: sender.clone(),
            connection: tokio::spawn(async { Ok(()) }),
            authority: authority.clone(),
        };
        async move { channel.sum(r#"{"hold_ms": 5}"#, pb::CallOptions::default()).await }
    });
    for reply in futures_util::future::join_all(calls).await {
        assert_eq!(json_of(&reply.unwrap()), "6");
    }
    drop(sender);
    connection.abort();
}

/// Asks for all slices of lines of which one may fail.
fn slices(slices: u32, window: u32, fails: &str, min_coverage: f64) -> pb::CallRequest {
    pb::CallRequest {
        service: "rows".to_owned(),
        aggregation: "lines".to_owned(),
        params: Some(call_request::Params::Json(fails.to_owned())),
        options: Some(pb::CallOptions {
            deadline_ms: Some(20_000),
            slices: Some(slices),
            window: Some(window),
            min_coverage: Some(min_coverage),
            ..pb::CallOptions::default()
        }),
        ..pb::CallRequest::default()
    }
}

/// The numbers of the slices that came, their lines, and the outcome.
async fn read_slices(channel: &mut Channel, request: pb::CallRequest) -> (Vec<u32>, String, pb::Outcome) {
    let mut events = channel.open::<_, pb::SliceEvent>("CallEach", request).await.unwrap();
    let (mut numbers, mut lines, mut outcome) = (Vec::new(), String::new(), None);
    while let Some(event) = events.message().await.unwrap() {
        match event.event.unwrap() {
            slice_event::Event::Slice(pb::Slice { number, value: Some(pb::slice::Value::Raw(text)) }) => {
                numbers.push(number);
                lines += std::str::from_utf8(&text).unwrap();
            }
            slice_event::Event::Outcome(last) => assert!(outcome.replace(last).is_none()),
            other => panic!("{other:?}"),
        }
    }
    (numbers, lines, outcome.unwrap())
}

#[tokio::test]
async fn slices_are_messages_and_the_outcome_is_the_last() {
    let world = each_slice::world(4, &Arc::default()).await;
    let mut channel = world.channel().await;
    let all: String = (0..each_slice::ROWS).map(|row| format!("{row:04}\n{row:04}\n")).collect();
    let (numbers, lines, outcome) = read_slices(&mut channel, slices(8, 2, "null", 1.0)).await;
    assert_eq!(numbers, (0..8).collect::<Vec<_>>());
    assert!(lines == all, "{} of {} bytes", lines.len(), all.len());
    assert_eq!((outcome.verdict(), outcome.slices_asked, outcome.slices_taken), (pb::Verdict::Full, 8, 8));
    assert_eq!(outcome.account.unwrap().coverage, Some(pb::Coverage { asked: 2, contributed: 2 }));

    let (numbers, _, outcome) = read_slices(&mut channel, slices(8, 2, "5", 1.0)).await;
    assert_eq!((numbers.len(), outcome.verdict(), outcome.slices_taken), (5, pb::Verdict::Unspecified, 5));
    let (numbers, lines, outcome) = read_slices(&mut channel, slices(8, 2, "5", 0.5)).await;
    assert_eq!((numbers.len(), lines.len() < all.len(), outcome.verdict()), (8, true, pb::Verdict::Partial));
    assert_eq!(outcome.account.unwrap().missing[0].detail.as_deref(), Some("asked to fail"));

    for (request, code, expected) in [
        (slices(8, 2, "0", 1.0), Code::Unavailable, "coverage"),
        (slices(8, 0, "null", 1.0), Code::InvalidArgument, "bad_field"),
        (slices(2_000_000, 2, "null", 1.0), Code::InvalidArgument, "bad_field"),
        (
            pb::CallRequest { service: "faces".into(), ..slices(8, 2, "null", 1.0) },
            Code::NotFound,
            "unknown_service",
        ),
    ] {
        let refused = channel.open::<_, pb::SliceEvent>("CallEach", request).await.unwrap_err();
        assert_eq!((refused.code(), name(&refused).as_str()), (code, expected), "{refused:?}");
    }
}

#[tokio::test]
async fn caller_that_does_not_read_holds_up_the_slices_and_one_that_leaves_cancels_them() {
    let made = Arc::default();
    let world = each_slice::world(20_000, &made).await;
    let mut channel = world.channel().await;
    let request = slices(each_slice::ROWS as u32, 4, "null", 1.0);
    let mut events = channel.open::<_, pb::SliceEvent>("CallEach", request).await.unwrap();
    assert!(events.message().await.unwrap().is_some());
    each_slice::until_some_are_held_up(&made).await;
    drop(events);
    world.until_open(0).await;
}
