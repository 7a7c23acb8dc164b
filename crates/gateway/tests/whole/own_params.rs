//! Calls whose partitions, or whose reduce, have parameters of their own, over HTTP and gRPC.

use crate::document::check;
use crate::world::{Answer, BYTES, CALL_JSON, CALL_MESSAGE_PACK, JSON, World, post};
use serde_json::{Value, json};

const SUM: &str = "/v1/call/sums/sum";
const ECHO: &str = "/v1/call/sums/echo";

async fn sum(world: &World, query: &str, document: &Value) -> Answer {
    post(world.addr(), &format!("{SUM}{query}"), &[CALL_JSON], document.to_string().as_bytes()).await
}

/// Asks partitions 1 and 3 to fail, and no other, although the parameters of 2 name it as well.
fn two_fail() -> Value {
    json!({
        "params": {"fail": [2]},
        "params_for": [
            {"partitions": "1,3", "params": {"fail": [1, 3]}}, {"partitions": "2", "params": {"hold_ms": 1}},
        ],
    })
}

#[tokio::test]
async fn partitions_get_their_own_parameters_over_http() {
    let world = World::usual().await;
    let answer = sum(&world, "?min_coverage=0.5", &two_fail()).await;
    assert_eq!((answer.status, answer.header("treefold-missing")), (200, Some("1,3")), "{answer:?}");
    assert_eq!(answer.json()["value"], 2);
    let document = world.get("/v1/openapi.json").await.json();
    let body = &document["paths"]["/v1/call/{service}/{aggregation}"]["post"]["requestBody"]["content"];
    check(&document, &body[CALL_JSON.1]["schema"], &two_fail(), "body");
    let common_alone = sum(&world, "", &json!({"params": null})).await;
    assert_eq!((common_alone.status, common_alone.json()["value"].as_u64()), (200, Some(6)));
    // The same in a body of plain parameters is no call document.
    let plain = post(world.addr(), SUM, &[JSON], two_fail().to_string().as_bytes()).await;
    assert_eq!((plain.status, plain.header("treefold-coverage")), (200, Some("4/4")), "{plain:?}");
}

#[tokio::test]
async fn the_reduce_gets_its_own_parameters_over_http() {
    let world = World::usual().await;
    let addr = world.addr();
    let ask = |document: Value| async move {
        post(addr, "/v1/call/sums/joined", &[CALL_JSON], document.to_string().as_bytes()).await
    };
    let document =
        json!({"params": "p", "params_for": [{"partitions": "2", "params": "q"}], "reduce_params": "-"});
    let answer = ask(document.clone()).await;
    assert_eq!((answer.status, answer.json()["value"].as_str()), (200, Some("p0-p1-p3-q2")), "{answer:?}");
    let described = world.get("/v1/openapi.json").await.json();
    let body = &described["paths"]["/v1/call/{service}/{aggregation}"]["post"]["requestBody"]["content"];
    check(&described, &body[CALL_JSON.1]["schema"], &document, "body");
    let long = ask(json!({"params": "p", "reduce_params": "x".repeat(1 << 20)})).await;
    assert_eq!((long.status, long.json()["field"].as_str()), (400, Some("reduce_params")), "{long:?}");
}

