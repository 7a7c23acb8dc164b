//! The header `Accept`: the form of an answer that a request prefers (RFC 9110, section 12.5.1).
//!
//! The most specific range that matches a media type gives its weight, so `text/event-stream;q=0, */*` accepts everything
//! but server-sent events. Of types with equal weights, one that is named precedes those that a wildcard matches, and then
//! the order in the header decides.

use axum::http::{HeaderMap, header};
use std::cmp::Reverse;

/// One range of the header.
struct Range<'a> {
    name: &'a str,
    /// Thousandths, from 0 to 1,000.
    weight: u16,
}

/// The headers `Accept` of a request.
pub struct Accepted<'a>(Vec<Range<'a>>);

impl<'a> Accepted<'a> {
    /// Reads the headers of a request; `None` if it has no `Accept`, and so accepts every form. A value that is no text names
    /// no form.
    pub fn of(headers: &'a HeaderMap) -> Option<Self> {
        let given = headers.get_all(header::ACCEPT);
        given.iter().next()?;
        let texts = given.iter().filter_map(|value| value.to_str().ok());
        let ranges = texts.flat_map(|text| text.split(',')).map(Range::read);
        Some(Self(ranges.filter(|range| !range.name.is_empty()).collect()))
    }

    /// The preferred one of some forms, each with the media types that name it. The first form wins if a wildcard alone
    /// decides. `None` if no form is acceptable.
    pub fn best<F: Copy>(&self, forms: &[(F, &[&str])]) -> Option<F> {
        let weighed = forms.iter().enumerate().filter_map(|(order, (form, names))| {
            // A form with several names is as acceptable as the best of them.
            let rank = names.iter().filter_map(|name| self.rank(name)).max()?;
            Some((rank, Reverse(order), *form))
        });
        weighed.max_by_key(|&(rank, order, _)| (rank, order)).map(|(_, _, form)| form)
    }

    /// The rank of a media type: its weight, whether it is named, and its place in the header. `None` if it is not accepted.
    fn rank(&self, name: &str) -> Option<(u16, bool, Reverse<usize>)> {
        let matches = self.0.iter().enumerate().filter_map(|(place, range)| {
            let specificity = range.specificity(name)?;
            Some((specificity, Reverse(place), range.weight))
        });
        let (specificity, place, weight) =
            matches.max_by_key(|&(specificity, place, _)| (specificity, place))?;
        (weight > 0).then_some((weight, specificity == Range::NAMED, place))
    }
}

impl<'a> Range<'a> {
    /// The specificity of a range that names a type and no wildcard.
    const NAMED: u8 = 2;

    fn read(text: &'a str) -> Self {
        let mut parts = text.split(';');
        let name = parts.next().unwrap_or_default().trim();
        let weight = parts.filter_map(|parameter| parameter.split_once('='));
        let weight = weight.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
        // A weight that cannot be read is no refusal.
        let weight = weight.and_then(|(_, weight)| weight.trim().parse::<f32>().ok()).unwrap_or(1.0);
        Self { name, weight: (weight.clamp(0.0, 1.0) * 1_000.0) as u16 }
    }

    /// How closely the range matches a media type; `None` if it does not.
    fn specificity(&self, name: &str) -> Option<u8> {
        if self.name.eq_ignore_ascii_case(name) {
            return Some(Self::NAMED);
        }
        let (family, any) = self.name.split_once('/')?;
        let of_family = name.split_once('/').is_some_and(|(known, _)| known.eq_ignore_ascii_case(family));
        match (family, any) {
            ("*", "*") => Some(0),
            (_, "*") if of_family => Some(1),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    const FORMS: [(u8, &[&str]); 3] =
        [(0, &["application/json"]), (1, &["text/event-stream"]), (2, &["application/x-a", "application/a"])];

    #[test]
    fn weights_and_wildcards_choose_a_form() {
        for (text, best) in [
            ("*/*", Some(0)),
            ("text/event-stream", Some(1)),
            ("text/event-stream;q=0", None),
            ("text/event-stream;q=0, */*", Some(0)),
            ("*/*, text/event-stream", Some(1)),
            ("*/*, text/event-stream;q=0.5", Some(0)),
            ("text/*", Some(1)),
            ("text/*;q=0, */*;q=0.1", Some(0)),
            ("application/json;q=0, application/*", Some(2)),
            ("application/json; q=0.5, application/a; Q=0.6", Some(2)),
            ("Text/Event-Stream, application/json", Some(1)),
            ("application/json, text/event-stream", Some(0)),
            ("application/json;q=nan, text/html", None),
            ("application/json;q=x", Some(0)),
            ("text/html", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(text));
            assert_eq!(Accepted::of(&headers).and_then(|accepted| accepted.best(&FORMS)), best, "{text}");
        }
        assert!(Accepted::of(&HeaderMap::new()).is_none());
    }

    #[test]
    fn several_headers_are_one_list() {
        let mut headers = HeaderMap::new();
        for text in ["application/json;q=0.1", "text/event-stream;q=0.2"] {
            headers.append(header::ACCEPT, HeaderValue::from_static(text));
        }
        assert_eq!(Accepted::of(&headers).unwrap().best(&FORMS), Some(1));
    }
}
