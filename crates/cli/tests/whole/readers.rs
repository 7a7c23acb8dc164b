//! Input that people really send, at every reader of the program: one table of readers and cases.
//!
//! A reader is a row, whose [`Right`] has a field for each case. So a new reader can't forget a case, and a new case is asked
//! of all readers. The cases come from public complaints about other systems: marks and line ends of editors, cut files,
//! integers beyond 64 bits, keys that occur twice, NaN, bytes behind the end, nothing at all, and deep nesting.

use crate::real::{self, NodeProcess, run, run_args, run_with_input};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use treefold::operators::text::MARK;

/// The right outcome of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Is {
    /// It is taken.
    Taken,
    /// It is refused, with an error that has these words.
    Refused(&'static str),
    /// The language has no such thing.
    Absent,
}
use Is::{Absent, Refused, Taken};

/// The right outcome of each case.
#[derive(Clone, Copy)]
struct Right {
    good: Is,
    mark: Is,
    blank_lines: Is,
    carriage_returns: Is,
    open_quote: Is,
    big_integer: Is,
    key_twice: Is,
    nan: Is,
    trailing: Is,
    empty: Is,
    levels_17: Is,
}

/// A language: the text around a value, and its spelling of some cases.
#[derive(Clone, Copy)]
struct Language {
    before: &'static str,
    after: &'static str,
    open_quote: &'static str,
    big_integer: &'static str,
    key_twice: &'static str,
    nan: &'static str,
    /// Bytes behind the text, before its last line end.
    trailing: &'static str,
}

/// Reads bytes, or gives the error with which they are refused.
type Reading<'a> = Box<dyn Fn(&[u8]) -> Result<(), String> + 'a>;

/// A reader of the program: reads bytes, or gives the error with which it refuses them.
struct Reader<'a> {
    name: &'static str,
    language: Language,
    right: Right,
    read: Reading<'a>,
}

const BIG: &str = "12345678901234567890123";
const LEVELS: &str = "[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]";

const JSON: Language = Language {
    before: "",
    after: "\n",
    open_quote: "\"1",
    big_integer: BIG,
    key_twice: r#"{"b":{"a":1,"\u0061":2}}"#,
    nan: "NaN",
    trailing: " x",
};

