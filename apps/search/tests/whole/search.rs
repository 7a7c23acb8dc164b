//! Results and their ranking, and that neither depends on how the folder was split.

use crate::folder::{Folder, called, opened, paths, search, terms};
use proptest::prelude::*;
use std::collections::BTreeMap;
use treefold_operators::{Body, Partition};
use treefold_search::limits::{K_MAX, QUERY_BYTES_MAX, SNIPPET_CHARS_MAX};
use treefold_search::{
    Categorise, CategoriseParams, Sample, SampleParams, Statistics, Terms, TermsParams, TopK, TopKParams,
    Words, WordsParams, aggregations,
};

const FILES: &[(&str, &str)] = &[
    ("README.md", "# Trees\n\nA tree folds partial results on their way up."),
    ("docs/waves.md", "# Waves\n\nA wave climbs the tree: a partial result from each child."),
    ("src/lib.rs", "//! Deadlines.\n\npub fn deadline_at(now: Instant) -> Instant { now }"),
    ("src/tree/mod.rs", "//! Shapes of a tree.\n\nstruct Tree;"),
    ("notes.txt", "Nothing about that."),
];

#[test]
fn words_are_found_in_titles_paths_and_bodies() {
    let folder = Folder::new(FILES);
    let partitions = folder.partitions(2);
    assert_eq!(paths(&search(&partitions, "deadline", 9)), ["src/lib.rs"]);
    assert_eq!(paths(&search(&partitions, "title:waves", 9)), ["docs/waves.md"]);
    assert_eq!(paths(&search(&partitions, "path:notes", 9)), ["notes.txt"]);
    assert_eq!(paths(&search(&partitions, "\"partial results\"", 9)), ["README.md"]);
    assert_eq!(paths(&search(&partitions, "+tree +partial -wave", 9)), ["README.md"]);
    assert_eq!(search(&partitions, "*", 9).matched, 5);
    assert_eq!(search(&partitions, "absent", 9).matched, 0);
}

#[test]
fn the_best_k_are_kept_and_all_matches_counted() {
    let folder = Folder::new(FILES);
    let found = search(&folder.partitions(3), "tree", 2);
    assert_eq!((found.hits.len(), found.matched), (2, 3));
    assert!(found.hits[0].score >= found.hits[1].score);
    assert_eq!(found.hits[0].path, "src/tree/mod.rs"); // in title, path and body
    assert_eq!(found.hits[0].title, "Shapes of a tree.");
}

#[test]
fn a_snippet_shows_why_a_document_was_found() {
    let folder = Folder::new(FILES);
    let found = search(&folder.partitions(1), "climbs child", 1);
    assert_eq!(
        found.hits[0].marked("<b>", "</b>"),
        "# Waves A wave <b>climbs</b> the tree: a partial result from each <b>child</b>"
    );
    let by_path = search(&folder.partitions(1), "path:notes", 1);
    assert_eq!(
        (by_path.hits[0].snippet.as_str(), &by_path.hits[0].highlights),
        ("Nothing about that.", &vec![])
    );
    let params = TopKParams { snippet_chars: 0, ..TopKParams::new("tree") };
    let without = called(&TopK, &folder.partitions(1), &params).unwrap();
    assert!(without.hits.iter().all(|hit| hit.snippet.is_empty() && hit.highlights.is_empty()));
}

#[test]
fn replicas_share_one_index() {
    let folder = Folder::new(FILES);
    let directory = folder.index(2).directory;
    let (first, second) = (opened(&directory, 2), opened(&directory, 2));
    let answers: Vec<_> = std::thread::scope(|scope| {
        let asked: Vec<_> =
            [&first, &second].map(|replica| scope.spawn(|| search(replica, "tree", 9))).into();
        asked.into_iter().map(|answer| answer.join().unwrap()).collect()
    });
    assert_eq!(answers[0], answers[1]);
}

