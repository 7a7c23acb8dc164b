//! Requests that the listener refuses before a handler sees them.

use crate::world::{Answer, BYTES, JSON, World, post, send};

const SUM: &str = "/v1/call/sums/sum";

/// `{}` as `gzip` compresses it.
const GZIPPED: [u8; 22] = [31, 139, 8, 0, 0, 0, 0, 0, 0, 3, 171, 174, 5, 0, 67, 191, 166, 163, 2, 0, 0, 0];

#[tokio::test]
async fn request_over_http_1_1_has_one_host() {
    let world = World::usual().await;
    for hosts in ["", "host: localhost\r\nhost: localhost\r\n", "host: a b\r\n", "host: me@localhost\r\n"] {
        for path in ["/healthz", "/v1/status", "/nowhere"] {
            let text = format!("GET {path} HTTP/1.1\r\n{hosts}\r\n");
            let answer = Answer::read(&mut send(world.addr(), text.as_bytes()).await).await;
            assert_eq!((answer.status, answer.problem().as_str()), (400, "bad_field"), "{hosts}");
            assert_eq!(answer.json()["field"], "host");
        }
    }
    for head in ["HTTP/1.0\r\n", "HTTP/1.1\r\nhost:\r\n"] {
        let text = format!("GET http://localhost/healthz {head}\r\n");
        let answer = Answer::read(&mut send(world.addr(), text.as_bytes()).await).await;
        let expected = if head.contains("1.0") { 200 } else { 403 };
        assert_eq!(answer.status, expected, "{head}");
    }
}

#[tokio::test]
async fn every_name_of_a_request_is_checked() {
    let world = World::usual().await;
    let text = "GET http://evil.example/v1/status HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let answer = Answer::read(&mut send(world.addr(), text.as_bytes()).await).await;
    assert_eq!((answer.status, answer.problem().as_str()), (403, "browser"));
}

#[tokio::test]
async fn body_with_an_encoding_is_415_whatever_its_type_and_bytes() {
    let world = World::usual().await;
    for (kind, body) in [(JSON, &GZIPPED[..]), (JSON, b"null"), (BYTES, &GZIPPED)] {
        for encoding in ["gzip", "zstd", "br, identity"] {
            let headers = [kind, ("content-encoding", encoding)];
            let answer = post(world.addr(), SUM, &headers, body).await;
            assert_eq!((answer.status, answer.problem().as_str()), (415, "content_encoding"), "{encoding}");
            let problem = answer.json();
            assert_eq!(
                (&problem["field"], &problem["given"]),
                (&"content-encoding".into(), &encoding.into())
            );
            assert_eq!(answer.header("accept-encoding"), Some("identity"));
        }
    }
    for (encoding, body) in [("identity", &b"null"[..]), ("gzip", b"")] {
        let headers = [JSON, ("content-encoding", encoding)];
        assert_eq!(post(world.addr(), SUM, &headers, body).await.status, 200, "{encoding}");
    }
    assert_eq!(world.node.status().await.unwrap().counters.calls.started, 2);
}
