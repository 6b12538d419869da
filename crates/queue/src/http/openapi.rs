//! The document that describes the routes, made from the routes.

use axum::http::header;
use axum::response::IntoResponse;
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Reveille queue",
        description = "A message queue on PostgreSQL: partitions that keep their order, consumer groups, leases, and pops that wait.",
        license(name = "Apache-2.0 OR MIT")
    ),
    tags(
        (name = "messages", description = "Pushing, popping and acking"),
        (name = "administration", description = "Queues, consumer groups, dead letters, maintenance")
    )
)]
struct Document;

/// Everything but the routes.
pub(crate) fn head() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// The document as it is answered. It does not change while a process runs.
pub(crate) fn rendered(document: &utoipa::openapi::OpenApi) -> impl IntoResponse + Clone + use<> {
    let text = document.to_json().expect("a document is JSON");
    ([(header::CONTENT_TYPE, "application/json")], text)
}
