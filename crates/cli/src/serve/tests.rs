//! Arguments of `--serve`: their parts, and what is refused.

use super::*;

fn serve(text: &str) -> Serve {
    text.parse().unwrap()
}

fn corpus(text: &str) -> Corpus {
    match serve(text).what {
        What::Search(corpus, _) => corpus,
        _ => panic!("{text} is not a search service"),
    }
}

#[test]
fn names_a_service_its_folder_and_its_partitions() {
    let search = serve("search=/srv/docs:partitions=0-3/12");
    assert_eq!((search.partitions.to_string().as_str(), search.total), ("0-3", 12));
    assert_eq!(corpus("search=/srv/docs:partitions=0-3/12").folder, Path::new("/srv/docs"));
    let tables = Tables {
        folder: "/srv/{partition}".into(),
        name: "sql".to_owned(),
        memory: None,
        threads: None,
        is_dealt: false,
    };
    assert_eq!(serve("sql=/srv/{partition}:partitions=0-3/16").what, What::Sql(tables.clone()));
    let bounded =
        Tables { memory: Some("4GB".to_owned()), threads: Some(2), name: "sales".to_owned(), ..tables };
    let text = "sql=/srv/{partition}:partitions=0/1:memory=4GB:threads=2:name=sales";
    assert_eq!(serve(text).what, What::Sql(bounded));
    assert_eq!(serve("micro:partitions=0,8/16").what, What::Micro(None));
    assert_eq!(serve("micro:partitions=0/1:name=batch").what, What::Micro(Some("batch".to_owned())));
    assert_eq!(serve("hosts:partitions=3/100").what, What::Hosts(None));
    assert_eq!(serve("hosts:partitions=0/2:name=web-1").what, What::Hosts(Some("web-1".to_owned())));
    assert_eq!(
        serve("mirror=flights:partitions=1/4").what,
        What::Mirror("flights".to_owned(), MirrorWish::default())
    );
    let kept = serve("mirror=flights:partitions=1/4:promises=/var/m1").what;
    assert_eq!(
        kept,
        What::Mirror(
            "flights".to_owned(),
            MirrorWish { promises: Some("/var/m1".into()), ..Default::default() }
        )
    );
    let pruned = serve("mirror=flights:partitions=1/4:deletes=departed,lost:retention=1.5s").what;
    let deletes = ["departed", "lost"].map(|name| Name::new(name.to_owned()).unwrap()).to_vec();
    let state = StateOptions { deletes, retention_ms: Some(1_500) };
    assert_eq!(pruned, What::Mirror("flights".to_owned(), MirrorWish { state, ..Default::default() }));
    for wrong in ["deletes=", "deletes=a,,b", "retention=0s", "retention=5"] {
        assert!(format!("mirror=flights:partitions=1/4:{wrong}").parse::<Serve>().is_err(), "{wrong}");
    }
    let served = serve("mirror=flights:partitions=1/4:http=[::1]:7780").what;
    let http = HttpOptions::new("[::1]:7780".parse().unwrap());
    assert_eq!(
        served,
        What::Mirror("flights".to_owned(), MirrorWish { http: Some(http), ..Default::default() })
    );
    assert!("mirror=flights:partitions=1/4:http-public=0.0.0.0:0".parse::<Serve>().is_ok());
    assert_eq!(serve("micro:partitions=0,8").total, 9, "without a total, the highest id is the last");
    assert_eq!(serve("micro:partitions=0,8/9").assumption(), None);
    let assumption = serve("micro:partitions=0,8").assumption().unwrap();
    assert!(assumption.contains("partitions=0,8/9"), "{assumption}");
}

#[test]
fn a_folder_may_contain_colons_and_equal_signs() {
    let odd = corpus("search=/a:b=c:d:files=7:partitions=0/1:data=/x:y");
    assert_eq!(odd.folder, Path::new("/a:b=c:d"));
    assert_eq!(odd.data.as_deref(), Some(Path::new("/x:y")));
    assert_eq!(odd.files_max, Some(7));
}

#[test]
fn search_alone_has_stretched_aggregations() {
    assert_eq!(serve("search=.:partitions=0/1:emulate=4").emulated_processors(), Some(4));
    assert_eq!(serve("search=.:partitions=0/1").emulated_processors(), None);
    for (wrong, allowed) in [
        ("search=.:partitions=0/1:emulate=0", "1 to 4096 processors"),
        ("search=.:partitions=0/1:emulate=two", "1 to 4096 processors"),
        ("micro:partitions=0/1:emulate=2", "emulate for search only"),
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
    assert_eq!(check("daemon", DAEMON_PARAMS), Ok(()));
    assert!(check("daemon", r#"{"answer":{}}"#).unwrap_err().contains(DAEMON_PARAMS));
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
