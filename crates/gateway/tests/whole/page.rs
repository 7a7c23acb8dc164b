//! The live page: its files, and the door that lets it in and keeps other pages out.

use crate::tokens::{entry, world_of};
use crate::world::{Answer, JSON, World, ask, options, send};
use treefold_gateway::tokens::{GatewayRight, draw};

const SUM: &str = "/v1/call/sums/sum";

/// Sends a request with its own header `Host`.
async fn with_host(world: &World, method: &str, path: &str, host: &str, headers: &[(&str, &str)]) -> Answer {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\n");
    headers.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
    let mut stream = send(world.addr(), format!("{text}\r\n").as_bytes()).await;
    Answer::read(&mut stream).await
}

#[tokio::test]
async fn files_have_a_strict_policy_and_a_tag() {
    let world = World::usual().await;
    for (path, media_type) in [("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css", "text/css")]
    {
        let answer = world.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.header("content-type").unwrap().starts_with(media_type), "{answer:?}");
        let policy = answer.header("content-security-policy").unwrap();
        for part in
            ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]
        {
            assert!(policy.split("; ").any(|given| given == part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        let tag = answer.header("etag").unwrap();
        let listed = format!("\"other\", W/{tag}");
        for has in [tag, &listed, "*"] {
            let again = ask(world.addr(), "GET", path, &[("if-none-match", has)], b"").await;
            assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(tag)));
        }
        let other = ask(world.addr(), "GET", path, &[("if-none-match", "\"other\"")], b"").await;
        assert_eq!((other.status, other.body == answer.body), (200, true));
    }
    let wrong = crate::world::post(world.addr(), "/", &[], b"").await;
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("GET, HEAD")));
    assert_eq!(world.get("/v1/status").await.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn files_need_no_token_and_the_page_needs_one() {
    let token = draw().unwrap();
    let rights = [GatewayRight::Call, GatewayRight::Read];
    let (world, _file) = world_of(&[entry("page", &token, &["*"], &rights)]).await;
    for path in ["/", "/page.js", "/page.css"] {
        assert_eq!(world.get(path).await.status, 200, "{path}");
    }
    let own = [("origin", "http://node.example:8080"), ("sec-fetch-site", "same-origin")];
    let ask_as =
        async |headers: &[(&str, &str)]| with_host(&world, "POST", SUM, "node.example:8080", headers).await;
    assert_eq!(ask_as(&own).await.status, 401, "the page is let in, and has no token");
    let bearer = format!("Bearer {token}");
    assert_eq!(ask_as(&[own[0], own[1], ("authorization", &bearer)]).await.status, 200);
}

#[tokio::test]
async fn own_page_is_let_in_and_other_pages_are_not() {
    let world = World::usual().await;
    let port = world.addr().port();
    let (host, origin) = (format!("127.0.0.1:{port}"), format!("http://127.0.0.1:{port}"));
    let (named, encrypted) = (format!("http://localhost:{port}"), format!("https://127.0.0.1:{port}"));
    for (method, path, headers) in [
        ("GET", "/v1/status", &[("sec-fetch-site", "same-origin")][..]),
        ("GET", "/page.js", &[("sec-fetch-site", "same-origin")]),
        ("POST", SUM, &[("origin", origin.as_str()), ("sec-fetch-site", "same-origin")]),
        // Browsers without Sec-Fetch-Site, and pages behind a proxy that encrypts.
        ("POST", SUM, &[("origin", origin.as_str())]),
        ("POST", SUM, &[("origin", encrypted.as_str()), ("sec-fetch-site", "same-origin")]),
        // A user types the address, or follows a link from elsewhere.
        ("GET", "/", &[("sec-fetch-site", "none")]),
        (
            "GET",
            "/",
            &[
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "document"),
            ],
        ),
    ] {
        let answer = with_host(&world, method, path, &host, headers).await;
        assert_eq!(answer.status, 200, "{method} {path} {headers:?}: {answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), None, "no other page may read");
    }
    for (method, path, headers) in [
        ("GET", "/v1/status", &[("sec-fetch-site", "same-site")][..]),
        ("GET", "/v1/status", &[("sec-fetch-site", "cross-site")]),
        ("POST", SUM, &[("origin", "http://127.0.0.1:1"), ("sec-fetch-site", "same-site")]),
        ("POST", SUM, &[("origin", "http://127.0.0.1")]),
        ("POST", SUM, &[("origin", named.as_str())]),
        ("POST", SUM, &[("origin", "null"), ("sec-fetch-site", "cross-site")]),
        // The two headers contradict each other.
        ("POST", SUM, &[("origin", origin.as_str()), ("sec-fetch-site", "cross-site")]),
        ("POST", SUM, &[("origin", "http://evil.example"), ("sec-fetch-site", "same-origin")]),
        (
            "GET",
            "/",
            &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")],
        ),
        (
            "GET",
            "/page.js",
            &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "script")],
        ),
        // A link can lead to the page only.
        (
            "GET",
            "/v1/status",
            &[
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "document"),
            ],
        ),
    ] {
        let answer = with_host(&world, method, path, &host, headers).await;
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (403, "browser"),
            "{method} {path} {headers:?}"
        );
    }
    let status = world.node.status().await.unwrap();
    assert_eq!(status.counters.calls.started, 3, "no refused call has begun");
}

#[tokio::test]
async fn name_that_was_made_to_lead_here_opens_no_page() {
    let world = World::usual().await;
    let origin = [("origin", "http://evil.example:80"), ("sec-fetch-site", "same-origin")];
    for (method, path) in [("GET", "/"), ("GET", "/page.js"), ("GET", "/v1/status"), ("POST", SUM)] {
        let answer = with_host(&world, method, path, "evil.example:80", &origin).await;
        assert_eq!((answer.status, answer.json()["field"].as_str()), (403, Some("host")), "{path}");
    }
    // A gateway that other machines reach without tokens knows its page by addresses only.
    let mut exposed = options();
    (exposed.addr, exposed.is_insecure) = (([0, 0, 0, 0], 0).into(), true);
    let gateway = treefold_gateway::Gateway::start(world.node.client(), exposed).await.unwrap();
    let at = ([127, 0, 0, 1], gateway.addr().port()).into();
    let text = |host: &str| {
        format!("POST {SUM} HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\ncontent-length: 0\r\n\r\n")
    };
    for (host, status) in [("evil.example:80", 403), ("192.0.2.7:80", 200)] {
        let mut stream = send(at, text(host).as_bytes()).await;
        assert_eq!(Answer::read(&mut stream).await.status, status, "{host}");
    }
}

#[tokio::test]
async fn page_of_a_named_origin_reads_the_number_of_its_call() {
    let mut options = options();
    options.cors = vec!["https://example.org".to_owned()];
    let world = World::start(options).await;
    let headers = [JSON, ("origin", "https://example.org")];
    let answer = ask(world.addr(), "POST", &format!("{SUM}?explain"), &headers, b"null").await;
    assert_eq!(answer.status, 200);
    assert!(answer.header("access-control-expose-headers").unwrap().contains("treefold-call"));
}
