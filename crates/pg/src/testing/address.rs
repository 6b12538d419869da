//! Rewriting database URLs.

use std::net::SocketAddr;

use sqlx::postgres::PgConnectOptions;

/// `url` with another address, and without encryption, because a proxy reads the bytes.
pub(super) fn redirect(url: &str, to: SocketAddr) -> String {
    let parts = split(url);
    format!("{}{}{to}{}?{}", parts.scheme, parts.login, parts.path, query(parts.query, &["host", "port", "sslmode"]))
        + "sslmode=disable"
}

/// `url` with another role and password. Neither may contain characters that are special in a URL.
pub(super) fn log_in_as(url: &str, role: &str, password: &str) -> String {
    let parts = split(url);
    let query = query(parts.query, &["user", "password"]);
    let url = format!("{}{role}:{password}@{}{}?{query}", parts.scheme, parts.address, parts.path);
    url.trim_end_matches(['?', '&']).to_owned()
}

/// The host and port of a URL. A host that begins with a slash is the folder of a socket.
pub(super) fn target(url: &str) -> (String, u16) {
    let options: PgConnectOptions = url.parse().expect("the test server's URL was used before");
    let socket = options.get_socket().map(|folder| folder.to_string_lossy().into_owned());
    (socket.unwrap_or_else(|| options.get_host().to_owned()), options.get_port())
}

/// One URL per host of `url`, in the same order.
pub(super) fn each_host(url: &str) -> Vec<String> {
    let parts = split(url);
    let query = if parts.query.is_empty() { String::new() } else { format!("?{}", parts.query) };
    let hosts = parts.address.split(',');
    hosts.map(|host| format!("{}{}{host}{}{query}", parts.scheme, parts.login, parts.path)).collect()
}

/// The role and password of a URL.
pub(super) fn login(url: &str) -> (String, String) {
    let login = split(url).login.trim_end_matches('@');
    let (role, password) = login.split_once(':').unwrap_or((login, ""));
    (decode(role), decode(password))
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = tail.get(..2).filter(|_| *first == b'%');
        let escaped = escaped.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

struct Parts<'a> {
    /// With `://`.
    scheme: &'a str,
    /// With `@`; empty if there is none.
    login: &'a str,
    address: &'a str,
    /// With `/`; empty if there is none.
    path: &'a str,
    query: &'a str,
}

fn split(url: &str) -> Parts<'_> {
    let (rest, query) = url.split_once('?').unwrap_or((url, ""));
    let (scheme, rest) = rest.split_at(rest.find("://").map_or(0, |at| at + 3));
    // A password may contain anything except an unescaped slash; the last @ before the path ends the login.
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (login, address) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    Parts { scheme, login, address, path, query }
}

/// The parameters of a query except some, each followed by `&`.
fn query(query: &str, without: &[&str]) -> String {
    let kept = query.split('&').filter(|pair| !pair.is_empty());
    kept.filter(|pair| !without.contains(&pair.split('=').next().unwrap_or_default()))
        .map(|pair| format!("{pair}&"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the requested part of a URL changes.
    /// A table of URLs with and without login, database and parameters.
    #[test]
    fn only_the_address_or_the_login_changes() {
        let to = "127.0.0.1:9".parse().expect("address");
        let table = [
            ("postgres://u:p@h:1/db", "postgres://u:p@127.0.0.1:9/db?sslmode=disable", "postgres://r:s@h:1/db"),
            (
                "postgres://u:p%40@h/db?sslmode=require&application_name=x&user=v",
                "postgres://u:p%40@127.0.0.1:9/db?application_name=x&user=v&sslmode=disable",
                "postgres://r:s@h/db?sslmode=require&application_name=x",
            ),
            ("postgres://h", "postgres://127.0.0.1:9?sslmode=disable", "postgres://r:s@h"),
        ];
        for (url, redirected, logged_in) in table {
            assert_eq!(redirect(url, to), redirected, "{url}");
            assert_eq!(log_in_as(url, "r", "s"), logged_in, "{url}");
        }
        assert_eq!(target("postgres://u@h:1/db"), ("h".to_owned(), 1));
        for socket in ["postgres:///db?host=/run&port=2", "postgres://u@%2Frun:2/db"] {
            assert_eq!(target(socket), ("/run".to_owned(), 2), "{socket}");
        }
        assert_eq!(each_host("postgres://u:p@h:1,i/db?x=y"), ["postgres://u:p@h:1/db?x=y", "postgres://u:p@i/db?x=y"]);
        assert_eq!(each_host("postgres://h"), ["postgres://h"]);
        assert_eq!(login("postgres://u:p%40%25x@h"), ("u".to_owned(), "p@%x".to_owned()));
    }
}