const JSON_DOCUMENT: Language = Language { before: r#"{"params":"#, after: "}\n", ..JSON };

/// `STREAM` is another stream for each text.
const JSON_EVENT: Language = Language {
    before: r#"{"stream":"STREAM","number":1,"key":"k","type":"t","fields":{"v":"#,
    after: "}}\n",
    ..JSON
};

const JSON_ATTRIBUTES: Language = Language { before: r#"{"v":"#, after: "}\n", ..JSON };

const CSV_EVENT: Language = Language {
    before: "stream,number,key,type,v,w\ns,1,k,t,1,",
    key_twice: "1\nstream,number,key,type,v,v",
    trailing: "\nx,y,z",
    ..CSV
};

const CSV: Language =
    Language { before: "v\n", after: "\n", open_quote: "\"1", key_twice: "1", trailing: ",2", ..JSON };

const TOML_RULES: Language = Language {
    before: "[[rule]]\nname = \"r\"\ndiscard = {type = \"t\", field = \"v\", equals = ",
    after: "}\n",
    key_twice: "1, equals = 2",
    nan: "nan",
    ..JSON
};

const TOML_CONFIG: Language = Language {
    before: "[limits]\nstuck_jobs_max = ",
    after: "\n",
    key_twice: "1\nstuck_jobs_max = 2",
    nan: "nan",
    ..JSON
};

const TOPOLOGY: Language =
    Language { before: "a:0 =>\n b:", after: " ;\n", key_twice: "1 b:1", trailing: " x", ..JSON };

/// The reader puts a node's port in the place of `PORT`.
const HOSTS: Language = Language {
    before: "127.0.0.1:PORT",
    after: "\n",
    open_quote: "\"",
    big_integer: BIG,
    key_twice: "\n127.0.0.1:PORT",
    nan: "NaN",
    trailing: " x",
};

impl Language {
    fn texts(self, good: &str, right: Right) -> Vec<(&'static str, Is, Vec<u8>)> {
        let whole = |value: &str| format!("{}{value}{}", self.before, self.after);
        let text = whole(good);
        let marked = [MARK, text.as_bytes()].concat();
        let trailing = format!("{}{}\n", text.trim_end_matches('\n'), self.trailing);
        let bytes = String::into_bytes;
        // The pattern names every field, so a case without an outcome does not compile.
        let Right {
            good,
            mark,
            blank_lines,
            carriage_returns,
            open_quote,
            big_integer,
            key_twice,
            nan,
            trailing: behind,
            empty,
            levels_17,
        } = right;
        vec![
            ("good", good, bytes(text.clone())),
            ("mark", mark, marked),
            ("blank lines", blank_lines, bytes(format!("{text}\n\n\n"))),
            ("carriage returns", carriage_returns, bytes(text.replace('\n', "\r\n"))),
            ("open quote", open_quote, bytes(whole(self.open_quote))),
            ("big integer", big_integer, bytes(whole(self.big_integer))),
            ("key twice", key_twice, bytes(whole(self.key_twice))),
            ("NaN", nan, bytes(whole(self.nan))),
            ("trailing", behind, bytes(trailing)),
            ("empty", empty, Vec::new()),
            ("17 levels", levels_17, bytes(whole(LEVELS))),
        ]
    }
}

impl Reader<'_> {
    /// The cases in which the reader is wrong.
    fn wrong(&self) -> Vec<String> {
        let good = if self.language.before == HOSTS.before { "" } else { "1" };
        let cases = self.language.texts(good, self.right).into_iter();
        let wrong = cases.filter_map(|(case, right, text)| {
            if right == Absent {
                return None;
            }
            let found = (self.read)(&text);
            let is_right = match (&found, right) {
                (Ok(()), Taken) => true,
                (Err(error), Refused(words)) => error.contains(words),
                _ => false,
            };
            (!is_right).then(|| format!("{}, {case}: {found:?}, and not {right:?}", self.name))
        });
        wrong.collect()
    }
}

fn check(readers: &[Reader<'_>]) {
    let wrong: Vec<String> = readers.iter().flat_map(Reader::wrong).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// A reader that is a command, whose file is the argument `@`: refused is an exit code other than `taken`.
fn command<'a>(directory: &'a Path, args: &'a [&'a str], taken: i32) -> Reading<'a> {
    // Commands tell formats by the ends of names.
    let name = args.iter().find_map(|arg| arg.strip_prefix('@')).expect("a file");
    let file = directory.join(name);
    Box::new(move |text| {
        std::fs::write(&file, text).expect("a file");
        let file = file.to_str().expect("a path");
        let args: Vec<&str> = args.iter().map(|arg| if arg.starts_with('@') { file } else { *arg }).collect();
        let ended = run_args(&args);
        if ended.code == taken { Ok(()) } else { Err(format!("{}{}", ended.stdout, ended.stderr)) }
    })
}

const IN_JSON: Right = Right {
    good: Taken,
    mark: Taken,
    blank_lines: Taken,
    carriage_returns: Taken,
    open_quote: Refused("EOF while parsing a string"),
    big_integer: Refused("integer 12345678901234567890123 has more than 64 bits"),
    key_twice: Refused("key `a` occurs twice"),
    nan: Refused("expected value"),
    trailing: Refused("trailing characters"),
    empty: Refused("EOF while parsing a value"),
    levels_17: Taken,
};

/// A line end belongs to a text in JSON, so that a quote that is open there is another error.
const IN_JSON_FILE: Right = Right { open_quote: Refused("control character"), ..IN_JSON };

const IN_EVENTS: Right = Right {
    open_quote: Refused("EOF while parsing a string"),
    empty: Taken,
    levels_17: Refused("nested deeper than 16 levels"),
    ..IN_JSON
};

