//! The place of a call in a trace, and the headers by which programs tell each other theirs.
//!
//! Source: W3C Trace Context, level 1 (<https://www.w3.org/TR/trace-context-1/>). A caller sends
//!
//! ```text
//!  traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
//!               version-trace id-id of the caller's span-flags
//!  tracestate:  vendor=value,other=value
//! ```
//!
//! and the front answers with the `traceparent` of its own span. A `traceparent` that is malformed is ignored, and so is then the
//! `tracestate`: the call begins a trace of its own. A malformed `tracestate` alone is ignored alone. Flags other than `sampled`
//! are not handed on, as the specification asks.

use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;

/// Characters of a `traceparent` of version 00. Later versions may be longer.
const PARENT_BYTES: usize = 55;
/// Places of its dashes.
const DASHES: [usize; 3] = [2, 35, 52];
/// The version that does not exist.
const VERSION_INVALID: u8 = 0xff;
const SAMPLED: u8 = 1;
/// Most entries of a `tracestate`.
pub const STATE_ENTRIES_MAX: usize = 32;
/// Most bytes of a `tracestate` that is handed on. From a longer one entries are left out.
pub const STATE_BYTES_MAX: usize = 512;
/// Bytes above which an entry of a `tracestate` that is too long is left out first.
const LARGE_ENTRY_BYTES: usize = 128;
/// Most bytes of a key, and of the two parts of a key with a tenant.
const KEY_BYTES_MAX: usize = 256;
const TENANT_BYTES_MAX: usize = 241;
const SYSTEM_BYTES_MAX: usize = 14;
/// Most bytes of a value.
const VALUE_BYTES_MAX: usize = 256;

/// The id of a trace; not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId(pub(crate) [u8; 16]);

/// The id of a span; not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId(pub(crate) [u8; 8]);

/// The place that a caller named: its span, below which the call's span goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
    pub(crate) is_sampled: bool,
    /// The `tracestate`; empty if there is none.
    pub(crate) state: String,
}

/// The place of a call.
#[cfg_attr(not(feature = "otel"), allow(dead_code, reason = "only an exporter needs the parent"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
    pub(crate) parent: Option<SpanId>,
    pub(crate) is_sampled: bool,
    pub(crate) state: String,
}

impl Parent {
    /// Reads the values of all headers `traceparent` and `tracestate`, in their order. Returns `None` unless there is exactly one
    /// `traceparent`, and it is well-formed.
    pub fn of<'a>(
        traceparent: impl IntoIterator<Item = &'a [u8]>,
        tracestate: impl IntoIterator<Item = &'a [u8]>,
    ) -> Option<Self> {
        let mut given = traceparent.into_iter();
        let (Some(one), None) = (given.next(), given.next()) else { return None };
        let (trace, span, is_sampled) = read(one.trim_ascii())?;
        let state = state(tracestate).unwrap_or_default();
        Some(Self { trace, span, is_sampled, state })
    }

    /// The id of its trace.
    pub fn trace(&self) -> TraceId {
        self.trace
    }

    /// True if the caller traces its call.
    pub fn is_sampled(&self) -> bool {
        self.is_sampled
    }
}

impl Context {
    /// A new span below that of the caller, or of a new trace. Returns `None` if the system has no random bytes.
    pub(crate) fn below(parent: Option<&Parent>) -> Option<Self> {
        let [span, first, second] = random()?;
        let own = || {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&first.0);
            id[8..].copy_from_slice(&second.0);
            TraceId(id)
        };
        Some(Self {
            trace: parent.map_or_else(own, |parent| parent.trace),
            span,
            parent: parent.map(|parent| parent.span),
            is_sampled: false,
            state: parent.map(|parent| parent.state.clone()).unwrap_or_default(),
        })
    }

    /// The id of its trace.
    pub fn trace(&self) -> TraceId {
        self.trace
    }

    /// The id of the call's span.
    pub fn span(&self) -> SpanId {
        self.span
    }

    /// True if the call's spans are exported, so that its front asks for the tree.
    pub fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// The value of the header `traceparent`.
    pub fn traceparent(&self) -> String {
        let flags = if self.is_sampled { SAMPLED } else { 0 };
        format!("00-{}-{}-{flags:02x}", self.trace, self.span)
    }

    /// The value of the header `tracestate`, as the caller gave it; `None` if it gave none.
    pub fn tracestate(&self) -> Option<&str> {
        (!self.state.is_empty()).then_some(&self.state)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Draws ids.
pub(crate) fn random<const IDS: usize>() -> Option<[SpanId; IDS]> {
    let mut bytes = [[0; 8]; IDS];
    SystemRandom::new().fill(bytes.as_flattened_mut()).ok()?;
    // Zero is no id. It is drawn once in 2^64 times.
    Some(bytes.map(|bytes| SpanId(if bytes == [0; 8] { [1; 8] } else { bytes })))
}

fn read(text: &[u8]) -> Option<(TraceId, SpanId, bool)> {
    if text.len() < PARENT_BYTES || DASHES.iter().any(|&at| text[at] != b'-') {
        return None;
    }
    let [version] = hex(&text[..2])?;
    let ends_well = match (version, text.get(PARENT_BYTES)) {
        (VERSION_INVALID, _) => false,
        (0, more) => more.is_none(),
        (_, more) => more.is_none_or(|&next| next == b'-'),
    };
    let (trace, span, [flags]) = (hex(&text[3..35])?, hex(&text[36..52])?, hex(&text[53..PARENT_BYTES])?);
    let is_valid = ends_well && trace != [0; 16] && span != [0; 8];
    is_valid.then_some((TraceId(trace), SpanId(span), flags & SAMPLED != 0))
}

/// Reads two lower-case digits for each byte.
fn hex<const BYTES: usize>(digits: &[u8]) -> Option<[u8; BYTES]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (value(pair[0])? << 4) | value(pair[1])?;
    }
    Some(bytes)
}

