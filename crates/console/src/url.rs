//! Addresses: of pages, relative to the console's root, and of the API. Segments and parameters are encoded.

use std::fmt;

/// An address. Parameters keep their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    path: String,
    parameters: Vec<(String, String)>,
}

impl Url {
    /// A route of the API, from its segments: `["v1", "tasks", id]`.
    pub fn api<'a>(segments: impl IntoIterator<Item = &'a str>) -> Url {
        let path = segments.into_iter().map(|segment| format!("/{}", encode(segment))).collect();
        Url { path, parameters: Vec::new() }
    }

    /// A page of the console, from its segments: `["queues", name]`. None: the overview.
    pub fn link<'a>(segments: impl IntoIterator<Item = &'a str>) -> Url {
        let segments: Vec<String> = segments.into_iter().map(encode).collect();
        // An empty reference would be the address of the page itself.
        let path = if segments.is_empty() { "./".to_owned() } else { segments.join("/") };
        Url { path, parameters: Vec::new() }
    }

    /// A path that is encoded already.
    pub(crate) fn raw(path: &str, parameters: Vec<(String, String)>) -> Url {
        Url { path: if path.is_empty() { "./".to_owned() } else { path.to_owned() }, parameters }
    }

    /// Sets a parameter, in the position it has already.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Url {
        let value = value.to_string();
        match self.parameters.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.parameters.push((name.to_owned(), value)),
        }
        self
    }

    /// Sets a parameter if there is a value.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<impl fmt::Display>) -> Url {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Removes a parameter.
    #[must_use]
    pub fn without(mut self, name: &str) -> Url {
        self.parameters.retain(|(known, _)| known != name);
        self
    }

    /// The parameters.
    pub fn parameters(&self) -> &[(String, String)] {
        &self.parameters
    }

    /// The path, encoded.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        for (index, (name, value)) in self.parameters.iter().enumerate() {
            let sign = if index == 0 { '?' } else { '&' };
            write!(f, "{sign}{}={}", encode(name), encode(value))?;
        }
        Ok(())
    }
}

impl maud::Render for Url {
    fn render_to(&self, into: &mut String) {
        self.to_string().render_to(into);
    }
}

/// Percent-encodes everything except the unreserved characters of RFC 3986.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments and parameters are encoded, whatever they contain; a parameter that is set twice keeps its position.
    #[test]
    fn segments_and_parameters_are_encoded() {
        let url = Url::api(["v1", "a/b?c#d"]).with("q", "x&y=\"<é>").with("after", 1).with("q", "z w");
        assert_eq!(url.to_string(), "/v1/a%2Fb%3Fc%23d?q=z%20w&after=1");
        assert_eq!(Url::link(["queues", "javascript:x"]).to_string(), "queues/javascript%3Ax");
        assert_eq!(Url::link([]).with("a", 1).without("a").to_string(), "./");
    }
}
