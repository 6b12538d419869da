//! The address of a server: `http://127.0.0.1:6632`, `https://queues.example.org/reveille`.

use std::{fmt, str::FromStr};

use hyper::{Uri, header::HeaderValue};

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Whether the connection is encrypted.
    pub(super) tls: bool,
    /// Host name or IP address; without the brackets of version 6.
    pub(super) host: String,
    pub(super) port: u16,
    /// Host and port as given.
    authority: String,
    /// The path below which a proxy serves it, without the final slash.
    prefix: String,
}

/// The text is no address of a server.
#[derive(Debug, thiserror::Error)]
#[error("must be an address such as http://127.0.0.1:6632 or https://queues.example.org/reveille{0}")]
pub struct InvalidAddress(&'static str);

impl Address {
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether what is sent there can be neither read nor changed on its way: it is encrypted, or stays on this machine.
    pub fn is_confidential(&self) -> bool {
        let is_local = |ip: std::net::IpAddr| ip.is_loopback();
        self.tls || self.host.eq_ignore_ascii_case("localhost") || self.host.parse().is_ok_and(is_local)
    }

    pub(super) fn host_header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.authority).expect("the authority of a URI is printable")
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    /// Without a scheme it is `http://`. The error quotes nothing: the text may contain a password.
    fn from_str(text: &str) -> Result<Address, InvalidAddress> {
        let text = text.trim();
        let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = with_scheme.parse().map_err(|_| InvalidAddress(""))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(InvalidAddress("")),
        };
        let authority = uri.authority().filter(|it| !it.host().is_empty()).ok_or(InvalidAddress(""))?;
        if authority.as_str().contains('@') {
            return Err(InvalidAddress(", without user and password: the token is in REVEILLE_TOKEN"));
        }
        if uri.query().is_some() || text.contains('#') {
            return Err(InvalidAddress(", without parameters"));
        }
        if authority.port().is_none() && authority.as_str().contains("]:") {
            return Err(InvalidAddress(""));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Address { tls, host, port, authority: authority.as_str().to_owned(), prefix })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The forms that are accepted, what they mean, and how they are shown.
    #[test]
    fn addresses_have_a_scheme_a_host_a_port_and_a_path() {
        let table = [
            ("http://127.0.0.1:6632", false, "127.0.0.1", 6632, "", "http://127.0.0.1:6632"),
            ("localhost:7000", false, "localhost", 7000, "", "http://localhost:7000"),
            ("https://q.example/", true, "q.example", 443, "", "https://q.example"),
            ("https://q.example/team/a/", true, "q.example", 443, "/team/a", "https://q.example/team/a"),
            (" http://[::1]:6632 ", false, "::1", 6632, "", "http://[::1]:6632"),
            ("http://q", false, "q", 80, "", "http://q"),
        ];
        for (text, tls, host, port, prefix, shown) in table {
            let address: Address = text.parse().unwrap_or_else(|_| panic!("{text}"));
            assert_eq!((address.tls, &*address.host, address.port), (tls, host, port), "{text}");
            assert_eq!((address.prefix(), &*address.to_string()), (prefix, shown), "{text}");
        }
    }

    /// Anything else is rejected with an example, and a password is not quoted.
    #[test]
    fn other_texts_are_rejected_without_being_quoted() {
        for text in ["", "ftp://q", "http://", "http:///path", "http://ann:hunter2@q", "http://q?token=hunter2", "a b"]
        {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(error.contains("http://127.0.0.1:6632") && !error.contains("hunter2"), "{text}: {error}");
        }
    }
}
