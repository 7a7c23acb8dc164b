//! Arguments of `--serve`: their parts, and what is refused.

use super::*;
use treefold::Body;

fn serve(text: &str) -> Serve {
    text.parse().unwrap()
}

/// The offer of an argument, as it is shown.
fn offer(text: &str) -> String {
    format!("{:?}", serve(text).offer)
}

#[test]
fn names_a_service_its_folder_and_its_partitions() {
    let search = serve("search=/srv/docs:partitions=0-3/12");
    assert_eq!((search.partitions.to_string().as_str(), search.total), ("0-3", 12));
    assert!(offer("search=/srv/docs:partitions=0-3/12").contains(r#"folder: "/srv/docs""#));
    assert_eq!(offer("micro:partitions=0,8/16"), r#"Micro("micro")"#);
    assert_eq!(offer("micro:partitions=0/1:name=batch"), r#"Micro("batch")"#);
    assert_eq!(offer("hosts:partitions=3/100"), "ThisHost(None)");
    assert_eq!(offer("hosts:partitions=0/2:name=web-1"), r#"ThisHost(Some("web-1"))"#);
    assert_eq!(serve("micro:partitions=0,8").total, 9, "without a total, the highest id is the last");
    assert_eq!(serve("micro:partitions=0,8/9").assumption(), None);
    let assumption = serve("micro:partitions=0,8").assumption().unwrap();
    assert!(assumption.contains("partitions=0,8/9"), "{assumption}");
}

#[test]
fn a_folder_may_contain_colons_and_equal_signs() {
    let odd = offer("search=/a:b=c:d:files=7:partitions=0/1:data=/x:y");
    for part in [r#"folder: "/a:b=c:d""#, r#"data: Some("/x:y")"#, "files_max: Some(7)"] {
        assert!(odd.contains(part), "{part} in {odd}");
    }
}

#[test]
fn every_kind_of_service_is_named_in_the_refusal_of_an_unknown_one() {
    let refused = "sarch=.:partitions=0/1".parse::<Serve>().unwrap_err().to_string();
    for kind in KINDS {
        assert!(refused.contains(kind.form()), "{} in {refused}", kind.name());
    }
}

#[test]
fn search_alone_has_stretched_aggregations() {
    assert_eq!(serve("search=.:partitions=0/1:emulate=4").emulated_processors(), Some(4));
    assert_eq!(serve("search=.:partitions=0/1").emulated_processors(), None);
    for (wrong, allowed) in [
        ("search=.:partitions=0/1:emulate=0", "1 to 4096 processors"),
        ("search=.:partitions=0/1:emulate=two", "1 to 4096 processors"),
        ("micro:partitions=0/1:emulate=2", "without emulate"),
    ] {
        let refused = wrong.parse::<Serve>().unwrap_err().to_string();
        assert!(refused.contains(allowed), "{wrong}: {refused}");
    }
}

#[test]
fn invalid_endpoint_params_are_refused() {
    let check = |service, json: &str| {
        let json: serde_json::Value = serde_json::from_str(json).unwrap();
        check_endpoint_params(service, &json.encode().unwrap())
    };
    for part in [r#""echo""#, r#""tick""#, r#""witness""#] {
        assert_eq!(check("micro", part), Ok(()), "{part}");
    }
    assert_eq!(check_endpoint_params("micro", &Bytes::new()), Ok(()), "the usual part");
    assert!(check("micro", r#""tock""#).unwrap_err().contains("witness"));
    assert_eq!(check("daemon", daemon::PARAMS), Ok(()));
    assert!(check("daemon", r#"{"answer":{}}"#).unwrap_err().contains(daemon::PARAMS));
    assert!(check_endpoint_params("daemon", &Bytes::new()).is_err(), "a daemon has no usual part");
    assert_eq!(check("echo", "3"), Ok(()), "echo endpoints read no parameters");
}

#[test]
fn one_each_gives_a_valid_serve_argument() {
    for service in ["daemon", "echo", "hosts", "micro", "search=."] {
        let first = one_each(service).replace("{number}", "0").replace("{total}", "1");
        assert_eq!(serve(&first).total, 1, "{first}");
    }
}

#[test]
fn invalid_arguments_are_refused_with_the_valid_range() {
    for senseless in [
        "",
        "search",
        "search:partitions=0/1",
        "search=:partitions=0/1",
        "search=/srv/docs",
        "micro",
        "micro=/srv:partitions=0/1",
        "micro:partitions=4/4",
        "micro:partitions=0/1:files=3",
        "micro:partitions=0/1:name=",
        "micro:partitions=0/1:name=a/b",
        "echo",
        "echo=/srv:partitions=0/1",
        "hosts",
        "hosts=/srv:partitions=0/1",
        "hosts:partitions=0-1/4",
        "daemon:partitions=0-1/4",
        "daemon=/srv:endpoints=0-1/4",
        "daemon:endpoints=0-4/4",
        "micro:endpoints=0-1/4",
        "faces:partitions=0/1",
        "mirror=flights:partitions=0-1/4",
        "mirror=flights:partitions=0/4:http=7780",
        "mirror=flights:partitions=0/4:http=0.0.0.0:7780",
        "echo:partitions=0/4:http=127.0.0.1:7780",
        "search=.:partitions=0/1:files=many",
    ] {
        let refused = senseless.parse::<Serve>().unwrap_err().to_string();
        assert!(refused.contains("allowed: "), "{senseless:?}: {refused}");
    }
}
