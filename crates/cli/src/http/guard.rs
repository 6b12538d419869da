//! Rejects requests that a browser sends for a web page of another site.
//!
//! The server has no authentication: every client that can reach it has full access. A browser on the same machine can
//! reach a loopback address, and it sends what any web page asks for. Two checks reject such requests, on every route,
//! because a GET can have effects, too (a pop with `autoAck` consumes messages):
//!
//! - `Host` must be an IP address, `localhost`, or an allowed name. A page cannot choose this header, but its owner can
//!   let the page's own name resolve to this machine (DNS rebinding); then `Host` is that name. An IP address is not
//!   resolved, so it cannot be rebound.
//! - `Origin`, if present, must be the server's own, and `Sec-Fetch-Site` must not name another site.
//!
//! Programs send neither `Origin` nor `Sec-Fetch-Site`. A request without `Host` is accepted: browsers always send it.

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

use super::{front::CONSOLE, reply};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Allows every host name.
const ANY: &str = "*";

/// How much of a header an error quotes. A host name has at most 253 characters.
const SHOWN_CHARS: usize = 260;

/// The allowed host names. Cheap to clone.
#[derive(Clone)]
pub(super) struct Guard {
    names: Arc<[String]>,
}

impl Guard {
    pub(super) fn new(names: &[String]) -> Self {
        Self { names: names.iter().map(|name| plain(name.trim())).collect() }
    }

    /// 403 with the reason if the request is rejected; `None` if it is accepted.
    pub(super) fn reject(&self, request: &Request) -> Option<Response> {
        let reason = self.reason_to_reject(request.uri(), request.headers(), is_visit(request))?;
        Some(reply::error(StatusCode::FORBIDDEN, &reason))
    }

    fn allows(&self, host: &str) -> bool {
        let host = plain(host);
        is_address(&host) || host == "localhost" || self.names.iter().any(|name| *name == host || name == ANY)
    }

    /// Why a request is rejected; `None` if it is accepted. A visit may come from another site.
    fn reason_to_reject(&self, uri: &Uri, headers: &HeaderMap, visit: bool) -> Option<String> {
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
                return Some(format!("cross-origin requests are not allowed: Origin is {origin:?}"));
            }
        }
        if visit {
            return None;
        }
        let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
        let foreign = sites.find(|value| !matches!(value.as_bytes(), b"same-origin" | b"none"))?;
        let site = shown(foreign.as_bytes());
        Some(format!("cross-origin requests are not allowed: Sec-Fetch-Site is {site:?}"))
    }
}

/// Whether a person follows a link to a page: a navigation of a whole window, which the linking page cannot read. Pages
/// only read, so links to them, and the way back from an OpenID provider, are allowed from anywhere.
fn is_visit(request: &Request) -> bool {
    let is = |name: &'static str, wanted: &str| request.headers().get(name).is_some_and(|value| value == wanted);
    let path = request.uri().path();
    let is_page = path == "/" || path == CONSOLE || path.starts_with("/console/");
    request.method().is_safe() && is_page && is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document")
}

/// Host and port, without a user in front of them.
fn authority(text: &str) -> Option<Authority> {
    text.parse::<Authority>().ok().filter(|authority| !text.contains('@') && !authority.host().is_empty())
}

/// Whether an origin is that of the server itself, addressed as `host`.
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

/// A host name for comparison: lower case, without the final dot of a fully qualified name.
fn plain(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    name.strip_suffix('.').map(str::to_owned).unwrap_or(name)
}

/// Whether a host is an IP address; one of version 6 stands in brackets.
///
/// The unspecified addresses and the mapped ones of version 4 (`[::ffff:127.0.0.1]`) do not count: they lead to
/// loopback as well, but browsers do not trust them as loopback and send no `Sec-Fetch-Site` to them.
fn is_address(host: &str) -> bool {
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inside) => inside
            .parse::<Ipv6Addr>()
            .is_ok_and(|address| !address.is_unspecified() && address.to_ipv4_mapped().is_none()),
        None => host.parse::<Ipv4Addr>().is_ok_and(|address| !address.is_unspecified()),
    }
}