/// Many short documents of few words: ties, duplicates, and words that are rare in one partition and common
/// in another.
fn corpus() -> Vec<(String, String)> {
    let words =
        ["tree", "wave", "fold", "partial", "node", "deadline", "relay", "mirror", "replica", "shard"];
    let mut state = 7u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let text = |next: &mut dyn FnMut(usize) -> usize| {
        let word = |next: &mut dyn FnMut(usize) -> usize| words[next(words.len()).min(next(words.len()))];
        (0..3 + next(40)).map(|_| word(next)).collect::<Vec<_>>().join(" ")
    };
    let mut files: Vec<_> = (0..400).map(|n| (format!("d{}/f{n}.txt", n % 5), text(&mut next))).collect();
    files.extend((0..40).map(|n| (format!("copies/{n}.txt"), "tree wave fold partial node".to_owned())));
    files
}

#[test]
fn with_statistics_the_ranking_equals_that_of_one_index() {
    let files = corpus();
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let folder = Folder::new(&files);
    let splits = [1, 3, 7].map(|total| folder.partitions(total));
    for query in [
        "tree",
        "tree wave fold partial node deadline relay mirror",
        "+tree +wave +fold +partial +node",
        "(+mirror +relay) OR (+tree +wave +shard) OR replica",
        "+tree wave fold -mirror -(relay shard)",
        "\"tree wave\" \"fold partial\"~3",
        "\"wave tree\"~1 \"shard replica\"~4",
        "\"fold node wave\"~2 OR title:\"tree wave\"~2^3",
        "+\"relay tree\"~5 +mirror -\"tree tree\"~1",
        "\"tree wave tree\"~4",
        "\"deadline relay mirror replica\"~12",
        "title:tree^3 path:d1 body:[mirror TO node]",
        "body: IN [shard relay] tree",
        "*",
    ] {
        for k in [1, 10, 60] {
            let [one, three, seven] = splits.each_ref().map(|partitions| seen(partitions, query, k));
            assert!(!one.1.is_empty(), "{query}");
            assert_eq!(one, three, "{query}, k {k}");
            assert_eq!(one, seven, "{query}, k {k}");
        }
    }
}

/// A hit without its partition and number: the bits of its score, its path, and its snippet with the
/// highlights marked.
type Seen = (u32, String, String);

/// The parts of an answer that must not depend on the split.
fn seen(partitions: &[Partition], query: &str, k: u32) -> (u64, Vec<Seen>) {
    let found = search(partitions, query, k);
    let hits = found.hits.into_iter().map(|hit| (hit.score.to_bits(), hit.marked("<", ">"), hit.path));
    (found.matched, hits.collect())
}

#[test]
fn statistics_of_partitions_add_up_to_those_of_one() {
    let folder = Folder::new(FILES);
    let statistics = terms(&folder.partitions(1), "tree absent");
    assert_eq!(statistics, terms(&folder.partitions(3), "tree absent"));
    assert_eq!(statistics.documents, 5);
    assert_eq!(statistics.frequencies["body:tree"], 3);
    assert_eq!(statistics.frequencies["body:absent"], 0);
    assert_eq!(statistics.frequencies.len(), 6);
}

#[test]
fn invalid_parameters_and_queries_are_refused_by_name() {
    let folder = Folder::new(FILES);
    let partitions = folder.partitions(1);
    let refused = |params: TopKParams| called(&TopK, &partitions, &params).unwrap_err().to_string();
    assert_eq!(refused(TopKParams { k: 0, ..TopKParams::new("a") }), "k is 0; it must be 1 to 1000");
    assert_eq!(
        refused(TopKParams { k: K_MAX + 1, ..TopKParams::new("a") }),
        "k is 1001; it must be 1 to 1000"
    );
    let long = TopKParams { snippet_chars: SNIPPET_CHARS_MAX + 1, ..TopKParams::new("a") };
    assert_eq!(refused(long), "snippet_chars is 2001; it must be at most 2000");

    let refused = |query: &str| refused(TopKParams { strict: true, ..TopKParams::new(query) });
    assert_eq!(refused("  "), "the query is empty");
    assert_eq!(
        refused(&"x".repeat(QUERY_BYTES_MAX + 1)),
        "the query has 1025 bytes; at most 1024 are allowed"
    );
    assert_eq!(refused("(((((((((a)))))))))"), "the query's parentheses nest deeper than 8");
    assert_eq!(
        refused("tree AND"),
        "the query is not well-formed at character 8: unexpected here, or incomplete (quote text that is no syntax)"
    );
    assert_eq!(
        refused("author:x"),
        "there is no field \"author\", only title, path and body (quote text that has a colon)"
    );
    assert_eq!(refused("-tree"), "the query only excludes; add * to exclude from everything");
    assert_eq!(refused("\"a b\"*"), "prefix phrases (\"a b\"*): not supported by this service");
    let as_terms =
        called(&Terms, &partitions, &TermsParams { query: "-tree".into(), strict: true }).unwrap_err();
    assert_eq!(as_terms.to_string(), "the query only excludes; add * to exclude from everything");
}

