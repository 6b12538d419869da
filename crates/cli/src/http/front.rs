//! `GET /`, and the documents under `/docs`.
//!
//! A browser is led to the console; a program gets a short JSON with links. While the server is starting, both get 503
//! with the reason, and the page of a browser loads itself again until there is a console to be led to. Neither runs a
//! check nor a statement.
//!
//! The documents are those of this build, as they are in the repository, so that a server without a network has them.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{health::Health, reply};

pub use reveille_console::MOUNT as CONSOLE;

/// How long a browser or a program waits before it asks a starting server again, in seconds.
const AGAIN_AFTER: &str = "1";

/// The documents, by the name of their file.
pub(super) const DOCUMENTS: &[(&str, &str)] = &[
    ("benchmarks.md", include_str!("../../../../docs/benchmarks.md")),
    ("command-line.md", include_str!("../../../../docs/command-line.md")),
    ("concepts.md", include_str!("../../../../docs/concepts.md")),
    ("configuration.md", include_str!("../../../../docs/configuration.md")),
    ("console.md", include_str!("../../../../docs/console.md")),
    ("durable.md", include_str!("../../../../docs/durable.md")),
    ("flow.md", include_str!("../../../../docs/flow.md")),
    ("from-duroxide-pg.md", include_str!("../../../../docs/from-duroxide-pg.md")),
    ("growth.md", include_str!("../../../../docs/growth.md")),
    ("http-api.md", include_str!("../../../../docs/http-api.md")),
    ("metrics.md", include_str!("../../../../docs/metrics.md")),
    ("operating.md", include_str!("../../../../docs/operating.md")),
    ("queue.md", include_str!("../../../../docs/queue.md")),
    ("runbook.md", include_str!("../../../../docs/runbook.md")),
    ("security.md", include_str!("../../../../docs/security.md")),
    ("wake.md", include_str!("../../../../docs/wake.md")),
];

/// The answer of `GET /` to a program.
#[derive(Serialize, ToSchema)]
pub(super) struct Front {
    /// Always `reveille`.
    name: &'static str,
    version: &'static str,
    /// `starting`, `running` or `stopping`; `/health` says whether it is ready.
    status: &'static str,
    /// What a start is waiting for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    reason: Option<String>,
    #[schema(inline)]
    links: Links,
}

/// Paths of this server.
#[derive(Serialize, ToSchema)]
struct Links {
    console: &'static str,
    openapi: &'static str,
    health: &'static str,
    metrics: &'static str,
    docs: &'static str,
}

const LINKS: Links =
    Links { console: CONSOLE, openapi: "/openapi.json", health: "/health", metrics: "/metrics", docs: "/docs" };

/// The routes of this module.
pub(super) fn routes(health: &Arc<Health>) -> Router {
    let front = Router::new().route("/", get(front)).with_state(Arc::clone(health));
    front.route("/docs", get(list)).route("/docs/{document}", get(document))
}

/// `GET /`.
async fn front(State(health): State<Arc<Health>>, headers: HeaderMap) -> Response {
    let (status, reason) = health.phase();
    let starting = status == "starting";
    let mut response = match (wants_html(&headers), starting) {
        (true, true) => return starting_page(&reason.unwrap_or_default()),
        // Relative, so that it stays below the path under which a proxy serves this server.
        (true, false) => (StatusCode::FOUND, [(header::LOCATION, CONSOLE.trim_start_matches('/'))]).into_response(),
        (false, starting) => {
            let code = if starting { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
            let version = env!("CARGO_PKG_VERSION");
            (code, Json(Front { name: "reveille", version, status, reason, links: LINKS })).into_response()
        }
    };
    if starting {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(AGAIN_AFTER));
    }
    // One address, two answers, and both change with the state of the process.
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// What a browser shows while the server is starting: the reason. It loads itself again.
pub(super) fn starting_page(reason: &str) -> Response {
    let reason = reason.replace('&', "&amp;").replace('<', "&lt;");
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"refresh\" content=\"{AGAIN_AFTER}\">\n<title>Reveille is starting</title>\n\
         <h1>Reveille is starting</h1>\n<p>{reason}. This page loads itself again until the console is there.</p>\n"
    );
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'"),
        (header::RETRY_AFTER, AGAIN_AFTER),
        (header::CACHE_CONTROL, "no-store"),
        (header::VARY, "accept"),
    ];
    (StatusCode::SERVICE_UNAVAILABLE, headers, page).into_response()
}

/// Whether a client prefers HTML: it names `text/html`, and does not prefer JSON. Programs send `*/*` or nothing.
pub(super) fn wants_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges: Vec<&str> = accepted.flat_map(|value| value.split(',')).collect();
    let weight = |wanted: &str| ranges.iter().find_map(|range| weight_of(range, wanted)).unwrap_or(0.0);
    let html = weight("text/html");
    html > 0.0 && html >= weight("application/json")
}

/// The weight of one media range, if it names exactly this type.
fn weight_of(range: &str, wanted: &str) -> Option<f32> {
    let mut parts = range.split(';').map(str::trim);
    parts.next().filter(|name| name.eq_ignore_ascii_case(wanted))?;
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    Some(weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0)))
}

/// `GET /docs`: the paths of the documents, one per line.
async fn list() -> Response {
    let paths: Vec<String> = DOCUMENTS.iter().map(|(name, _)| format!("/docs/{name}\n")).collect();
    plain(paths.concat())
}

/// `GET /docs/{document}`. Plain text, because browsers offer Markdown for download.
async fn document(Path(wanted): Path<String>) -> Response {
    match DOCUMENTS.iter().find(|(name, _)| *name == wanted) {
        Some((_, text)) => plain(*text),
        None => reply::error(StatusCode::NOT_FOUND, "there is no such document: see /docs"),
    }
}

fn plain(text: impl IntoResponse) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A browser names HTML; programs do not, or prefer JSON.
    #[test]
    fn only_browsers_want_html() {
        for (accept, html) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8", true),
            ("text/html", true),
            ("application/json;q=0.9, Text/HTML", true),
            ("text/html;q=0.5, application/json", false),
            ("text/html;q=0, */*", false),
            ("text/html;q=nonsense", false),
            ("*/*", false),
            ("application/json", false),
            ("text/htmlx", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_str(accept).expect("plain text"))]);
            assert_eq!(wants_html(&headers), html, "{accept:?}");
        }
        assert!(!wants_html(&HeaderMap::new()));
    }

    /// Every document for users is served: the list is that of the folder.
    #[test]
    fn every_document_is_served() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let files = std::fs::read_dir(folder).expect("the documents").map(|entry| entry.expect("an entry").file_name());
        let names = files.map(|name| name.to_string_lossy().into_owned());
        let mut there: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
        there.sort();
        assert_eq!(DOCUMENTS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), there);
    }
}
