//! The body of a request: its content type, its size, its memory.
//!
//! A body needs the content type JSON. A web page can make a browser send a body of some other content types to any
//! address without a preflight ([safelisted](https://fetch.spec.whatwg.org/#cors-safelisted-request-header)); and the
//! binary push formats of other servers are rejected with a clear error. Clients omit an empty body together with its
//! content type, so a missing body counts as an empty object.
//!
//! The memory of a body is charged before it is parsed (see `memory.rs`), until the [`Body`] is dropped. The nesting
//! depth is checked before that ([`MAX_DEPTH`]).

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use tracing::Instrument as _;

use super::error::{ApiError, STOPPING};
use super::intake::{self, Compressed};
use super::memory::{Charge, Memory};
use crate::plain::plain;
use crate::scan::{self, MAX_DEPTH};

/// How many copies of a body are in memory at the same time: as received, as parsed, as written, and in buffers on the
/// way to the database that grow by doubling.
const COPIES: usize = 6;

/// Levels of a [`RawBody`] that are parsed: a transaction has operations, which have items, which have fields.
const RAW_LEVELS: usize = 5;
/// Bytes that parsing these levels may take: every [`List`](crate::List) is bounded.
const RAW_PARSED_MAX: usize = 16 << 20;

/// Bytes of a body that a long-waiting request may keep without charge: a connection takes as much anyway.
const KEPT_UNCHARGED: usize = 4 * 1024;

/// A JSON body, decompressed.
#[derive(Debug)]
pub struct Body {
    bytes: Vec<u8>,
    charge: Charge,
}

impl Body {
    /// Parses the body. An empty body and `null` count as an empty object.
    ///
    /// # Errors
    /// If it is not JSON, or not a `T`.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ApiError> {
        let text: &[u8] = if matches!(self.bytes.trim_ascii(), b"" | b"null") { b"{}" } else { &self.bytes };
        if text.trim_ascii_start().starts_with(b"[") {
            // Serde would accept a list as the fields of a struct in their order.
            return Err(ApiError::bad_request("invalid body: expected an object, got a list"));
        }
        let message = |error: serde_json::Error| format!("invalid body: {}", plain(&error.to_string()));
        serde_json::from_slice(text).map_err(|error| ApiError::bad_request(message(error)))
    }

    /// Drops the bytes and keeps only the charge of the parsed value: for a request that waits for long.
    pub fn into_charge(self) -> Charge {
        let Body { bytes, mut charge } = self;
        charge.shrink(bytes.len().saturating_sub(KEPT_UNCHARGED));
        charge
    }

    /// Runs `work` on the parsed value to its end, even if the client disconnects: the work keeps its memory anyway,
    /// and the charge has to last as long.
    ///
    /// # Errors
    /// If the process stops meanwhile.
    pub async fn run_to_completion<T: Send + 'static>(
        self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<(T, Charge), ApiError> {
        let Body { bytes, charge } = self;
        drop(bytes);
        let task = tokio::spawn(async move { (work.await, charge) }.in_current_span());
        task.await.map_err(|_| ApiError::unavailable(STOPPING))
    }
}

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Body, ApiError> {
        read(request, usize::MAX, is_json, "application/json").await
    }
}

/// As [`Body`], but only the outer levels are parsed: payloads stay text and cost no more than that.
#[derive(Debug)]
pub struct RawBody(pub Body);

impl<S: Send + Sync> FromRequest<S> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<RawBody, ApiError> {
        read(request, RAW_LEVELS, is_json, "application/json").await.map(RawBody)
    }
}

/// A YAML or JSON body as text, decompressed.
#[derive(Debug)]
pub struct Text {
    /// The text.
    pub text: String,
    _charge: Charge,
}

impl<S: Send + Sync> FromRequest<S> for Text {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Text, ApiError> {
        let Body { bytes, charge } =
            read(request, usize::MAX, is_yaml_or_json, "application/yaml or application/json").await?;
        let text = String::from_utf8(bytes).map_err(|_| ApiError::bad_request("invalid body: it is not UTF-8"))?;
        Ok(Text { text, _charge: charge })
    }
}

/// Reads a body of which `parsed_levels` will be parsed, checks it and charges it. `accepts` decides on the content
/// type; `expected` names the accepted ones.
async fn read(
    request: Request,
    parsed_levels: usize,
    accepts: fn(&str) -> bool,
    expected: &str,
) -> Result<Body, ApiError> {
    check(request.headers(), accepts, expected)?;
    let (parts, body) = request.into_parts();
    let has_type = parts.headers.contains_key(header::CONTENT_TYPE);
    let untyped = || (!has_type).then(|| unsupported(format!("missing content-type: must be {expected}")));
    // Only tests call a route without the layers around it.
    let memory = parts.extensions.get::<Memory>().cloned().unwrap_or_else(|| Memory::new(1 << 20));
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_yaml = !is_json(essence(&kind.to_ascii_lowercase()));
    let compressed = parts.extensions.get::<Compressed>().is_some();
    let (bytes, transfer) = intake::read(body, &memory, compressed, untyped).await?;
    let Some(shape) = scan::shape(&bytes, parsed_levels) else {
        return Err(ApiError::bad_request(format!(
            "invalid body: nested too deeply, at most {MAX_DEPTH} levels are allowed"
        )));
    };
    let parsed = if parsed_levels == usize::MAX { shape.parsed_bytes } else { shape.parsed_bytes.min(RAW_PARSED_MAX) };
    let parsed = if is_yaml { parsed + scan::lines_bytes(&bytes) } else { parsed };
    let charge = memory.work(bytes.len() * COPIES + parsed).await?;
    drop(transfer);
    Ok(Body { bytes, charge })
}