/// The document's count of occurrences once depended on which of the words was rarer in its partition.
#[test]
fn a_phrase_with_words_between_scores_alike_beside_other_documents() {
    let text = "doc\nx alpha alpha beta beta y\n";
    let alone = Folder::new(&[("b.txt", text)]);
    let beside = Folder::new(&[("b.txt", text), ("a.txt", "doc\neta alpha zeta\n")]);
    let beside_beta = Folder::new(&[("b.txt", text), ("a.txt", "doc\neta beta zeta\n")]);
    for query in ["\"alpha beta\"~3", "\"beta alpha\"~3", "\"x alpha beta y\"~9", "\"alpha alpha beta\"~2"] {
        let statistics = terms(&beside.partitions(1), query);
        let scores = [&alone, &beside, &beside_beta].map(|folder| {
            let statistics = Some(statistics.clone());
            let params = TopKParams { statistics, ..TopKParams::new(query) };
            let found = called(&TopK, &folder.partitions(1), &params).unwrap();
            let hit = found.hits.iter().find(|hit| hit.path == "b.txt");
            hit.unwrap_or_else(|| panic!("{query} finds b.txt")).score.to_bits()
        });
        assert_eq!([scores[0]; 3], scores, "{query}");
    }
}

#[test]
fn words_are_equal_whatever_their_case_accents_and_width() {
    let folder = Folder::new(&[
        ("c.txt", "Chamb\u{e9}ry"),
        ("d.txt", "Chambe\u{301}ry"),
        ("h.txt", "\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}"),
        ("s.txt", "co\u{ad}operation in Stra\u{df}e"),
        ("j.txt", "日本語の文書"),
    ]);
    let partitions = folder.partitions(2);
    let found = |query: &str| {
        let mut found: Vec<String> =
            search(&partitions, query, 9).hits.into_iter().map(|hit| hit.path).collect();
        found.sort();
        found
    };
    for query in ["chamb\u{e9}ry", "CHAMBE\u{301}RY", "body:Chamb\u{e9}ry", "body: IN [Chamb\u{e9}ry x]"] {
        assert_eq!(found(query), ["c.txt", "d.txt"], "{query}");
    }
    assert_eq!(found("\u{939}\u{93f}\u{928}"), Vec::<String>::new());
    assert_eq!(found("\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}"), ["h.txt"]);
    assert_eq!(found("cooperation"), ["s.txt"]);
    assert_eq!(found("STRASSE"), ["s.txt"]);
    assert_eq!(found("本語"), ["j.txt"]);
    assert_eq!(found("語本"), Vec::<String>::new());
    let run = called(&Words, &partitions, &WordsParams { phrase: 1, ..WordsParams::default() }).unwrap();
    let counts: BTreeMap<_, _> = run.iter().collect();
    assert_eq!((counts["chamb\u{e9}ry"], counts["cooperation"]), (2, 1));
}