#[test]
fn files_and_options_of_commands() {
    let directory = tempfile::tempdir().expect("a directory");
    let rules = directory.path().join("no.toml");
    std::fs::write(&rules, "").expect("a file");
    let rules = rules.to_str().expect("a path");
    let call = ["call", "micro/sum", "--at", "127.0.0.1:1", "--params"];
    // Nothing listens there, so the parameters were taken if no node is reached.
    let params = |text: &[u8]| {
        let text = String::from_utf8(text.to_vec()).expect("UTF-8");
        let ended = run_args(&[&call[..], &[&text]].concat());
        if ended.code == 5 { Ok(()) } else { Err(ended.stderr) }
    };
    let params_file = |text: &[u8]| {
        let file = directory.path().join("params.json");
        std::fs::write(&file, text).expect("a file");
        let ended = run_args(&[&call[..], &[&format!("@{}", file.display())]].concat());
        if ended.code == 5 { Ok(()) } else { Err(ended.stderr) }
    };
    let params_input = |text: &[u8]| {
        let ended = run_with_input(&[&call[..], &["-"]].concat(), std::str::from_utf8(text).expect("UTF-8"));
        if ended.code == 5 { Ok(()) } else { Err(ended.stderr) }
    };
    let json = ["mirror", "replay", "@trace.jsonl", "--rules", rules];
    let csv = ["mirror", "replay", "@trace.csv", "--rules", rules];
    check(&[
        Reader { name: "--params", language: JSON, right: IN_JSON_FILE, read: Box::new(params) },
        Reader { name: "--params @FILE", language: JSON, right: IN_JSON_FILE, read: Box::new(params_file) },
        Reader { name: "--params -", language: JSON, right: IN_JSON_FILE, read: Box::new(params_input) },
        Reader {
            name: "JSON lines of a trace",
            language: JSON_EVENT,
            right: IN_EVENTS,
            read: command(directory.path(), &json, 0),
        },
        Reader {
            name: "CSV of a trace",
            language: CSV_EVENT,
            right: Right {
                open_quote: Refused("trace.csv:2: the quote that opens in line 2 has no end"),
                // A text keeps the digits.
                big_integer: Taken,
                key_twice: Absent,
                nan: Taken,
                trailing: Refused("3 cells; the header has 6"),
                empty: Refused("expected a header"),
                levels_17: Taken,
                ..IN_JSON
            },
            read: command(directory.path(), &csv, 0),
        },
        Reader {
            name: "rules",
            language: TOML_RULES,
            right: Right {
                open_quote: Refused("not a valid file of rules"),
                big_integer: Refused(BIG),
                key_twice: Refused("duplicate key"),
                nan: Taken,
                trailing: Refused("expected"),
                empty: Taken,
                levels_17: Refused("did not match"),
                ..IN_JSON
            },
            read: command(directory.path(), &["mirror", "check", "@rules.toml"], 0),
        },
        Reader {
            name: "configuration",
            language: TOML_CONFIG,
            right: Right {
                open_quote: Refused("invalid basic string"),
                big_integer: Refused("stuck_jobs_max is 12345678901234567890123"),
                key_twice: Refused("duplicate key"),
                nan: Refused("stuck_jobs_max"),
                trailing: Refused("expected"),
                empty: Taken,
                levels_17: Refused("stuck_jobs_max"),
                ..IN_JSON
            },
            read: command(directory.path(), &["config", "check", "@node.toml"], 0),
        },
        Reader {
            name: "topology",
            language: TOPOLOGY,
            right: Right {
                open_quote: Refused("\""),
                big_integer: Refused(BIG),
                key_twice: Refused("listed"),
                nan: Refused("NaN"),
                trailing: Refused("x"),
                empty: Refused("topology"),
                levels_17: Refused("["),
                ..IN_JSON
            },
            read: command(directory.path(), &["topology", "check", "@cluster.top"], 0),
        },
    ]);
}

