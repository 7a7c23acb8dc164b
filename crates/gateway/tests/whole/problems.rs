//! Refusals: each request gets its problem, with the field and the limit that it is about.

use crate::world::{JSON, MESSAGE_PACK, World, ask, options, post};
use std::net::SocketAddr;
use treefold_gateway::{Gateway, StartError, TlsFiles};

const SUM: &str = "/v1/call/sums/sum";

#[tokio::test]
async fn every_wrong_option_is_refused_by_field_and_limit() {
    let world = World::usual().await;
    for (query, field, limit) in [
        ("deadline=500", "deadline", "with its unit"),
        ("deadline=0s", "deadline", "above 0"),
        ("deadline=61s", "deadline", "up to 60s (deadline_max)"),
        ("min_coverage=1.5", "min_coverage", "from 0 to 1"),
        ("shape=star", "shape", "binomial"),
        ("policy=best", "policy", "round_robin"),
        ("waiting=never", "waiting", "staged"),
        ("hedge=perhaps", "hedge", "true, false"),
        ("explain=yes", "explain", "true, false"),
        ("slices=many", "slices", "1 to 256"),
        ("slices=1000", "slices", "256"),
        ("partitions=3-1", "partitions", "ids and ranges"),
        ("deadline=1s&deadline=2s", "deadline", "once"),
    ] {
        let answer = world.sum(&format!("?{query}"), "null").await;
        assert_eq!((answer.status, answer.problem().as_str()), (400, "bad_field"), "{query}: {answer:?}");
        let problem = answer.json();
        assert_eq!(problem["field"], field, "{query}");
        assert!(problem["limit"].as_str().unwrap().contains(limit), "{query}: {problem}");
        assert!(
            problem["detail"].as_str().unwrap().contains(problem["limit"].as_str().unwrap()),
            "{problem}"
        );
    }
    assert_eq!(world.sum("?timeout=1s", "null").await.problem(), "unknown_field");
}

#[tokio::test]
async fn every_wrong_request_has_its_problem() {
    let world = World::usual().await;
    let addr = world.addr();
    let accept_text = [JSON, ("accept", "text/html")];
    for (method, path, headers, body, status, kind) in [
        ("GET", "/v1/nowhere", &[][..], &b""[..], 404, "unknown_path"),
        ("GET", SUM, &[], b"", 405, "method"),
        ("POST", "/v1/status", &[], b"", 405, "method"),
        ("POST", "/v1/call/faces/topk", &[], b"", 404, "unknown_service"),
        ("POST", "/v1/call/sums/product", &[], b"", 404, "unknown_aggregation"),
        ("POST", "/v1/call/sums%2Fsum/x", &[], b"", 404, "unknown_service"),
        ("POST", SUM, &[JSON], b"{fail", 400, "bad_body"),
        ("POST", SUM, &[JSON], b"\"seven\"", 400, "bad_params"),
        ("POST", SUM, &[MESSAGE_PACK], b"\xc1", 400, "bad_body"),
        ("POST", SUM, &[], b"null", 415, "content_type"),
        ("POST", SUM, &[("content-type", "text/plain")], b"null", 415, "content_type"),
        ("POST", SUM, &accept_text, b"null", 406, "not_acceptable"),
    ] {
        let answer = ask(addr, method, path, headers, body).await;
        assert_eq!((answer.status, answer.problem().as_str()), (status, kind), "{method} {path}: {answer:?}");
    }
    assert_eq!(ask(addr, "GET", SUM, &[], b"").await.header("allow"), Some("POST"));
    assert_eq!(post(addr, "/v1/status", &[], b"").await.header("allow"), Some("GET, HEAD"));
    let bad = post(addr, SUM, &[JSON], b"{\"fail\": [1,]}").await.json();
    assert!(bad["field"] == "body" && bad["detail"].as_str().unwrap().contains("line 1 column 13"), "{bad}");
}

#[tokio::test]
async fn pages_in_browsers_are_refused_unless_they_are_named() {
    let mut options = options();
    options.cors = vec!["https://example.org".to_owned()];
    let world = World::start(options).await;
    let asks = async |headers: &[(&str, &str)]| ask(world.addr(), "GET", "/v1/status", headers, b"").await;
    for page in [
        &[("origin", "https://evil.example")][..],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site")],
    ] {
        let answer = asks(page).await;
        assert_eq!((answer.status, answer.problem().as_str()), (403, "browser"), "{page:?}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    let named = asks(&[("origin", "https://example.org"), ("sec-fetch-site", "cross-site")]).await;
    assert_eq!(
        (named.status, named.header("access-control-allow-origin")),
        (200, Some("https://example.org"))
    );
    assert!(named.header("access-control-expose-headers").unwrap().contains("treefold-missing"));
    assert_eq!(asks(&[("sec-fetch-site", "none")]).await.status, 200, "an address that a user typed");
    let preflight = [("origin", "https://example.org"), ("access-control-request-method", "POST")];
    let answer = ask(world.addr(), "OPTIONS", SUM, &preflight, b"").await;
    assert_eq!(answer.status, 204);
    assert!(answer.header("access-control-allow-headers").unwrap().contains("treefold-deadline"));
}

#[tokio::test]
async fn name_that_was_made_to_lead_here_is_refused_without_tokens() {
    let world = World::usual().await;
    let text = "GET /v1/status HTTP/1.1\r\nhost: evil.example\r\n\r\n";
    let mut stream = crate::world::send(world.addr(), text.as_bytes()).await;
    let answer = crate::world::Answer::read(&mut stream).await;
    assert_eq!((answer.status, answer.json()["field"].as_str()), (403, Some("host")));
}

#[tokio::test]
async fn gateway_that_other_machines_reach_needs_tokens_and_a_certificate() {
    let world = World::usual().await;
    let mut exposed = options();
    exposed.addr = SocketAddr::from(([0, 0, 0, 0], 0));
    let start = async |options| Gateway::start(world.node.client(), options).await;
    assert!(matches!(start(exposed.clone()).await, Err(StartError::Exposed { .. })));
    exposed.tokens = Some("tokens.toml".into());
    assert!(matches!(start(exposed.clone()).await, Err(StartError::Readable { .. })));
    exposed.tls = Some(TlsFiles { certificate: "cert.pem".into(), key: "key.pem".into() });
    let error = start(exposed.clone()).await.unwrap_err();
    assert!(error.to_string().starts_with("can't read tokens.toml"), "{error}");
    exposed.tokens = None;
    assert!(matches!(start(exposed.clone()).await, Err(StartError::Exposed { .. })));
    (exposed.tls, exposed.is_insecure) = (None, true);
    assert!(start(exposed).await.is_ok());
    let mut odd = options();
    odd.cors = vec!["*".to_owned()];
    assert!(matches!(start(odd).await, Err(StartError::Origin { .. })));
}
