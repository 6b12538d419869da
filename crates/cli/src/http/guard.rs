//! Refuses what a browser sends for a web page of another site.
//!
//! The server has no authentication: every client that reaches its address may do everything. A browser on the same machine reaches a
//! loopback address, and it sends what any web page asks it to send. Two checks keep pages out, on every route, because a GET
//! can act, too (a pop with `autoAck` consumes messages):
//!
//! - `Host` must be an IP address, `localhost`, or a name that the operator has allowed. A page cannot choose this header, but its
//!   owner can let the page's own name resolve to this machine (DNS rebinding); then `Host` holds that name. An IP address is
//!   not resolved, so it cannot be rebound.
//! - `Origin`, if there is one, must be the server's own, and `Sec-Fetch-Site` must not say that another site sends the request.
//!
//! Programs send neither `Origin` nor `Sec-Fetch-Site`. A request without `Host` is let through: no browser sends one.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use axum::{
    extract::Request,
    http::{
        HeaderMap, StatusCode, Uri,
        header::{HOST, HeaderName, ORIGIN},
        uri::Authority,
    },
    response::Response,
};

use super::reply;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Stands for every name in the list of allowed ones.
const ANY: &str = "*";

/// The longest part of a header that an error repeats. A host name has at most 253 characters.
const SHOWN_CHARS: usize = 260;

/// By which names the server may be called. Cheap to clone.
#[derive(Clone)]
pub(super) struct Guard {
    names: Arc<[String]>,
}

impl Guard {
    pub(super) fn new(names: &[String]) -> Self {
        Self { names: names.iter().map(|name| plain(name.trim())).collect() }
    }

    /// The answer to a request that is not let through: 403 with the reason. `None` if it is.
    pub(super) fn refused(&self, request: &Request) -> Option<Response> {
        let reason = self.refusal(request.uri(), request.headers())?;
        Some(reply::error(StatusCode::FORBIDDEN, &reason))
    }

    fn allows(&self, host: &str) -> bool {
        let host = plain(host);
        is_address(&host) || host == "localhost" || self.names.iter().any(|name| *name == host || name == ANY)
    }

    /// Why a request is refused; `None` if it is not.
    fn refusal(&self, uri: &Uri, headers: &HeaderMap) -> Option<String> {
        let mut called = Vec::new();
        for value in headers.get_all(HOST) {
            let authority = value.to_str().ok().and_then(authority);
            let Some(authority) = authority else {
                return Some(format!("invalid header `Host`: {:?} is not a host name", shown(value.as_bytes())));
            };
            called.push(authority);
        }
        // A request to a proxy names its target in the first line.
        called.extend(uri.authority().cloned());
        if let Some(authority) = called.iter().find(|authority| !self.allows(authority.host())) {
            let host = shown(authority.host().as_bytes());
            return Some(format!(
                "the host name {host:?} is not allowed: use localhost or an IP address, or start the server with \
                 --allowed-hosts {host}"
            ));
        }
        for value in headers.get_all(ORIGIN) {
            let own = value.to_str().is_ok_and(|origin| called.iter().any(|host| is_same(origin, host)));
            if !own {
                let origin = shown(value.as_bytes());
                return Some(format!("requests of web pages of another origin are refused: Origin is {origin:?}"));
            }
        }
        let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
        let foreign = sites.find(|value| !matches!(value.as_bytes(), b"same-origin" | b"none"))?;
        let site = shown(foreign.as_bytes());
        Some(format!("requests of web pages of another origin are refused: Sec-Fetch-Site is {site:?}"))
    }
}

/// Host and port, without a user in front of them.
fn authority(text: &str) -> Option<Authority> {
    text.parse::<Authority>().ok().filter(|authority| !text.contains('@') && !authority.host().is_empty())
}

/// Whether an origin is that of the server itself, called by `host`.
fn is_same(origin: &str, host: &Authority) -> bool {
    let Some((scheme, rest)) = origin.split_once("://") else { return false };
    let default = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(default);
    authority(rest).is_some_and(|of| plain(of.host()) == plain(host.host()) && port(&of) == port(host))
}