/// Joins the values of the header `tracestate`. Returns `None` if one of their entries is malformed.
fn state<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Option<String> {
    let mut entries: Vec<&str> = Vec::new();
    for value in values {
        for entry in std::str::from_utf8(value).ok()?.split(',') {
            let entry = entry.trim_matches([' ', '\t']);
            if entry.is_empty() {
                continue;
            }
            let (key, value) = entry.split_once('=')?;
            let is_new =
                !entries.iter().any(|entry| entry.split_once('=').is_some_and(|(other, _)| other == key));
            if !is_key(key) || !is_value(value) || !is_new || entries.len() == STATE_ENTRIES_MAX {
                return None;
            }
            entries.push(entry);
        }
    }
    let bytes =
        |entries: &[&str]| entries.iter().map(|entry| entry.len() + 1).sum::<usize>().saturating_sub(1);
    while bytes(&entries) > STATE_BYTES_MAX {
        // Large entries leave first, then the oldest ones, which are last.
        let large = entries.iter().rposition(|entry| entry.len() > LARGE_ENTRY_BYTES);
        entries.remove(large.unwrap_or(entries.len() - 1));
    }
    Some(entries.join(","))
}

fn is_key(key: &str) -> bool {
    let rest_fits = |text: &str| {
        text.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'*' | b'/')
        })
    };
    let begins = |text: &str, allowed: fn(&u8) -> bool| text.as_bytes().first().is_some_and(allowed);
    let letter_or_digit = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    match key.split_once('@') {
        None => key.len() <= KEY_BYTES_MAX && begins(key, letter_or_digit) && rest_fits(key),
        Some((tenant, system)) => {
            tenant.len() <= TENANT_BYTES_MAX
                && system.len() <= SYSTEM_BYTES_MAX
                && begins(tenant, letter_or_digit)
                && begins(system, u8::is_ascii_lowercase)
                && rest_fits(tenant)
                && rest_fits(system)
        }
    }
}

