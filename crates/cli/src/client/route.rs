//! Paths of requests.

use std::fmt::{self, Display, Write as _};

/// The path and the query of a request, with every name encoded.
///
/// ```text
/// Route::new("/api/v1/resources/queues").name("a/b").and("depth").query("group", "x&y")
///   → /api/v1/resources/queues/a%2Fb/depth?group=x%26y
/// ```
#[derive(Clone, Debug)]
pub struct Route {
    text: String,
    has_query: bool,
}

impl Route {
    /// A path as it is written in the API's documentation, without names.
    pub fn new(path: &'static str) -> Route {
        Route { text: path.to_owned(), has_query: false }
    }

    /// Appends a name as one segment, whatever characters it has.
    pub fn name(mut self, name: impl Display) -> Route {
        self.text.push('/');
        let name = name.to_string();
        match name.as_str() {
            // Proxies resolve these as parts of the path.
            "." | ".." => self.text.push_str(&name.replace('.', "%2E")),
            name => encode(&mut self.text, name),
        }
        self
    }

    /// Appends a fixed segment.
    pub fn and(mut self, segment: &'static str) -> Route {
        self.text.push('/');
        self.text.push_str(segment);
        self
    }

    /// Adds a parameter.
    pub fn query(mut self, key: &'static str, value: impl Display) -> Route {
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.text.push_str(key);
        self.text.push('=');
        encode(&mut self.text, &value.to_string());
        self
    }

    /// Adds a parameter if it has a value.
    pub fn maybe(self, key: &'static str, value: Option<impl Display>) -> Route {
        match value {
            Some(value) => self.query(key, value),
            None => self,
        }
    }

    /// The path with its query.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Percent-encodes everything but the unreserved characters of RFC 3986.
fn encode(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte.into()),
            _ => write!(out, "%{byte:02X}").expect("a String takes everything"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names with every kind of special character stay one segment or one value.
    #[test]
    fn names_are_encoded() {
        let route = Route::new("/q").name("a/b?c#d%e").and("x").name("..").name("é🎉 \"'").query("k", "a&b=c+d");
        let route = route.maybe("none", None::<u8>).maybe("n", Some(7));
        let expected = "/q/a%2Fb%3Fc%23d%25e/x/%2E%2E/%C3%A9%F0%9F%8E%89%20%22%27?k=a%26b%3Dc%2Bd&n=7";
        assert_eq!(route.as_str(), expected);
        assert_eq!(Route::new("/q").name("a.b-c_d~e").as_str(), "/q/a.b-c_d~e");
    }
}