#[test]
fn hosts_and_bodies_of_a_gateway() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut node = NodeProcess::start(&["--gateway", "127.0.0.1:0", "--serve", "micro:partitions=0/1"]);
    let line = node.line();
    let gateway = line.strip_prefix("gateway at http://").expect("an address").to_owned();
    let port = node.addr.rsplit_once(':').expect("a port").1.to_owned();
    let hosts = |text: &[u8]| {
        let text = String::from_utf8(text.to_vec()).expect("UTF-8").replace("PORT", &port);
        let file = directory.path().join("hosts");
        std::fs::write(&file, text).expect("a file");
        let ended = run(&format!("status --at @{}", file.display()));
        if ended.code == 0 { Ok(()) } else { Err(ended.stderr) }
    };
    let body = |media_type: &'static str| {
        let gateway = gateway.clone();
        move |text: &[u8]| {
            let head = format!("content-type: {media_type}\r\n");
            let answer = post(&gateway, "/v1/call/micro/sum", &head, text);
            // Any other problem is the aggregation's, which has read the parameters.
            if answer.contains("bad_body") { Err(answer) } else { Ok(()) }
        }
    };
    let forms = |text: &[u8]| treefold_forms::value::message_pack_of_json(text).map(drop);
    let packets =
        |text: &[u8]| treefold_forms::stream::payload(std::str::from_utf8(text).expect("UTF-8")).map(drop);
    let right_of_body = Right { empty: Taken, ..IN_JSON_FILE };
    let message_pack = |text: &[u8]| body("application/msgpack")(&packed(text));
    check(&[
        Reader {
            name: "hosts",
            language: HOSTS,
            right: Right {
                open_quote: Refused("hosts"),
                big_integer: Refused("hosts"),
                key_twice: Taken,
                nan: Refused("hosts"),
                trailing: Refused("hosts"),
                empty: Refused("hosts"),
                levels_17: Refused("hosts"),
                ..IN_JSON
            },
            read: Box::new(hosts),
        },
        Reader {
            name: "body of HTTP",
            language: JSON,
            right: right_of_body,
            read: Box::new(body("application/json")),
        },
        Reader {
            name: "call document of HTTP",
            language: JSON_DOCUMENT,
            right: right_of_body,
            read: Box::new(body("application/vnd.treefold.call+json")),
        },
        Reader {
            name: "MessagePack of HTTP",
            language: JSON,
            right: Right {
                good: Taken,
                mark: Refused("expected exactly one value"),
                blank_lines: Refused("expected exactly one value"),
                carriage_returns: Refused("expected exactly one value"),
                open_quote: Refused("bad_body"),
                big_integer: Absent,
                key_twice: Refused("key `a` occurs twice in a map"),
                nan: Taken,
                trailing: Refused("expected exactly one value"),
                empty: Taken,
                levels_17: Taken,
            },
            read: Box::new(message_pack),
        },
        Reader { name: "json of gRPC", language: JSON, right: IN_JSON_FILE, read: Box::new(forms) },
        Reader {
            name: "packets of streams",
            language: JSON,
            right: Right {
                // Other text is a text.
                open_quote: Taken,
                nan: Taken,
                trailing: Taken,
                empty: Taken,
                ..IN_JSON
            },
            read: Box::new(packets),
        },
    ]);
}

/// The case of a text in JSON as MessagePack.
fn packed(text: &[u8]) -> Vec<u8> {
    let value = |text: &[u8]| treefold_forms::value::message_pack_of_json(text).map(Vec::from);
    let one = value(b"1").expect("a number");
    match text {
        b"" => Vec::new(),
        b"NaN\n" => [&[0xcb][..], &f64::NAN.to_be_bytes()].concat(),
        b"\"1\n" => vec![0xa2, b'1'],
        b"1 x\n" => [&one[..], b"\xd9"].concat(),
        b"1\n\n\n\n" | b"1\r\n" => [&one[..], b"\n"].concat(),
        _ if text.starts_with(MARK) => [&one[..], MARK].concat(),
        _ if text.starts_with(b"{") => vec![0x82, 0xa1, b'a', 1, 0xa1, b'a', 2],
        _ => value(text).expect("JSON"),
    }
}

