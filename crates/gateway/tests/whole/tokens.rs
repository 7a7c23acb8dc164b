//! Tokens: rights, services, limits, and files that change.

use crate::world::{Answer, World, ask, options, post};
use std::path::Path;
use std::time::Duration;
use tempfile::NamedTempFile;
use treefold_gateway::tokens::{Entry, GatewayRight, ServiceNames, draw};

const SUM: &str = "/v1/call/sums/sum";

pub fn entry(name: &str, token: &str, services: &[&str], rights: &[GatewayRight]) -> Entry {
    let services = ServiceNames::new(services.iter().map(|&name| name.to_owned()));
    Entry::new(name.to_owned(), token, services, rights.iter().copied().collect())
}

fn write(path: &Path, entries: &[Entry]) {
    let text: String = entries.iter().map(Entry::to_toml).collect();
    std::fs::write(path, text).unwrap();
}

pub async fn world_of(entries: &[Entry]) -> (World, NamedTempFile) {
    let file = NamedTempFile::new().unwrap();
    write(file.path(), entries);
    let mut options = options();
    options.tokens = Some(file.path().to_owned());
    (World::start(options).await, file)
}

pub async fn with_token(world: &World, method: &str, path: &str, token: &str) -> Answer {
    ask(world.addr(), method, path, &[("Authorization", &format!("Bearer {token}"))], b"").await
}

#[tokio::test]
async fn wrong_token_and_none_are_401_and_health_needs_none() {
    let token = draw().unwrap();
    let (world, _file) = world_of(&[entry("a", &token, &["*"], &[GatewayRight::Call])]).await;
    assert_eq!(with_token(&world, "POST", SUM, &token).await.status, 200);
    let wrong = draw().unwrap();
    let lowered = ask(world.addr(), "POST", SUM, &[("authorization", &format!("bearer {token}"))], b"").await;
    assert_eq!(lowered.status, 200, "the scheme has no case");
    let basic = ask(world.addr(), "POST", SUM, &[("authorization", &format!("Basic {token}"))], b"").await;
    let answers =
        [post(world.addr(), SUM, &[], b"").await, with_token(&world, "POST", SUM, &wrong).await, basic];
    for answer in answers {
        assert_eq!((answer.status, answer.problem().as_str()), (401, "no_token"));
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    for open in ["/healthz", "/readyz", "/v1/openapi.json"] {
        assert_eq!(world.get(open).await.status, 200, "{open}");
    }
    for closed in ["/v1/status", "/v1/services", "/v1/nodes", "/metrics"] {
        assert_eq!(world.get(closed).await.status, 401, "{closed}");
    }
    let status = world.node.status().await.unwrap();
    assert_eq!(status.counters.calls.started, 2, "refused requests reach no node");
}

#[tokio::test]
async fn token_gives_its_services_and_rights_only() {
    let (caller, reader, other) = (draw().unwrap(), draw().unwrap(), draw().unwrap());
    let entries = [
        entry("caller", &caller, &["sums"], &[GatewayRight::Call]),
        entry("reader", &reader, &["sums"], &[GatewayRight::Read]),
        entry("other", &other, &["faces"], &[GatewayRight::Call]),
    ];
    let (world, _file) = world_of(&entries).await;
    for (token, method, path, status) in [
        (&caller, "POST", SUM, 200),
        (&caller, "GET", "/v1/status", 403),
        (&caller, "GET", "/metrics", 403),
        (&reader, "POST", SUM, 403),
        (&reader, "GET", "/v1/status", 200),
        (&reader, "GET", "/metrics", 200),
        (&other, "POST", SUM, 403),
        (&other, "POST", "/v1/call/faces/topk", 404),
        // A token learns nothing about services that it does not name.
        (&caller, "POST", "/v1/call/faces/topk", 403),
    ] {
        let answer = with_token(&world, method, path, token).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        if status == 403 {
            assert_eq!(answer.problem(), "denied");
        }
    }
    let denied = with_token(&world, "POST", SUM, &other).await.json();
    assert_eq!((&denied["field"], &denied["given"]), (&"service".into(), &"sums".into()));
}

#[tokio::test]
async fn each_token_has_its_own_rate() {
    let (slow, fast) = (draw().unwrap(), draw().unwrap());
    let rights = [GatewayRight::Call];
    let limited = Entry { requests_per_s: Some(1), ..entry("slow", &slow, &["*"], &rights) };
    let (world, _file) = world_of(&[limited, entry("fast", &fast, &["*"], &rights)]).await;
    let first = with_token(&world, "POST", SUM, &slow).await;
    let second = with_token(&world, "POST", SUM, &slow).await;
    assert_eq!((first.status, second.status, second.problem().as_str()), (200, 429, "rate"));
    assert_eq!((second.header("retry-after"), &second.json()["limit"]), (Some("1"), &"1".into()));
    assert_eq!(with_token(&world, "POST", SUM, &fast).await.status, 200);
}

#[tokio::test]
async fn changed_file_takes_tokens_back_and_an_unusable_one_changes_nothing() {
    let (kept, taken) = (draw().unwrap(), draw().unwrap());
    let rights = [GatewayRight::Call];
    let entries = [entry("kept", &kept, &["*"], &rights), entry("taken", &taken, &["*"], &rights)];
    let (world, file) = world_of(&entries).await;
    assert_eq!(with_token(&world, "POST", SUM, &taken).await.status, 200);
    std::fs::write(file.path(), "[[token]]\nname = 3\n").unwrap();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(with_token(&world, "POST", SUM, &kept).await.status, 200, "the former content is in use");
    write(file.path(), &entries[..1]);
    let taken_back = async {
        while with_token(&world, "POST", SUM, &taken).await.status != 401 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(crate::world::WITHIN, taken_back).await.expect("the token is refused");
    assert_eq!(with_token(&world, "POST", SUM, &kept).await.status, 200);
}