#[test]
fn every_text_is_a_query() {
    let folder = Folder::new(&[
        (
            "a.txt",
            "Don't panic; it\u{2019}s fine. Call std::io::read(buf) in src/lib.rs, see http://x.example/y.",
        ),
        ("b.txt", "A disk of 5\" and C:\\temp, [array], author: me."),
        ("c.txt", "nothing"),
    ]);
    let partitions = folder.partitions(2);
    for (query, expected) in [
        ("don't", ["a.txt"].as_slice()),
        ("don\u{2019}t", &["a.txt"]),
        ("it's 'fine'", &["a.txt"]),
        ("std::io", &["a.txt"]),
        ("http://x.example/y", &["a.txt"]),
        ("read(buf)", &["a.txt"]),
        ("5\" disk", &["b.txt"]),
        ("C:\\temp", &["b.txt"]),
        ("author:me", &["b.txt"]),
        ("[array", &["b.txt"]),
        ("(panic AND", &["a.txt"]),
        ("((((((((((((panic))))))))))))", &["a.txt"]),
        ("\"std io\"*", &["a.txt"]),
        ("+disk -", &["b.txt"]),
        ("+(disk AND", &["b.txt"]),
        ("-panic", &["b.txt", "c.txt"]),
        ("-(panic OR disk)", &["c.txt"]),
        ("???", &[]),
        ("()", &[]),
        ("\"", &[]),
        ("title:*", &[]),
    ] {
        let params = TopKParams { statistics: Some(terms(&partitions, query)), ..TopKParams::new(query) };
        let found = called(&TopK, &partitions, &params).unwrap();
        let mut found = paths(&found);
        found.sort_unstable();
        assert_eq!(found, expected, "{query}");
    }
}

#[test]
fn a_snippet_is_found_behind_the_beginning_of_a_long_document() {
    let long = format!("{}needle in {}", "straw ".repeat(50_000), "hay ".repeat(9_000));
    let folder = Folder::new(&[("long.txt", &long), ("short.txt", "a needle")]);
    let found = search(&folder.partitions(1), "needle", 9);
    let of_long = found.hits.iter().find(|hit| hit.path == "long.txt").unwrap();
    assert!(of_long.marked("<", ">").contains("<needle> in hay"), "{of_long:?}");
    // With the most documents, only the beginning of each is searched.
    let most = called(&TopK, &folder.partitions(1), &TopKParams { k: K_MAX, ..TopKParams::new("needle") });
    let most = most.unwrap();
    let of_long = most.hits.iter().find(|hit| hit.path == "long.txt").unwrap();
    assert!(of_long.snippet.starts_with("straw") && of_long.highlights.is_empty());
}

#[test]
fn foreign_statistics_are_refused_and_old_ones_are_harmless() {
    let folder = Folder::new(FILES);
    let partitions = folder.partitions(1);
    let asked = |statistics| {
        called(
            &TopK,
            &partitions,
            &TopKParams { statistics: Some(statistics), ..TopKParams::new("title:tree") },
        )
    };
    let other = asked(terms(&partitions, "wave")).unwrap_err().to_string();
    assert_eq!(other, "the statistics have no figure for title:tree; ask search/terms with the same query");
    let frequencies = [("title:tree".to_owned(), 9)].into();
    let impossible = asked(Statistics { documents: 8, frequencies, ..Statistics::default() }).unwrap_err();
    assert_eq!(
        impossible.to_string(),
        "the statistics contradict themselves: 9 documents have title:tree, of 8 in all"
    );
    let frequencies = [("title:tree".to_owned(), 0)].into();
    let from_before = asked(Statistics { frequencies, ..Statistics::default() }).unwrap();
    assert!(from_before.hits.iter().all(|hit| hit.score.is_finite()));
    assert_eq!(from_before.matched, 1);
}