/// A name in the one way it is compared: in small letters, without the dot that ends a full name.
fn plain(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    name.strip_suffix('.').map(str::to_owned).unwrap_or(name)
}

/// Whether a host is an IP address; one of version 6 stands in brackets.
fn is_address(host: &str) -> bool {
    let inside = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inside.map_or_else(|| host.parse::<Ipv4Addr>().is_ok(), |inside| inside.parse::<Ipv6Addr>().is_ok())
}

fn shown(value: &[u8]) -> String {
    String::from_utf8_lossy(value).chars().take(SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    /// What a guard says of a request with these headers.
    fn refusal(names: &[&str], headers: &[(HeaderName, &'static str)]) -> Option<String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
        Guard::new(&names).refusal(&Uri::from_static("/"), &headers)
    }

    /// A name that a page's owner can point at this machine is refused; addresses, localhost and allowed names are not.
    #[test]
    fn foreign_host_names_are_refused() {
        for host in [
            "localhost",
            "LocalHost:6632",
            "localhost.",
            "127.0.0.1",
            "127.0.0.1:6632",
            "10.1.2.3:80",
            "[::1]",
            "[::1]:6632",
            "queue.example",
            "Queue.Example.:8080",
        ] {
            assert_eq!(refusal(&["queue.example"], &[(HOST, host)]), None, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:6632",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "notlocalhost",
            "queue.example.evil",
            "localhost@evil.example",
            "evil.example@localhost",
            "[evil.example]",
            "",
            "a b",
        ] {
            assert!(refusal(&["queue.example"], &[(HOST, host)]).is_some(), "{host:?}");
        }
        assert!(refusal(&[], &[(HOST, "localhost"), (HOST, "evil.example")]).is_some(), "a second one counts, too");
        assert_eq!(refusal(&["*"], &[(HOST, "evil.example")]), None);
        assert_eq!(refusal(&[], &[]), None, "no browser leaves it away");
        let said = refusal(&[], &[(HOST, "queue.example")]).expect("refused");
        assert!(said.contains("--allowed-hosts queue.example"), "{said}");
    }

    /// The target in the first line of a request counts as its host does.
    #[test]
    fn a_foreign_target_is_refused() {
        let refused = |uri| Guard::new(&[]).refusal(&Uri::from_static(uri), &HeaderMap::new()).is_some();
        assert!(refused("http://evil.example/health"));
        assert!(!refused("http://localhost:6632/health"));
    }

    /// Only the server's own origin may send a request that has one, and only a page of its own, or the user.
    #[test]
    fn requests_of_other_origins_are_refused() {
        for (host, origin) in [
            ("localhost:6632", "http://localhost:6632"),
            ("127.0.0.1:6632", "http://127.0.0.1:6632"),
            ("[::1]:6632", "http://[::1]:6632"),
            ("localhost", "https://localhost"),
            ("localhost:443", "https://localhost"),
            ("localhost:80", "http://LOCALHOST"),
        ] {
            assert_eq!(refusal(&[], &[(HOST, host), (ORIGIN, origin)]), None, "{host} {origin}");
        }
        for origin in ["null", "", "http://evil.example", "http://localhost:3000", "http://127.0.0.1:6632", "file://"] {
            assert!(refusal(&[], &[(HOST, "localhost:6632"), (ORIGIN, origin)]).is_some(), "{origin:?}");
            assert!(refusal(&["*"], &[(HOST, "localhost:6632"), (ORIGIN, origin)]).is_some(), "{origin:?}");
        }
        assert!(refusal(&[], &[(ORIGIN, "http://localhost:6632")]).is_some(), "there is no host to compare with");
        for (site, refused) in [
            ("same-origin", false),
            ("none", false),
            ("same-site", true),
            ("cross-site", true),
            ("Cross-Site", true),
            ("", true),
        ] {
            let said = refusal(&[], &[(HOST, "localhost"), (SEC_FETCH_SITE, site)]);
            assert_eq!(said.is_some(), refused, "{site:?}");
        }
    }
}