fn shown(value: &[u8]) -> String {
    String::from_utf8_lossy(value).chars().take(SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    /// The verdict on a request with these headers.
    fn reason_to_reject(names: &[&str], headers: &[(HeaderName, &'static str)]) -> Option<String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
        Guard::new(&names).reason_to_reject(&Uri::from_static("/"), &headers, false)
    }

    /// A name that the owner of a page can point at this machine is rejected; addresses, localhost and allowed names
    /// are accepted.
    #[test]
    fn other_host_names_are_rejected() {
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
            assert_eq!(reason_to_reject(&["queue.example"], &[(HOST, host)]), None, "{host}");
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
            "0.0.0.0",
            "0.0.0.0:6632",
            "[::]:6632",
            "[::ffff:127.0.0.1]:6632",
            "[::ffff:7f00:1]",
            "",
            "a b",
        ] {
            assert!(reason_to_reject(&["queue.example"], &[(HOST, host)]).is_some(), "{host:?}");
        }
        assert!(
            reason_to_reject(&[], &[(HOST, "localhost"), (HOST, "evil.example")]).is_some(),
            "a second one is checked, too"
        );
        assert_eq!(reason_to_reject(&["*"], &[(HOST, "evil.example")]), None);
        assert_eq!(reason_to_reject(&[], &[]), None, "browsers always send it");
        let said = reason_to_reject(&[], &[(HOST, "queue.example")]).expect("refused");
        assert!(said.contains("--allowed-hosts queue.example"), "{said}");
    }

    /// The target in the request line is checked like the host.
    #[test]
    fn another_target_is_rejected() {
        let refused =
            |uri| Guard::new(&[]).reason_to_reject(&Uri::from_static(uri), &HeaderMap::new(), false).is_some();
        assert!(refused("http://evil.example/health"));
        assert!(!refused("http://localhost:6632/health"));
    }

    /// A link from another site may lead to a page, and to nothing else: not to the API, not into a frame or an image, and
    /// not with another method.
    #[test]
    fn links_from_other_sites_lead_to_pages_only() {
        for (method, path, dest, accepted) in [
            ("GET", "/console", "document", true),
            ("GET", "/", "document", true),
            ("GET", "/console/login/callback?code=1", "document", true),
            ("GET", "/console/queues", "iframe", false),
            ("GET", "/console/queues", "image", false),
            ("POST", "/console/login", "document", false),
            ("GET", "/api/v1/pop/queue/q?autoAck=true", "document", false),
            ("GET", "/consoles", "document", false),
        ] {
            let request = Request::builder().method(method).uri(path).header(HOST, "localhost");
            let request = request.header("sec-fetch-site", "cross-site").header("sec-fetch-mode", "navigate");
            let request = request.header("sec-fetch-dest", dest).body(Default::default()).expect("a request");
            assert_eq!(Guard::new(&[]).reject(&request).is_none(), accepted, "{method} {path} {dest}");
        }
    }

    /// A request with an origin is accepted only from the server's own origin; one with `Sec-Fetch-Site` only from the
    /// same origin or the user.
    #[test]
    fn cross_origin_requests_are_rejected() {
        for (host, origin) in [
            ("localhost:6632", "http://localhost:6632"),
            ("127.0.0.1:6632", "http://127.0.0.1:6632"),
            ("[::1]:6632", "http://[::1]:6632"),
            ("localhost", "https://localhost"),
            ("localhost:443", "https://localhost"),
            ("localhost:80", "http://LOCALHOST"),
        ] {
            assert_eq!(reason_to_reject(&[], &[(HOST, host), (ORIGIN, origin)]), None, "{host} {origin}");
        }
        for origin in ["null", "", "http://evil.example", "http://localhost:3000", "http://127.0.0.1:6632", "file://"] {
            assert!(reason_to_reject(&[], &[(HOST, "localhost:6632"), (ORIGIN, origin)]).is_some(), "{origin:?}");
            assert!(reason_to_reject(&["*"], &[(HOST, "localhost:6632"), (ORIGIN, origin)]).is_some(), "{origin:?}");
        }
        assert!(
            reason_to_reject(&[], &[(ORIGIN, "http://localhost:6632")]).is_some(),
            "there is no host to compare with"
        );
        for (site, refused) in [
            ("same-origin", false),
            ("none", false),
            ("same-site", true),
            ("cross-site", true),
            ("Cross-Site", true),
            ("", true),
        ] {
            let said = reason_to_reject(&[], &[(HOST, "localhost"), (SEC_FETCH_SITE, site)]);
            assert_eq!(said.is_some(), refused, "{site:?}");
        }
    }
}