#[test]
fn service_has_its_aggregations_with_default_parameters() {
    let folder = Folder::new(FILES);
    let partition = folder.partitions(1).remove(0);
    let offered = aggregations();
    assert_eq!(
        offered.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["topk", "terms", "sample", "categorise", "words"]
    );
    let params = TermsParams::new("tree").encode().unwrap();
    for (name, operator) in offered {
        let partial = operator.local(&partition, &params).now().unwrap().unwrap();
        let finished = operator.finish(partial, &params).unwrap();
        let again = operator.finish(finished.clone(), &params).unwrap();
        assert_eq!(again, finished, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// A caller may send anything: a query gives hits, gives none, or is refused.
    #[test]
    fn no_query_panics(query in prop_oneof![
        "[a-c:()+\\-\"'*^~\\[\\]{}<>/0-9 .\\\\é]{0,40}",
        "(AND|OR|NOT|IN|TO|tree|wave|title:|[()\\[\\]{}\"+\\- *]){0,12}",
    ]) {
        thread_local!(static PARTITIONS: (Folder, Vec<Partition>) = {
            let folder = Folder::new(FILES);
            let partitions = folder.partitions(2);
            (folder, partitions)
        });
        PARTITIONS.with(|(_, partitions)| {
            let params = TermsParams::new(query.clone());
            if let Ok(statistics) = called(&Terms, partitions, &params) {
                let params = TopKParams { statistics: Some(statistics), ..TopKParams::new(query) };
                let found = called(&TopK, partitions, &params).unwrap();
                assert!(found.hits.iter().all(|hit| hit.score.is_finite()));
            }
        });
    }
}

#[test]
fn sample_has_whole_texts_and_each_text_once() {
    let mut files = FILES.to_vec();
    files.push(("copy/of/README.md", FILES[0].1));
    let folder = Folder::new(&files);
    for partitions in [1, 2, 5] {
        let params = SampleParams::new("partial");
        let sampled = called(&Sample, &folder.partitions(partitions), &params).unwrap();
        let mut found: Vec<&str> = sampled.documents.iter().map(|document| document.path.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, ["README.md", "docs/waves.md"], "{partitions} partitions");
        assert_eq!((sampled.given, sampled.matched), (3, 3));
        assert!(sampled.documents.iter().any(|document| document.text == FILES[0].1));
    }
}

#[test]
fn sample_is_the_same_for_every_split_of_the_folder() {
    let texts: Vec<(String, String)> =
        (0..40).map(|number| (format!("{number}.txt"), format!("a word, and number {number}"))).collect();
    let files: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let folder = Folder::new(&files);
    let params = SampleParams { k: 40, ratio: 0.5, seed: 3, text_bytes: 100, ..SampleParams::new("word") };
    let drawn = |partitions| {
        let sampled = called(&Sample, &folder.partitions(partitions), &params).unwrap();
        sampled.documents.into_iter().map(|document| document.path).collect::<Vec<_>>()
    };
    assert!((10..30).contains(&drawn(1).len()), "{:?}", drawn(1));
    assert_eq!(drawn(1), drawn(4));
}

#[test]
fn documents_are_sorted_by_category() {
    let folder = Folder::new(&[
        ("a.rs", "A socket and a packet: see tree."),
        ("b.rs", "A thread that holds a lock on a tree."),
        ("c.rs", "A tree."),
    ]);
    let found = called(&Categorise, &folder.partitions(2), &CategoriseParams::new("tree")).unwrap();
    let named =
        |name: &str| found.categories[name].best.iter().map(|named| named.path.as_str()).collect::<Vec<_>>();
    assert_eq!([named("network"), named("concurrency"), named("data")], [["a.rs"], ["b.rs"], ["c.rs"]]);
    assert!(found.unread.is_empty());
}

#[test]
fn words_and_phrases_are_counted_in_all_or_matching_documents() {
    let folder = Folder::new(FILES);
    let counted = |params: &WordsParams| {
        let run = called(&Words, &folder.partitions(3), params).unwrap();
        run.iter().map(|(word, count)| (word.to_owned(), count)).collect::<BTreeMap<_, _>>()
    };
    let all = counted(&WordsParams::default());
    assert_eq!((all["tree"], all["partial"]), (4, 2));
    assert_eq!(all, counted(&WordsParams { combine: false, ..WordsParams::default() }));
    let params = WordsParams { query: "wave".into(), phrase: 2, ..WordsParams::default() };
    assert_eq!(counted(&params)["partial result"], 1);
    let refused = called(&Words, &folder.partitions(1), &WordsParams { phrase: 9, ..params }).unwrap_err();
    assert!(refused.to_string().contains("1 to 8"), "{refused}");
}

#[test]
fn sample_parameters_out_of_range_are_refused() {
    let partitions = Folder::new(FILES).partitions(1);
    let refused = |params| called(&Sample, &partitions, &params).unwrap_err().to_string();
    assert!(refused(SampleParams { ratio: 1.5, ..SampleParams::new("tree") }).contains("0 to 1"));
    assert!(refused(SampleParams { k: 0, ..SampleParams::new("tree") }).contains("k is 0"));
    assert!(
        refused(SampleParams { text_bytes: u32::MAX, ..SampleParams::new("tree") }).contains("text_bytes")
    );
}