fn is_value(value: &str) -> bool {
    let is_allowed = |byte: u8| (b' '..=b'~').contains(&byte) && !matches!(byte, b',' | b'=');
    (1..=VALUE_BYTES_MAX).contains(&value.len()) && value.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SOUND: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn parent(traceparent: &str, tracestate: &[&str]) -> Option<Parent> {
        Parent::of([traceparent.as_bytes()], tracestate.iter().map(|value| value.as_bytes()))
    }

    #[test]
    fn traceparent_names_trace_span_and_flag() {
        let sound = parent(SOUND, &[]).unwrap();
        assert_eq!(sound.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!((sound.span.to_string().as_str(), sound.is_sampled), ("b7ad6b7169203331", true));
        let unsampled = parent(&SOUND.replace("-01", "-00"), &[]).unwrap();
        assert!(!unsampled.is_sampled);
        assert!(parent(&SOUND.replace("-01", "-fe"), &[]).is_some_and(|parent| !parent.is_sampled));
    }

    #[test]
    fn later_versions_may_say_more_after_a_dash() {
        for later in [SOUND.replacen("00", "01", 1), SOUND.replacen("00", "cc", 1) + "-what-comes"] {
            assert!(parent(&later, &[]).is_some_and(|parent| parent.is_sampled), "{later}");
        }
        assert_eq!(parent(&(SOUND.replacen("00", "01", 1) + ".more"), &[]), None);
    }

    #[test]
    fn malformed_traceparents_are_ignored() {
        for malformed in [
            "",
            "00",
            &SOUND[..54],
            &format!("{SOUND}-more"),
            &format!("{SOUND}0"),
            &SOUND.to_uppercase(),
            &SOUND.replacen("00", "ff", 1),
            &SOUND.replacen("00", "0x", 1),
            &SOUND.replace('-', "_"),
            &SOUND.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &SOUND.replace("b7ad6b7169203331", &"0".repeat(16)),
            &SOUND.replace("-01", "-0g"),
            &SOUND.replace("0af7", "0äf"),
        ] {
            assert_eq!(parent(malformed, &["a=1"]), None, "{malformed:?}");
        }
        let two = [SOUND.as_bytes(), SOUND.as_bytes()];
        assert_eq!(Parent::of(two, []), None, "two headers name no parent");
        assert_eq!(Parent::of([], [b"a=1".as_slice()]), None);
        assert!(parent(&format!(" {SOUND}\t"), &[]).is_some(), "spaces around a value are not part of it");
    }

    #[test]
    fn tracestate_is_handed_on_or_ignored_alone() {
        let state = |values: &[&str]| parent(SOUND, values).unwrap().state;
        assert_eq!(state(&["a=1", " b=2 ,, c@d=x y"]), "a=1,b=2,c@d=x y");
        assert_eq!(state(&[]), "");
        let many = (0..33).map(|at| format!("k{at}=v")).collect::<Vec<_>>();
        let long = format!("a={}", "v".repeat(257));
        for malformed in [
            "a",
            "a=",
            "=1",
            "A=1",
            "a=1=2",
            "a=1,a=2",
            "a=\u{7f}",
            "ä=1",
            "a@=1",
            "@b=1",
            "a@1=1",
            &many.join(","),
            &long,
        ] {
            assert_eq!(state(&[malformed]), "", "{malformed:?}");
        }
        assert_eq!(state(&[&many[..32].join(",")]).split(',').count(), 32);
    }

    #[test]
    fn long_tracestate_loses_large_entries_first() {
        let entry = |key: &str, bytes: usize| format!("{key}={}", "v".repeat(bytes));
        let given = [entry("a", 100), entry("b", 200), entry("c", 100), entry("d", 200)].join(",");
        let kept = parent(SOUND, &[&given]).unwrap().state;
        let keys: Vec<&str> = kept.split(',').map(|entry| &entry[..1]).collect();
        assert_eq!(keys, ["a", "b", "c"]);
        let small = (0..32).map(|at| entry(&format!("k{at}"), 20)).collect::<Vec<_>>().join(",");
        let kept = parent(SOUND, &[&small]).unwrap().state;
        assert!(kept.len() <= STATE_BYTES_MAX && kept.starts_with("k0=") && !kept.contains("k31="), "{kept}");
    }

    #[test]
    fn own_place_is_below_that_of_the_caller() {
        let above = parent(SOUND, &["a=1"]).unwrap();
        let below = Context { is_sampled: true, ..Context::below(Some(&above)).unwrap() };
        assert_eq!((below.trace, below.parent), (above.trace, Some(above.span)));
        assert_ne!(below.span, above.span);
        assert_eq!(below.tracestate(), Some("a=1"));
        let (again, first) = (parent(&below.traceparent(), &[]).unwrap(), Context::below(None).unwrap());
        assert_eq!((again.trace, again.span, again.is_sampled), (below.trace, below.span, true));
        assert_eq!((first.parent, first.tracestate()), (None, None));
        assert_ne!(first.trace, Context::below(None).unwrap().trace);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(parent in prop::collection::vec(any::<u8>(), 0..80), state in prop::collection::vec(any::<u8>(), 0..700)) {
            if let Some(read) = Parent::of([parent.as_slice()], [state.as_slice()]) {
                prop_assert!(read.state.len() <= STATE_BYTES_MAX);
            }
        }

        #[test]
        fn changed_traceparents_are_read_again_as_written(at in 0_usize..55, byte in any::<u8>()) {
            let mut bytes = SOUND.as_bytes().to_vec();
            bytes[at] = byte;
            if let Some(read) = Parent::of([bytes.as_slice()], []) {
                let written = format!("{}-{}", read.trace, read.span);
                prop_assert_eq!(written.as_bytes(), &bytes.trim_ascii()[3..52]);
            }
        }

        #[test]
        fn sound_tracestates_come_back(entries in prop::collection::btree_map("[a-z0-9][a-z0-9_*/-]{0,8}", "[!-+\\--<>-~]{1,6}", 0..32)) {
            let text = entries.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
            prop_assume!(text.len() <= STATE_BYTES_MAX);
            prop_assert_eq!(parent(SOUND, &[&text]).unwrap().state, text);
        }
    }
}