/// Rejects an unsupported encoding or content type.
fn check(headers: &HeaderMap, accepts: fn(&str) -> bool, expected: &str) -> Result<(), ApiError> {
    let value = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase());
    // The decompression layer has removed the header if it knows the encoding.
    if let Some(encoding) = value(header::CONTENT_ENCODING).filter(|encoding| encoding != "identity") {
        return Err(unsupported(format!("unsupported content-encoding {encoding:?}: must be gzip, zstd or none")));
    }
    match value(header::CONTENT_TYPE) {
        Some(kind) if !accepts(essence(&kind)) => {
            Err(unsupported(format!("unsupported content-type {kind:?}: must be {expected}")))
        }
        _ => Ok(()),
    }
}

fn unsupported(message: String) -> ApiError {
    ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message)
}

fn essence(kind: &str) -> &str {
    kind.split(';').next().unwrap_or_default().trim()
}

fn is_json(kind: &str) -> bool {
    kind == "application/json" || kind.starts_with("application/") && kind.ends_with("+json")
}

/// The names in use for YAML. Not `text/plain`: a web page can send that to any address without a preflight.
fn is_yaml_or_json(kind: &str) -> bool {
    let yaml = ["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"];
    is_json(kind) || yaml.contains(&kind) || kind.starts_with("application/") && kind.ends_with("+yaml")
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;

    use super::*;

    const JSON: Option<&str> = Some("application/json");

    async fn read(kind: Option<&str>, encoding: Option<&str>, text: &'static str) -> Result<Body, u16> {
        let mut request = Request::builder();
        for (name, value) in [(header::CONTENT_TYPE, kind), (header::CONTENT_ENCODING, encoding)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let request = request.body(text.into()).expect("a request");
        Body::from_request(request, &()).await.map_err(status)
    }

    fn status(error: ApiError) -> u16 {
        error.into_response().status().as_u16()
    }

    /// A body with the content type JSON and a missing body are accepted; another or no content type is rejected.
    #[tokio::test]
    async fn a_body_needs_the_content_type_json() {
        #[derive(Deserialize)]
        struct Parsed {
            a: Option<i32>,
        }
        for (kind, text, a) in [
            (None, "", None),
            (Some("application/json"), " \n", None),
            (Some("application/json"), "null", None),
            (Some("application/json"), r#"{"a":1}"#, Some(1)),
            (Some("Application/JSON; charset=utf-8"), r#"{"a":1}"#, Some(1)),
            (Some("application/problem+json"), "{}", None),
        ] {
            let body = read(kind, None, text).await.unwrap_or_else(|status| panic!("{kind:?}: {status}"));
            assert_eq!(body.json::<Parsed>().unwrap_or_else(|_| panic!("{text}")).a, a);
        }
        for kind in ["application/x-queen-push", "text/plain", "application/jsonish", "", "multipart/form-data"] {
            assert_eq!(read(Some(kind), None, "{}").await.err(), Some(415), "{kind}");
        }
        assert_eq!(read(None, None, "{}").await.err(), Some(415));
        assert_eq!(read(JSON, Some("br"), "{}").await.err(), Some(415));
        assert!(read(JSON, Some("identity"), "{}").await.is_ok());
        let list = read(JSON, None, " [1]").await.unwrap_or_else(|status| panic!("{status}"));
        assert!(list.json::<Parsed>().is_err(), "a list is no object");
        let broken = read(JSON, None, "{").await.unwrap_or_else(|status| panic!("{status}"));
        assert!(broken.json::<Parsed>().is_err());
    }

    /// A text body needs the content type YAML or JSON; plain text is rejected, because a web page can send it.
    #[tokio::test]
    async fn a_text_needs_the_content_type_yaml_or_json() {
        for (kind, expected) in [
            ("application/yaml", 200),
            ("text/x-yaml; charset=utf-8", 200),
            ("application/json", 200),
            ("text/plain", 415),
            ("application/x-www-form-urlencoded", 415),
        ] {
            let request = Request::builder().header(header::CONTENT_TYPE, kind).body("a: 1".into()).expect("a request");
            let read = Text::from_request(request, &()).await;
            assert_eq!(read.map_or_else(status, |_| 200), expected, "{kind}");
        }
    }

    /// A body that is nested too deeply is rejected with the limit, even if its payloads are kept as text.
    #[tokio::test]
    async fn a_body_nested_too_deeply_is_rejected() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        for (levels, expected) in [(MAX_DEPTH, 200), (MAX_DEPTH + 1, 400), (100_000, 400)] {
            let request = || {
                let request = Request::builder().header(header::CONTENT_TYPE, "application/json");
                request.body(nested(levels).into()).expect("a request")
            };
            let rejected = |error: ApiError| {
                assert!(error.message().contains("at most 100 levels"), "{error:?}");
                status(error)
            };
            assert_eq!(Body::from_request(request(), &()).await.map_or_else(rejected, |_| 200), expected);
            assert_eq!(RawBody::from_request(request(), &()).await.map_or_else(rejected, |_| 200), expected);
            assert_eq!(Text::from_request(request(), &()).await.map_or_else(rejected, |_| 200), expected);
        }
    }
}