/// Sends a request, and returns the whole answer.
fn post(addr: &str, path: &str, headers: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(addr).expect("it listens");
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn sources_of_a_feed() {
    let node = NodeProcess::start(&["--serve", "mirror=flights:partitions=0/1"]);
    let sources = ["tcp:127.0.0.1:0", "http:127.0.0.1:0"];
    let mut feed = real::treefold()
        .args(["mirror", "feed", "flights"])
        .args(sources)
        .args(["--at", &node.addr, "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(feed.stderr.take().expect("a pipe")));
    let [tcp, http] = sources.map(|_| {
        let line = lines.next().expect("a line").expect("UTF-8");
        line.rsplit_once("p:").unwrap_or_else(|| panic!("it printed {line}")).1.to_owned()
    });
    let streams = AtomicU32::new(0);
    let in_own_stream = |text: &[u8]| {
        let name = format!("s{}", streams.fetch_add(1, Ordering::Relaxed));
        match std::str::from_utf8(text) {
            Ok(text) => text.replace("STREAM", &name).into_bytes(),
            Err(_) => text.to_vec(),
        }
    };
    let of_tcp = |text: &[u8]| {
        let mut stream = TcpStream::connect(&tcp).expect("it listens");
        stream.write_all(&in_own_stream(text)).expect("it reads");
        stream.shutdown(std::net::Shutdown::Write).expect("it is open");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let is_refused = answer.contains("\"refused\"") || answer.contains("\"error\"");
        if is_refused { Err(answer) } else { Ok(()) }
    };
    let of_http = |head: &'static str| {
        let (http, in_own_stream) = (&http, &in_own_stream);
        move |text: &[u8]| {
            let answer = post(http, "/v1/feeds/flights/events", head, &in_own_stream(text));
            if answer.starts_with("HTTP/1.1 200") && answer.contains("\"refused\":0") {
                Ok(())
            } else {
                Err(answer)
            }
        }
    };
    let of_document = Right {
        open_quote: Refused("the body ends within the JSON document"),
        trailing: Refused("expected the end of the body"),
        empty: Refused("the body ends within the JSON document"),
        ..IN_EVENTS
    };
    check(&[
        Reader { name: "TCP", language: JSON_EVENT, right: IN_EVENTS, read: Box::new(of_tcp) },
        Reader { name: "HTTP, lines", language: JSON_EVENT, right: IN_EVENTS, read: Box::new(of_http("")) },
        Reader {
            name: "HTTP, a document",
            language: JSON_EVENT,
            right: of_document,
            read: Box::new(of_http("content-type: application/json\r\n")),
        },
    ]);
    let pid = libc::pid_t::try_from(feed.id()).expect("a process id");
    // SAFETY: kill touches no memory; the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    let ended = feed.wait_with_output().expect("it ends");
    let fed: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert!(fed["refused"].as_u64() > Some(0), "{fed}");
    assert_eq!(ended.status.code(), Some(1), "refused events show in the exit code: {fed}");
}

#[test]
fn attributes_of_vectors() {
    let directory = tempfile::tempdir().expect("a directory");
    let vectors = directory.path().join("v.npy");
    let made = run(&format!("vectors generate {} --rows 1 --dimensions 4 --groups 1", vectors.display()));
    assert_eq!(made.code, 0, "{}", made.stderr);
    let open = |ending: &'static str| {
        let (vectors, file) = (&vectors, directory.path().join(format!("a.{ending}")));
        move |text: &[u8]| {
            std::fs::write(&file, text).expect("a file");
            let mut source = treefold_vectors::Source::new(vectors, treefold_vectors::Metric::L2);
            source.attributes = Some(file.clone());
            source.open(&[0], 1, &|_, _| {}).map(drop).map_err(|error| error.to_string())
        }
    };
    check(&[
        Reader {
            name: "attributes as JSON lines",
            language: JSON_ATTRIBUTES,
            right: Right {
                empty: Refused("a.jsonl"),
                levels_17: Refused("has a list or an object in v"),
                ..IN_JSON
            },
            read: Box::new(open("jsonl")),
        },
        Reader {
            name: "attributes as CSV",
            language: CSV,
            right: Right {
                open_quote: Refused("the quote that opens in line 2 has no end"),
                big_integer: Taken,
                key_twice: Absent,
                nan: Taken,
                trailing: Refused("row 0"),
                empty: Refused("a.csv"),
                levels_17: Taken,
                ..IN_JSON
            },
            read: Box::new(open("csv")),
        },
    ]);
}
