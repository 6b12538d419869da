//! The id of a request: what a client, a log line and a trace have in common.
//!
//! A client may send one in `x-request-id`, for example one that a proxy made. It is repeated in answers and log lines, so
//! its characters and its length are bounded; anything else is replaced rather than rejected, because the request
//! itself is not wrong.

use std::{
    fmt,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// The longest id that is accepted: two UUIDs and some words between them.
const LENGTH_MAX: usize = 128;

/// Distinguishes the processes of an installation.
static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
/// Distinguishes the requests of this process.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The id of a request, an extension of the request. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// The header, in requests and responses.
    pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

    /// The id that the client sent, if it is one, else a new one.
    pub fn of(headers: &HeaderMap) -> RequestId {
        let given = headers.get(Self::HEADER).and_then(|id| id.to_str().ok()).filter(|id| is_valid(id));
        given.map_or_else(Self::unique, |id| RequestId(id.into()))
    }

    fn unique() -> RequestId {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        RequestId(format!("{:016x}-{number:x}", *PROCESS).into())
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as the value of a header.
    pub fn to_header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.0).expect("its characters are printable")
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_valid(id: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(&byte);
    (1..=LENGTH_MAX).contains(&id.len()) && id.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: &[u8]) -> RequestId {
        let mut headers = HeaderMap::new();
        headers.insert(RequestId::HEADER, HeaderValue::from_bytes(id).expect("a header"));
        RequestId::of(&headers)
    }

    /// An id of plain characters is kept; one that could change a log line, or is too long, is replaced by a new one.
    #[test]
    fn an_id_is_kept_or_replaced() {
        let longest = "a".repeat(LENGTH_MAX);
        for kept in ["1", "0f8e-17", "Root=1-67891233-abcdef", "req_01H:2/3+4@eu.west", &longest] {
            assert_eq!(of(kept.as_bytes()).as_str(), kept);
        }
        let long = "a".repeat(LENGTH_MAX + 1);
        for replaced in ["", "a b", "a\tb", "{\"level\":\"error\"}", "<script>", "é", &long] {
            let id = of(replaced.as_bytes());
            assert!(is_valid(id.as_str()) && id.as_str() != replaced, "{id}");
        }
        let (one, other) = (RequestId::of(&HeaderMap::new()), RequestId::of(&HeaderMap::new()));
        assert_ne!(one, other);
        assert_eq!(one.to_header().to_str().expect("printable"), one.as_str());
    }
}
