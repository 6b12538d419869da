//! The document that describes the routes, made from the routes.

use axum::http::header;
use axum::response::IntoResponse;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{ContentBuilder, HeaderBuilder, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{OpenApi, PartialSchema as _};

use super::form::Stage;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Reveille queue",
        description = "A message queue on PostgreSQL: partitions that keep their order, consumer groups, leases, and pops that wait.",
        license(name = "Apache-2.0 OR MIT")
    ),
    components(schemas(Stage)),
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

/// With what is the same for all routes: how a body is refused, and what happens while the server cannot answer.
pub(crate) fn completed(mut document: utoipa::openapi::OpenApi) -> utoipa::openapi::OpenApi {
    for item in document.paths.paths.values_mut() {
        [&mut item.get, &mut item.post, &mut item.delete].into_iter().flatten().for_each(complete);
    }
    document
}

fn complete(operation: &mut Operation) {
    let answers = &mut operation.responses.responses;
    let mut may = |status: &str, why: &str| {
        answers.entry(status.to_owned()).or_insert_with(|| RefOr::T(failure(why)));
    };
    if operation.request_body.is_some() {
        may("413", "The body is too large");
        may("415", "The body is not JSON");
    }
    may("503", "The server is starting, or the database is away; try again");
    if let Some(RefOr::T(later)) = answers.get_mut("503") {
        let seconds = HeaderBuilder::new().schema(Some(u32::schema())).description(Some("In how many seconds"));
        later.headers.insert(header::RETRY_AFTER.to_string(), RefOr::T(seconds.build()));
    }
}

fn failure(why: &str) -> Response {
    let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("Failure"))).build();
    ResponseBuilder::new().description(why).content("application/json", body).build()
}

/// The document as it is answered. It does not change while a process runs.
pub(crate) fn rendered(document: &utoipa::openapi::OpenApi) -> impl IntoResponse + Clone + use<> {
    let text = document.to_json().expect("a document is JSON");
    ([(header::CONTENT_TYPE, "application/json")], text)
}
