//! Hides payloads from clients that may not see them.
//!
//! Payloads are in many responses: data of messages, contexts, inputs and results of tasks, histories. One layer
//! replaces them in all of them, by the names of their fields, so that no route can forget it. Routes of workers are
//! exempt, because a worker has to see the work that it claims.

use axum::body::{Body, to_bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Response as HttpResponse, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;

use super::grant::Role;
use super::need::{Need, Needs};
use super::principal::Principal;
use crate::http::{ApiError, proceed};

/// The fields that contain payloads. Values of other fields with these names are hidden, too.
const FIELDS: [&str; 13] = [
    "checkpoint",
    "context",
    "customStatus",
    "custom_status",
    "data",
    "details",
    "input",
    "kv",
    "last_error",
    "output",
    "payload",
    "result",
    "snapshot",
];
/// The largest response from which payloads are removed; no page is larger.
const RESPONSE_MAX: usize = 64 << 20;
/// Says that payloads were replaced by null.
const MARK: HeaderName = HeaderName::from_static("reveille-payloads");

/// A middleware: replaces the payloads in a response by null, if the principal of the request may not see them.
pub(crate) async fn hide(State(needs): State<Needs>, request: Request, next: Next) -> Response {
    let sees = request.extensions().get::<Principal>().is_none_or(Principal::sees_payloads);
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let need = route.and_then(|route| needs.of(request.method(), &route));
    let exempt = sees || matches!(need, Some(Need::Open | Need::Known | Need::Role(Role::Worker | Role::Producer, _)));
    let response = proceed(next, request).await;
    if exempt || response.status().is_client_error() || response.status().is_server_error() {
        return response;
    }
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    match kind.split(';').next().unwrap_or_default() {
        "application/json" => without_payloads(response).await,
        "text/event-stream" => {
            let message = "this needs the right to see payloads: a stream of events contains them";
            ApiError::new(StatusCode::FORBIDDEN, message).into_response()
        }
        _ => response,
    }
}

async fn without_payloads(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let read = async { serde_json::from_slice::<Value>(&to_bytes(body, RESPONSE_MAX).await.ok()?).ok() };
    let Some(mut value) = read.await else {
        let message = "this needs the right to see payloads: the response is too large to remove them";
        return ApiError::new(StatusCode::FORBIDDEN, message).into_response();
    };
    remove(&mut value);
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(MARK, HeaderValue::from_static("hidden"));
    HttpResponse::from_parts(parts, Body::from(value.to_string()))
}

/// Replaces payloads by null.
fn remove(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(remove),
        Value::Object(fields) => {
            for (name, value) in fields {
                if FIELDS.contains(&name.as_str()) { *value = Value::Null } else { remove(value) }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Payloads are replaced by null at any depth; everything else stays.
    #[test]
    fn payloads_are_replaced() {
        let mut value = json!({
            "messages": [{"id": "a", "data": {"card": 1}, "queue": "q"}],
            "task": {"context": [1], "steps": [{"name": "s", "result": {"x": 1}, "state": "complete"}]},
        });
        remove(&mut value);
        let expected = json!({
            "messages": [{"id": "a", "data": null, "queue": "q"}],
            "task": {"context": null, "steps": [{"name": "s", "result": null, "state": "complete"}]},
        });
        assert_eq!(value, expected);
    }
}
