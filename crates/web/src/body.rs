//! The body of a request: what it has to be, and what it costs.
//!
//! A body has to say that it is JSON. A web page can make a browser send any body to any address without asking, as long as it does
//! not say so ([what a browser sends by itself](https://fetch.spec.whatwg.org/#cors-safelisted-request-header)); and there are
//! binary forms of push, whose clients have to hear that they do not work here. Clients leave an empty body away altogether, with
//! its content type; so no body is an empty object.
//!
//! What a body takes in memory is charged before it is parsed (see `memory.rs`), until the [`Body`] is dropped. How deep it is
//! nested is checked before that ([`MAX_DEPTH`]).

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::Deserialize;

use crate::error::ApiError;
use crate::intake::{self, Compressed};
use crate::memory::{Charge, Memory};
use crate::plain::plain;
use crate::scan::{self, MAX_DEPTH};

/// How often the bytes of a body are in memory at the same time: as they arrived, in what was parsed, as it is written, and twice in
/// buffers on the way to the database that grow by doubling.
const COPIES: usize = 6;

/// Levels of a body that are parsed where the rest is kept as text: a transaction has operations, which have items, which have fields.
const RAW_LEVELS: usize = 5;
/// Bytes that parsing these levels may take: a list has at most [`ELEMENTS_MAX`](crate::List) elements.
const RAW_PARSED_MAX: usize = 16 << 20;

/// A request that waits for long keeps so much of its body uncharged: no more than a connection takes anyway.
const KEPT_UNCHARGED: usize = 4 * 1024;

/// The bytes of a body that is JSON, decompressed.
#[derive(Debug)]
pub struct Body {
    bytes: Vec<u8>,
    charge: Charge,
}

impl Body {
    /// What it says. Nothing at all is an empty object, and so is null.
    ///
    /// # Errors
    /// If it is not JSON, or not what was expected.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ApiError> {
        let text: &[u8] = if matches!(self.bytes.trim_ascii(), b"" | b"null") { b"{}" } else { &self.bytes };
        if text.trim_ascii_start().starts_with(b"[") {
            // A parser would take a list for the fields of an object in their order.
            return Err(ApiError::bad_request("the body cannot be read: it is a list, expected an object"));
        }
        let wrong = |error: serde_json::Error| format!("the body cannot be read: {}", plain(&error.to_string()));
        serde_json::from_slice(text).map_err(|error| ApiError::bad_request(wrong(error)))
    }

    /// Gives back the body, and its memory but for what was parsed of it: for a request that goes on to wait.
    pub fn into_charge(self) -> Charge {
        let Body { bytes, mut charge } = self;
        charge.shrink(bytes.len().saturating_sub(KEPT_UNCHARGED));
        charge
    }

    /// Does work with what was parsed, to its end: a client that leaves does not end it, because the work keeps its memory all the same, and
    /// the charge has to last as long as that.
    ///
    /// # Errors
    /// If the process ends meanwhile.
    pub async fn run_to_completion<T: Send + 'static>(
        self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<(T, Charge), ApiError> {
        let Body { bytes, charge } = self;
        drop(bytes);
        let carried = tokio::spawn(async move { (work.await, charge) });
        carried.await.map_err(|_| ApiError::unavailable("the server is stopping; use another connection"))
    }
}

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Body, ApiError> {
        read(request, usize::MAX, is_json, "application/json").await
    }
}

/// As [`Body`], of which only the outer levels are parsed: payloads are kept as text, and cost no more than that.
#[derive(Debug)]
pub struct RawBody(pub Body);

impl<S: Send + Sync> FromRequest<S> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<RawBody, ApiError> {
        read(request, RAW_LEVELS, is_json, "application/json").await.map(RawBody)
    }
}

/// A body that is a text for people, decompressed: YAML, or JSON.
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
            read(request, usize::MAX, is_written, "application/yaml or application/json").await?;
        let text =
            String::from_utf8(bytes).map_err(|_| ApiError::bad_request("the body cannot be read: it is not UTF-8"))?;
        Ok(Text { text, _charge: charge })
    }
}

