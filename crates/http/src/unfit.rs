//! The check that every request passes before its service sees it: the header `Host`, and the encoding of its body.
//!
//! **Names.** A browser lets the owner of a name lead it to any address, this machine's too, and takes the pages of that
//! name and the answers from that address for one site (DNS rebinding). Such a request carries the name in `Host`. A
//! listener at an address of this machine therefore takes addresses and `localhost` only, unless its callers show who they
//! are: pages of other names have nothing to show.
//!
//! **Host** (RFC 9112, section 3.2): HTTP/1.1 has exactly one, and it is a name with an optional port. A second one could
//! lead a proxy elsewhere than the listener.
//!
//! **Content-Encoding** (RFC 9110, section 8.4): no service here decompresses a body, because a small one could unpack to any
//! size, so a body with an encoding is refused as 415 before anybody reads it.

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, Version, header};
use std::net::IpAddr;

/// The reason why a listener refuses a request before its service sees it. The request's body is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// A request over HTTP/1.1 has no header `Host`, or a request has several.
    #[error("expected one header Host; found {found}")]
    Hosts {
        /// The headers `Host` of the request.
        found: usize,
    },
    /// The header `Host` is no name.
    #[error("expected a name with an optional port in the header Host; found another text")]
    HostSyntax,
    /// The request has a name that does not belong to this machine.
    #[error(
        "a listener of this machine whose callers need no token is asked by an address or as localhost only, so that no \
         page's name can lead to it; found another name in the header Host"
    )]
    ForeignHost,
    /// The body is encoded.
    #[error("the body has the content encoding {given}; allowed: identity, which is none")]
    Encoding {
        /// The header `Content-Encoding`.
        given: String,
    },
}

impl Unfit {
    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Hosts { .. } | Self::HostSyntax => StatusCode::BAD_REQUEST,
            Self::ForeignHost => StatusCode::FORBIDDEN,
            Self::Encoding { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }

    /// The header that the refusal is about.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Hosts { .. } | Self::HostSyntax | Self::ForeignHost => "host",
            Self::Encoding { .. } => "content-encoding",
        }
    }

    /// The value of that header that is allowed, in the answer's header `Accept-Encoding`.
    pub(crate) fn allowed(&self) -> Option<(HeaderName, HeaderValue)> {
        let identity = (header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        matches!(self, Self::Encoding { .. }).then_some(identity)
    }
}

/// The parts of a request that are checked.
pub(crate) struct Given<'a> {
    pub(crate) version: Version,
    pub(crate) uri: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) has_body: bool,
}

impl Given<'_> {
    /// `is_for_this_machine` is true if only names of this machine may ask.
    pub(crate) fn check(&self, is_for_this_machine: bool) -> Result<(), Unfit> {
        let mut hosts = self.headers.get_all(header::HOST).iter();
        let (host, more) = (hosts.next(), hosts.count());
        if more > 0 || (host.is_none() && self.version == Version::HTTP_11) {
            return Err(Unfit::Hosts { found: usize::from(host.is_some()) + more });
        }
        let host = host.map(|host| host.to_str().map_err(|_| Unfit::HostSyntax)).transpose()?;
        // A request without an authority in its address may have an empty one.
        if host.is_some_and(|host| !host.is_empty() && !is_name(host)) {
            return Err(Unfit::HostSyntax);
        }
        let mut names = host.into_iter().chain(self.uri.authority().map(Authority::as_str));
        if is_for_this_machine && !names.all(names_this_machine) {
            return Err(Unfit::ForeignHost);
        }
        match self.headers.get(header::CONTENT_ENCODING) {
            Some(given) if self.has_body && !given.as_bytes().eq_ignore_ascii_case(b"identity") => {
                Err(Unfit::Encoding { given: given.to_str().unwrap_or("not a text").to_owned() })
            }
            _ => Ok(()),
        }
    }
}

/// True for a name with an optional port, and without a user.
fn is_name(host: &str) -> bool {
    !host.contains('@') && host.parse::<Authority>().is_ok()
}

/// True for an address, or for `localhost`, with or without a port, and with or without the dot of the root behind the name.
pub fn names_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_localhost_name_this_machine() {
        for (host, is_named) in [
            ("127.0.0.1:80", true),
            ("[::1]:80", true),
            ("[::1]", true),
            ("localhost", true),
            ("LocalHost:8080", true),
            ("localhost.", true),
            ("localhost.:8080", true),
            ("localhost..", false),
            ("evil.example.", false),
            (".", false),
            ("evil.example:80", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            assert_eq!(names_this_machine(host), is_named, "{host}");
        }
    }

    fn checked(
        version: Version,
        uri: &str,
        headers: &[(HeaderName, &'static str)],
        is_guarded: bool,
    ) -> Result<(), Unfit> {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(name, HeaderValue::from_static(value));
        }
        let uri = uri.parse().unwrap();
        Given { version, uri: &uri, headers: &all, has_body: true }.check(is_guarded)
    }

    #[test]
    fn request_has_one_host_that_is_a_name() {
        let host = |value: &'static str| (header::HOST, value);
        let one = |given: &[(HeaderName, &'static str)]| checked(Version::HTTP_11, "/", given, false);
        assert_eq!(one(&[]), Err(Unfit::Hosts { found: 0 }));
        assert_eq!(one(&[host("a"), host("a")]), Err(Unfit::Hosts { found: 2 }));
        for wrong in ["a b", "user@a", "a/b", "a:b:c"] {
            assert_eq!(one(&[host(wrong)]), Err(Unfit::HostSyntax), "{wrong}");
        }
        for right in ["a", "a.example:80", "[::1]:80", ""] {
            assert_eq!(one(&[host(right)]), Ok(()), "{right}");
        }
        assert_eq!(checked(Version::HTTP_10, "/", &[], true), Ok(()), "HTTP/1.0 has none");
        assert_eq!(checked(Version::HTTP_2, "http://localhost/", &[], true), Ok(()));
    }

    #[test]
    fn every_name_of_a_request_is_one_of_this_machine() {
        let local = [(header::HOST, "localhost:7")];
        for (version, uri, headers, is_right) in [
            (Version::HTTP_11, "/", &local[..], true),
            (Version::HTTP_11, "/", &[(header::HOST, "evil.example")], false),
            (Version::HTTP_11, "/", &[(header::HOST, "")], false),
            (Version::HTTP_11, "http://evil.example/", &local, false),
            (Version::HTTP_2, "http://evil.example/", &[], false),
            (Version::HTTP_2, "http://evil.example/", &local, false),
        ] {
            let expected = if is_right { Ok(()) } else { Err(Unfit::ForeignHost) };
            assert_eq!(checked(version, uri, headers, true), expected, "{uri} {headers:?}");
            assert_eq!(checked(version, uri, headers, false), Ok(()), "{uri} {headers:?}");
        }
    }

    #[test]
    fn body_has_no_encoding() {
        let encoded = |value| {
            checked(Version::HTTP_11, "/", &[(header::HOST, "a"), (header::CONTENT_ENCODING, value)], false)
        };
        for given in ["gzip", "zstd", "br", "identity, gzip", ""] {
            assert_eq!(encoded(given), Err(Unfit::Encoding { given: given.to_owned() }), "{given}");
        }
        assert_eq!(encoded("Identity"), Ok(()));
        let headers = HeaderMap::from_iter([(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))]);
        let uri = Uri::from_static("http://localhost/");
        let empty = Given { version: Version::HTTP_2, uri: &uri, headers: &headers, has_body: false };
        assert_eq!(empty.check(false), Ok(()), "nothing is encoded");
    }
}