#[tokio::test]
async fn documents_in_message_pack_have_bytes_as_they_travel() {
    let world = World::usual().await;
    // {"params": b"-", "params_for": [{"partitions": "0-1", "params": b"\xc1 two"}]}
    let text = |text: &str| [&[0xa0 | text.len() as u8], text.as_bytes()].concat();
    let binary = |bytes: &[u8]| [&[0xc4, bytes.len() as u8], bytes].concat();
    let entry = [vec![0x82], text("partitions"), text("0-1"), text("params"), binary(b"\xc1 two")].concat();
    let body = [vec![0x82], text("params"), binary(b"-"), text("params_for"), vec![0x91], entry].concat();
    let headers = [CALL_MESSAGE_PACK, ("accept", BYTES.1)];
    let answer = post(world.addr(), &format!("{ECHO}?partitions=0,1,3"), &headers, &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    // The partials are folded in any order.
    let mut bytes = answer.body.clone();
    bytes.sort_unstable();
    let mut expected = b"\xc1 two\xc1 two-".to_vec();
    expected.sort_unstable();
    assert_eq!(bytes, expected);
}

#[tokio::test]
async fn mistakes_over_http_name_the_field_and_its_limit() {
    let world = World::with_limits(|limits| limits.params_for_bytes_max = 100).await;
    let own = |entries: Value| json!({"params": null, "params_for": entries});
    for (document, query, field, limit) in [
        (own(json!([{"partitions": "4", "params": {}}])), "", "params_for", "0-3"),
        (own(json!([{"partitions": "2", "params": {}}])), "?partitions=0,3", "params_for", "0,3"),
        (
            own(json!([{"partitions": "0-1", "params": {}}, {"partitions": "3,1", "params": {}}])),
            "",
            "params_for[1].partitions",
            "each partition once",
        ),
        (
            own(json!([{"partitions": "some", "params": {}}])),
            "",
            "params_for[0].partitions",
            "ids and ranges below",
        ),
        (
            own(json!([{"partitions": "0-1048575", "params": {}}])),
            "",
            "params_for",
            "at most 100 bytes (params_for_bytes_max)",
        ),
        (
            own(json!([{"partitions": "1", "params": "x".repeat(100)}])),
            "",
            "params_for",
            "at most 100 bytes (params_for_bytes_max)",
        ),
    ] {
        let answer = sum(&world, query, &document).await;
        assert_eq!((answer.status, answer.problem().as_str()), (400, "bad_field"), "{document}: {answer:?}");
        let problem = answer.json();
        assert_eq!(problem["field"], field, "{document}");
        assert!(problem["limit"].as_str().unwrap().contains(limit), "{document}: {problem}");
    }
    for document in
        [json!([]), own(json!({"1": {}})), own(json!([{"partitions": "1"}])), json!({"parameters": 7})]
    {
        let answer = sum(&world, "", &document).await;
        assert_eq!((answer.status, answer.problem().as_str()), (400, "bad_body"), "{document}");
    }
    let unknown = post(world.addr(), SUM, &[("content-type", "application/vnd.treefold+json")], b"{}").await;
    assert!(unknown.json()["limit"].as_str().unwrap().contains(CALL_JSON.1), "{unknown:?}");
}

#[tokio::test]
async fn partitions_beyond_the_node_s_own_limit_are_refused_by_the_node() {
    let world = World::with_limits(|limits| limits.params_for_bytes_max = 4 << 20).await;
    let long = json!({"params_for": [{"partitions": "1", "params": "x".repeat(2 << 20)}]});
    let problem = sum(&world, "", &long).await.json();
    assert_eq!(problem["field"], "params_for");
    assert!(problem["limit"].as_str().unwrap().contains("(own_params_bytes_max)"), "{problem}");
}

#[cfg(feature = "grpc")]
mod over_grpc {
    use super::World;
    use crate::rpc::pb::{self, call_reply, params_for};
    use crate::rpc::{name, problem, sum};
    use tonic::{Code, Request};

    fn entry(partitions: &str, json: &str) -> pb::ParamsFor {
        pb::ParamsFor {
            partitions: partitions.to_owned(),
            params: Some(params_for::Params::Json(json.to_owned())),
        }
    }

    fn with(entries: Vec<pb::ParamsFor>) -> Request<pb::CallRequest> {
        let half = pb::CallOptions { min_coverage: Some(0.5), ..pb::CallOptions::default() };
        Request::new(pb::CallRequest { params_for: entries, ..sum(r#"{"fail": [2]}"#, half) })
    }

    #[tokio::test]
    async fn partitions_get_their_own_parameters_over_grpc() {
        let world = World::usual().await;
        let mut channel = world.channel().await;
        let raw = rmp_serde::to_vec_named(&serde_json::json!({"hold_ms": 1})).unwrap();
        let second =
            pb::ParamsFor { partitions: "2".to_owned(), params: Some(params_for::Params::Raw(raw.into())) };
        let request = with(vec![entry("1,3", r#"{"fail": [1, 3]}"#), second]);
        let reply = channel.ask::<_, pb::CallReply>("Call", request).await.unwrap().into_inner();
        assert_eq!(reply.value, Some(call_reply::Value::Json("2".to_owned())), "{:?}", reply.account);
        let missing = reply.account.unwrap().missing;
        assert_eq!(missing.iter().map(|missing| missing.partition).collect::<Vec<_>>(), [1, 3]);
    }

    #[tokio::test]
    async fn the_reduce_gets_its_own_parameters_over_grpc() {
        use pb::call_request::ReduceParams;
        let world = World::usual().await;
        let mut channel = world.channel().await;
        let raw = ReduceParams::ReduceRaw(rmp_serde::to_vec("+").unwrap().into());
        for (between, joined) in
            [(ReduceParams::ReduceJson(r#""-""#.to_owned()), "\"p0-p1-p2-p3\""), (raw, "\"p0+p1+p2+p3\"")]
        {
            let request = pb::CallRequest {
                aggregation: "joined".to_owned(),
                reduce_params: Some(between),
                ..sum(r#""p""#, pb::CallOptions::default())
            };
            let reply = channel.ask::<_, pb::CallReply>("Call", Request::new(request)).await.unwrap();
            assert_eq!(reply.into_inner().value, Some(call_reply::Value::Json(joined.to_owned())));
        }
        let reduce_params = Some(ReduceParams::ReduceJson("{".to_owned()));
        let request = pb::CallRequest { reduce_params, ..sum("null", pb::CallOptions::default()) };
        let refused = channel.ask::<_, pb::CallReply>("Call", Request::new(request)).await.unwrap_err();
        assert_eq!(problem(&refused).field.as_deref(), Some("reduce_json"), "{refused:?}");
    }

    #[tokio::test]
    async fn mistakes_over_grpc_name_the_field_and_its_limit() {
        let world = World::with_limits(|limits| limits.params_for_bytes_max = 100).await;
        let mut channel = world.channel().await;
        for (entries, expected, field, limit) in [
            (vec![entry("4", "{}")], "bad_field", "params_for", "0-3"),
            (
                vec![entry("1", "{}"), entry("0-1", "{}")],
                "bad_field",
                "params_for[1].partitions",
                "each partition once",
            ),
            (vec![entry("", "{}")], "bad_field", "params_for[0].partitions", "ids and ranges"),
            (vec![entry("0-9999", "{}")], "bad_field", "params_for", "(params_for_bytes_max)"),
            (vec![entry("1", "{}"), entry("2", "{")], "bad_body", "params_for[1].json", ""),
        ] {
            let refused = channel.ask::<_, pb::CallReply>("Call", with(entries)).await.unwrap_err();
            assert_eq!((refused.code(), name(&refused).as_str()), (Code::InvalidArgument, expected));
            let problem = problem(&refused);
            assert_eq!(problem.field.as_deref(), Some(field), "{refused:?}");
            assert!(problem.limit.unwrap_or_default().contains(limit), "{refused:?}");
        }
    }
}
