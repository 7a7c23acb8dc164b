//! Tests of recordings: both formats, types of cells, and problems with their places.

use super::*;
use treefold_mirror::fields::Value;
use treefold_mirror::rules::RuleFile;

fn options(types: &str) -> RecordingOptions {
    RecordingOptions {
        name: "trace".to_owned(),
        stream: Some(Name::new("main").unwrap()),
        per_second: 1000.0,
        types: RuleFile::read(types).unwrap().types,
        limits: MirrorLimits::DEFAULT,
        line_bytes_max: 200,
    }
}

/// A reader that gives one byte at a time.
struct Slow(std::io::Cursor<Vec<u8>>);

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = buffer.len().min(1);
        self.0.read(&mut buffer[..most])
    }
}

fn open(format: Format, types: &str, text: &str) -> Recording {
    let reader = Slow(std::io::Cursor::new(text.as_bytes().to_vec()));
    Recording::new(Box::new(reader), format, options(types))
}

fn all(format: Format, types: &str, text: &str) -> Result<Vec<Recorded>, RecordingError> {
    let mut recording = open(format, types, text);
    std::iter::from_fn(|| recording.next_event().transpose()).collect()
}

fn problem(format: Format, text: &str) -> String {
    all(format, "", text).unwrap_err().to_string()
}

#[test]
fn json_lines_and_csv_give_the_same_events() {
    let json = r#"{"at_ms":0,"stream":"faa","number":1,"key":"DL1","type":"position","fields":{"lat":33.5,"level":7}}

{"at_ms":2.5,"number":2,"key":"DL2","type":"position","fields":{"note":"a, \"b\""}}"#;
    let csv = "at_ms,stream,number,key,type,lat,level,note\r\n\
               0,faa,1,DL1,position,33.5,7,\r\n\
               2.5,,2,DL2,position,,,\"a, \"\"b\"\"\"\r\n";
    let events = all(Format::JsonLines, "", json).unwrap();
    assert_eq!(events, all(Format::Csv, "", csv).unwrap());
    assert_eq!((events[1].event.stream.as_str(), events[1].at), ("main", Instant::from_nanos(2_500_000)));
}

#[test]
fn cells_have_the_declared_type_or_the_one_that_they_look_like() {
    let types = "[types.t]\nzip = \"text\"\nload = \"number\"\nraw = \"bytes\"\ntags = \"nested\"\n";
    let csv = "number,key,type,zip,load,raw,tags,guess\n\
               1,k,t,30303,5,AAE=,\"[1,\"\"a\"\"]\",00441\n\
               2,k,u,30303,5,AAE=,,-0.5\n\
               3,k,u,true,18446744073709551615,1e3,inf,+5\n";
    let fields = |index: usize| all(Format::Csv, types, csv).unwrap()[index].event.fields.clone();
    let one = fields(0);
    let values: Vec<_> = ["zip", "load", "raw", "tags", "guess"].map(|name| one.value(name).unwrap()).into();
    let (text, number) = (Value::Text, Value::Integer);
    assert_eq!(
        values,
        [
            text("30303"),
            number(5),
            Value::Bytes(&[0, 1]),
            Value::Nested(&[0x92, 1, 0xa1, b'a']),
            text("00441")
        ]
    );
    let two = fields(1);
    assert_eq!((two.value("zip"), two.value("tags")), (Some(number(30303)), None));
    assert_eq!((two.value("raw"), two.value("guess")), (Some(text("AAE=")), Some(Value::Float(-0.5))));
    let three = fields(2);
    assert_eq!(
        (three.value("zip"), three.value("raw")),
        (Some(Value::Boolean(true)), Some(Value::Float(1000.0)))
    );
    assert_eq!((three.value("tags"), three.value("guess")), (Some(text("inf")), Some(text("+5"))));
    assert_eq!(three.value("load"), Some(number(u64::MAX.into())));
}

