//! The cookies of the console: a session, and a login that has begun.
//!
//! Over TLS their names begin with `__Host-`: a browser accepts such a cookie only from this host, encrypted, for all
//! paths, so that no other host of the domain can set it. They are not readable by scripts. Over plain HTTP they are
//! given to loopback addresses only.

use std::time::Duration;

use super::handshake::Peer;
use axum::http::{Extensions, HeaderMap, HeaderValue, header};

/// The cookies by their purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cookie {
    /// The secret of a session.
    Session,
    /// The secret of a login that has begun at an OpenID provider.
    Login,
}

/// The longest cookie that is read, in bytes: secrets have 53.
const VALUE_MAX: usize = 256;

impl Cookie {
    fn name(self, secure: bool) -> &'static str {
        match (self, secure) {
            (Cookie::Session, true) => "__Host-reveille",
            (Cookie::Session, false) => "reveille",
            (Cookie::Login, true) => "__Host-reveille-login",
            (Cookie::Login, false) => "reveille-login",
        }
    }

    /// Its value in a request. The name without protection counts only if this server speaks no TLS: a proxy may.
    pub(super) fn read(self, headers: &HeaderMap, tls: bool) -> Option<&str> {
        let find = |wanted: &str| {
            let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
            let mut pairs =
                cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
            let value = pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value);
            value.filter(|value| !value.is_empty() && value.len() <= VALUE_MAX)
        };
        find(self.name(true)).or_else(|| find(self.name(false)).filter(|_| !tls))
    }

    /// The header that sets it for some time. `Lax`: a browser sends it with a link from another site, which leads to
    /// a page and changes nothing, and with the way back from an OpenID provider.
    pub(super) fn set(self, value: &str, lifetime: Duration, secure: bool) -> HeaderValue {
        let (name, seconds) = (self.name(secure), lifetime.as_secs());
        let protected = if secure { "; Secure" } else { "" };
        let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{protected}");
        HeaderValue::from_str(&text).expect("secrets are printable")
    }

    /// The header that removes it.
    pub(super) fn remove(self, secure: bool) -> HeaderValue {
        self.set("", Duration::ZERO, secure)
    }
}

/// Whether the browser uses TLS: this server's, or that of a proxy, as the origin of its request says. A browser sets
/// that header itself.
pub(super) fn is_secure(headers: &HeaderMap, extensions: &Extensions) -> bool {
    let own = extensions.get::<Peer>().is_some_and(|peer| peer.secure);
    let of_proxy = headers.get(header::ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    own || of_proxy
}

/// Whether the browser reaches the server by a loopback address or `localhost`, where no other machine listens.
pub(super) fn is_local(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_loopback = |ip: std::net::IpAddr| ip.is_loopback();
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    /// A cookie is found among others, first by its protected name, and over TLS only by that.
    #[test]
    fn a_cookie_is_read_by_its_name() {
        let sent = headers(header::COOKIE, &["a=1; reveille=plain", "__Host-reveille=protected; reveille-login=x"]);
        assert_eq!(Cookie::Session.read(&sent, false), Some("protected"));
        assert_eq!(Cookie::Login.read(&sent, false), Some("x"));
        assert_eq!(Cookie::Session.read(&sent, true), Some("protected"));
        assert_eq!(Cookie::Login.read(&sent, true), None);
        assert_eq!(Cookie::Session.read(&headers(header::COOKIE, &["reveille=", "xreveille=1"]), false), None);
    }

    /// Cookies have the attributes that keep them from scripts and other hosts.
    #[test]
    fn a_cookie_is_protected() {
        let set = Cookie::Session.set("v", Duration::from_secs(9), true);
        assert_eq!(set, "__Host-reveille=v; Path=/; Max-Age=9; HttpOnly; SameSite=Lax; Secure");
        assert_eq!(Cookie::Session.remove(false), "reveille=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax");
    }

    /// Only names of this machine are local.
    #[test]
    fn loopback_is_local() {
        for (host, local) in [
            ("localhost:6632", true),
            ("127.0.0.1", true),
            ("[::1]:6632", true),
            ("10.0.0.1", false),
            ("localhost.example", false),
            ("", false),
        ] {
            assert_eq!(is_local(&headers(header::HOST, &[host])), local, "{host}");
        }
    }
}
