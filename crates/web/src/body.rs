//! The body of a request, read as JSON however it was announced.
//!
//! Clients leave an empty body away altogether, with its content type; so no body is an empty object. A body that says that it is something else than JSON is refused before it
//! is read: there are binary forms of push, and a client that tries one has to hear that it does not work here.

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::Deserialize;

use crate::plain::plain;
use crate::refusal::Refusal;

/// The bytes of a body that is JSON, decompressed.
#[derive(Debug)]
pub struct Body(Bytes);

impl Body {
    /// What it says. Nothing at all is an empty object, and so is null.
    ///
    /// # Errors
    /// If it is not JSON, or not what was expected.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Refusal> {
        let text: &[u8] = if matches!(self.0.trim_ascii(), b"" | b"null") { b"{}" } else { &self.0 };
        if text.trim_ascii_start().starts_with(b"[") {
            // A parser would take a list for the fields of an object in their order.
            return Err(Refusal::bad("the body cannot be read: it is a list, expected an object"));
        }
        let wrong = |error: serde_json::Error| format!("the body cannot be read: {}", plain(&error.to_string()));
        serde_json::from_slice(text).map_err(|error| Refusal::bad(wrong(error)))
    }
}

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Body, Refusal> {
        check(request.headers(), is_json, "send application/json")?;
        whole(request, state).await.map(Body)
    }
}

/// A body that is a text for people, decompressed: YAML, or JSON.
#[derive(Debug)]
pub struct Text(pub String);

impl<S: Send + Sync> FromRequest<S> for Text {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Text, Refusal> {
        check(request.headers(), is_written, "send application/yaml or application/json")?;
        let bytes = whole(request, state).await?;
        String::from_utf8(bytes.into()).map(Text).map_err(|_| Refusal::bad("the body cannot be read: it is not UTF-8"))
    }
}

async fn whole<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Refusal> {
    Bytes::from_request(request, state).await.map_err(|rejection| match rejection {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => {
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than this server takes")
        }
        rejection => Refusal::bad(format!("the body did not arrive whole: {}", rejection.body_text())),
    })
}

/// Refuses what cannot be what is expected.
fn check(headers: &HeaderMap, expected: fn(&str) -> bool, instead: &str) -> Result<(), Refusal> {
    let unsupported = |message: String| Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    let value = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase());
    // What could be decompressed has lost this header on the way here.
    if let Some(encoding) = value(header::CONTENT_ENCODING).filter(|encoding| encoding != "identity") {
        return unsupported(format!("content-encoding {encoding:?} is not known here: use gzip, zstd or none"));
    }
    match value(header::CONTENT_TYPE) {
        Some(kind) if !expected(essence(&kind)) => {
            unsupported(format!("content-type {kind:?} is not known here: {instead}"))
        }
        _ => Ok(()),
    }
}

fn essence(kind: &str) -> &str {
    kind.split(';').next().unwrap_or_default().trim()
}

fn is_json(kind: &str) -> bool {
    kind == "application/json" || kind.starts_with("application/") && kind.ends_with("+json")
}

/// What people's programs call YAML, and what those that do not know it call everything.
fn is_written(kind: &str) -> bool {
    let yaml = ["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/plain"];
    is_json(kind) || yaml.contains(&kind) || kind.starts_with("application/") && kind.ends_with("+yaml")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(kind: Option<&str>, encoding: Option<&str>, text: &'static str) -> Result<Body, u16> {
        let mut request = Request::builder();
        for (name, value) in [(header::CONTENT_TYPE, kind), (header::CONTENT_ENCODING, encoding)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let request = request.body(text.into()).expect("a request");
        use axum::response::IntoResponse as _;
        Body::from_request(request, &()).await.map_err(|refusal| refusal.into_response().status().as_u16())
    }

    /// Nothing, white space and an object without a content type are read; what is announced as something else is not.
    #[tokio::test]
    async fn a_body_is_json_unless_it_says_otherwise() {
        #[derive(Deserialize)]
        struct Given {
            a: Option<i32>,
        }
        for (kind, text, a) in [
            (None, "", None),
            (None, " \n", None),
            (None, "null", None),
            (None, r#"{"a":1}"#, Some(1)),
            (Some("application/json"), r#"{"a":1}"#, Some(1)),
            (Some("Application/JSON; charset=utf-8"), r#"{"a":1}"#, Some(1)),
            (Some("application/problem+json"), "{}", None),
        ] {
            let body = read(kind, None, text).await.unwrap_or_else(|status| panic!("{kind:?}: {status}"));
            assert_eq!(body.json::<Given>().unwrap_or_else(|_| panic!("{text}")).a, a);
        }
        for kind in ["application/x-queen-push", "text/plain", "application/jsonish"] {
            assert_eq!(read(Some(kind), None, "{}").await.err(), Some(415), "{kind}");
        }
        assert_eq!(read(None, Some("br"), "{}").await.err(), Some(415));
        assert!(read(None, Some("identity"), "{}").await.is_ok());
        let list = read(None, None, " [1]").await.unwrap_or_else(|status| panic!("{status}"));
        assert!(list.json::<Given>().is_err(), "a list is no object");
        let broken = read(None, None, "{").await.unwrap_or_else(|status| panic!("{status}"));
        assert!(broken.json::<Given>().is_err());
    }
}