/// Reads a body of which so many levels are parsed, checks it and charges it.
async fn read(
    request: Request,
    parsed_levels: usize,
    expected: fn(&str) -> bool,
    instead: &str,
) -> Result<Body, ApiError> {
    check(request.headers(), expected, instead)?;
    let (parts, body) = request.into_parts();
    let named = parts.headers.contains_key(header::CONTENT_TYPE);
    let unnamed = || (!named).then(|| unsupported(format!("the content-type is missing: send {instead}")));
    // Only a test calls a route without the layers around it.
    let memory = parts.extensions.get::<Memory>().cloned().unwrap_or_else(|| Memory::new(1 << 20));
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_yaml = !is_json(essence(&kind.to_ascii_lowercase()));
    let compressed = parts.extensions.get::<Compressed>().is_some();
    let (bytes, arrival) = intake::read(body, &memory, compressed, unnamed).await?;
    let Some(shape) = scan::shape(&bytes, parsed_levels) else {
        return Err(ApiError::bad_request(format!(
            "the body is nested too deeply: at most {MAX_DEPTH} levels are allowed"
        )));
    };
    let parsed = if parsed_levels == usize::MAX { shape.parsed_bytes } else { shape.parsed_bytes.min(RAW_PARSED_MAX) };
    let parsed = if is_yaml { parsed + scan::lines_bytes(&bytes) } else { parsed };
    let charge = memory.work(bytes.len() * COPIES + parsed).await?;
    drop(arrival);
    Ok(Body { bytes, charge })
}

/// Refuses what cannot be what is expected.
fn check(headers: &HeaderMap, expected: fn(&str) -> bool, instead: &str) -> Result<(), ApiError> {
    let value = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase());
    // What could be decompressed has lost this header on the way here.
    if let Some(encoding) = value(header::CONTENT_ENCODING).filter(|encoding| encoding != "identity") {
        return Err(unsupported(format!("content-encoding {encoding:?} is not known here: use gzip, zstd or none")));
    }
    match value(header::CONTENT_TYPE) {
        Some(kind) if !expected(essence(&kind)) => {
            Err(unsupported(format!("content-type {kind:?} is not known here: send {instead}")))
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

/// What programs call YAML. `text/plain` is not among it: a web page can send that to any address.
fn is_written(kind: &str) -> bool {
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

    fn status(refusal: ApiError) -> u16 {
        refusal.into_response().status().as_u16()
    }

    /// A body that says that it is JSON is read, and one that is not there; what says something else, or nothing, is not.
    #[tokio::test]
    async fn a_body_has_to_say_that_it_is_json() {
        #[derive(Deserialize)]
        struct Given {
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
            assert_eq!(body.json::<Given>().unwrap_or_else(|_| panic!("{text}")).a, a);
        }
        for kind in ["application/x-queen-push", "text/plain", "application/jsonish", "", "multipart/form-data"] {
            assert_eq!(read(Some(kind), None, "{}").await.err(), Some(415), "{kind}");
        }
        assert_eq!(read(None, None, "{}").await.err(), Some(415));
        assert_eq!(read(JSON, Some("br"), "{}").await.err(), Some(415));
        assert!(read(JSON, Some("identity"), "{}").await.is_ok());
        let list = read(JSON, None, " [1]").await.unwrap_or_else(|status| panic!("{status}"));
        assert!(list.json::<Given>().is_err(), "a list is no object");
        let broken = read(JSON, None, "{").await.unwrap_or_else(|status| panic!("{status}"));
        assert!(broken.json::<Given>().is_err());
    }

    /// A text for people may be YAML or JSON and has to say so: a web page can send plain text.
    #[tokio::test]
    async fn a_text_has_to_say_that_it_is_yaml_or_json() {
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

    /// A body that is nested too deeply is refused with the limit, also where its payloads are kept as text.
    #[tokio::test]
    async fn a_body_nested_too_deeply_is_refused() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        for (levels, expected) in [(MAX_DEPTH, 200), (MAX_DEPTH + 1, 400), (100_000, 400)] {
            let request = || {
                let request = Request::builder().header(header::CONTENT_TYPE, "application/json");
                request.body(nested(levels).into()).expect("a request")
            };
            let refused = |refusal: ApiError| {
                assert!(refusal.message().contains("at most 100 levels"), "{refusal:?}");
                status(refusal)
            };
            assert_eq!(Body::from_request(request(), &()).await.map_or_else(refused, |_| 200), expected);
            assert_eq!(RawBody::from_request(request(), &()).await.map_or_else(refused, |_| 200), expected);
            assert_eq!(Text::from_request(request(), &()).await.map_or_else(refused, |_| 200), expected);
        }
    }
}