#[test]
fn problems_of_json_lines_have_line_and_column() {
    let good = "{\"number\":1,\"key\":\"k\",\"type\":\"t\"}\n";
    let problem = |wrong: &str| problem(Format::JsonLines, &format!("\n{good}{wrong}\n"));
    assert_eq!(problem(r#"{"number":2,x"#), "trace:3:13: not an event: key must be a string");
    assert_eq!(problem(r#"{"key":"k","type":"t"}"#), "trace:3: the event has no `number`");
    assert_eq!(problem(&"x".repeat(201)), "trace:3: the line has more than 200 bytes");
    let at = |at_ms: &str| good.replace('}', &format!(",\"at_ms\":{at_ms}}}"));
    assert_eq!(problem(&(at("5") + &at("4"))), "trace:4: at_ms is 4, less than on an earlier line");
    assert_eq!(problem(&at("-1")), "trace:3: at_ms is -1; allowed: 0 or more");
}

#[test]
fn last_record_of_a_cut_csv_file_is_no_event() {
    let header = "number,key,type,altitude\n";
    let cut = format!("{header}1,k,t,33000\n2,k,t,33");
    let mut recording = open(Format::Csv, "", &cut);
    assert_eq!(recording.next_event().unwrap().unwrap().event.number, 1);
    let problem = recording.next_event().unwrap_err().to_string();
    assert_eq!(problem, "trace:3: the record has no line end, so it may be cut; add one if it is whole");
    assert_eq!(all(Format::Csv, "", &format!("{cut}\n")).unwrap().len(), 2);
}

#[test]
fn problems_of_csv_have_line_and_column() {
    let csv = |text: &str| problem(Format::Csv, text);
    assert_eq!(csv(""), "trace:1: expected a header with the columns number, key and type");
    assert_eq!(csv("key,type\n"), "trace:1: the header has no column `number`");
    assert_eq!(csv("number,key,type,,a\n"), "trace:1: column 4 of the header: it has no name");
    assert_eq!(csv("number,key,type,a,a\n"), "trace:1: column 5 of the header: `a` occurs twice");
    let header = "number,key,type,at_ms\n1,\"a\nb\",t,5\n";
    let row = |text: &str| csv(&format!("{header}{text}\n"));
    assert_eq!(row("x,k,t,6"), "trace:4: column `number`: found `x`; expected a number from 1");
    assert_eq!(row("2,k,t"), "trace:4: 3 cells; the header has 4");
    assert_eq!(row(",k,t,6"), "trace:4: the event has no `number`");
    assert_eq!(row("2,,t,6"), "trace:4: key has 0 bytes; allowed: 1 to 1024");
    assert_eq!(row("2,k,t,4"), "trace:4: at_ms is 4, less than on an earlier line");
    assert_eq!(row("2,k,t,-1"), "trace:4: at_ms is -1; allowed: 0 or more");
    assert_eq!(row("2,k,t,NaN"), "trace:4: at_ms is NaN; allowed: 0 or more");
    let endless = row(&format!("2,\"{}", "x\n".repeat(300)));
    assert_eq!(endless, "trace:4: can't read it: the record has more than 200 bytes");
}

#[test]
fn open_quote_is_refused_where_it_opens_and_gives_no_event() {
    let header = "number,key,type,v\n";
    let mut recording = open(Format::Csv, "", &format!("{header}1,a,t,1\n2,a,t,\"cut\n3,b,t,2\n"));
    assert_eq!(recording.next_event().unwrap().unwrap().event.number, 1);
    let problem = recording.next_event().unwrap_err().to_string();
    assert_eq!(problem, "trace:3: the quote that opens in line 3 has no end; close it");
    let later = problem_of_csv(&format!("{header}1,a,\"t\nu\",\"cut\n"));
    assert_eq!(later, "trace:3: the quote that opens in line 3 has no end; close it");
    assert_eq!(
        problem_of_csv("number,\"key\n"),
        "trace:1: the quote that opens in line 1 has no end; close it"
    );
}

fn problem_of_csv(text: &str) -> String {
    problem(Format::Csv, text)
}

#[test]
fn mark_blank_lines_and_carriage_returns_are_no_events() {
    let json = "{\"number\":1,\"key\":\"k\",\"type\":\"t\",\"fields\":{\"v\":1}}";
    let of_json = all(Format::JsonLines, "", &format!("\u{feff}{json}\r\n\r\n\n")).unwrap();
    let of_csv = all(Format::Csv, "", "\u{feff}\"number\",key,type,v\r\n1,k,t,1\r\n\r\n\n").unwrap();
    assert_eq!((of_json.len(), &of_json), (1, &of_csv));
}

#[test]
fn integers_beyond_64_bits_keep_their_digits_or_are_refused() {
    const BIG: &str = "12345678901234567890123";
    let csv = format!("number,key,type,v\n1,k,t,{BIG}\n");
    let guessed = all(Format::Csv, "", &csv).unwrap();
    assert_eq!(guessed[0].event.fields.value("v"), Some(Value::Text(BIG)));
    let declared = all(Format::Csv, "[types.t]\nv = \"number\"\n", &csv).unwrap_err().to_string();
    assert_eq!(declared, format!("trace:2: column `v`: found `{BIG}`; expected number"));
    let nested = all(Format::Csv, "[types.t]\nv = \"nested\"\n", &csv.replace(BIG, &format!("[{BIG}]")));
    assert!(nested.unwrap_err().to_string().contains("has more than 64 bits"));
    let event = |fields: &str| format!(r#"{{"number":1,"key":"k","type":"t","fields":{fields}}}"#);
    let refused = problem(Format::JsonLines, &event(&format!("{{\"v\":{BIG}}}")));
    let place = "trace:1:48: not an event: integer";
    assert_eq!(refused, format!("{place} {BIG} has more than 64 bits; give it as a text"));
    let twice = problem(Format::JsonLines, &event(r#"{"v":{"a":1,"a":2}}"#));
    assert_eq!(twice, "trace:1:55: not an event: key `a` occurs twice in an object");
}

#[test]
fn format_follows_the_end_of_the_name() {
    assert_eq!(Format::of("flights.CSV"), Format::Csv);
    assert_eq!(Format::of("flights.csv.jsonl"), Format::JsonLines);
}
