//! The responses that every route shares.

use axum::http::header;
use utoipa::PartialSchema as _;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{ContentBuilder, HeaderBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};

/// Adds the responses that all routes share: rejected bodies, and a server that is not ready.
pub fn complete(mut document: OpenApi) -> OpenApi {
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        operations.into_iter().flatten().for_each(operation);
    }
    document
}

fn operation(operation: &mut Operation) {
    let responses = &mut operation.responses.responses;
    let mut add = |status: &str, why: &str| {
        responses.entry(status.to_owned()).or_insert_with(|| RefOr::T(failure(why)));
    };
    add("401", "Credentials are missing or not valid");
    add(
        "403",
        "The client lacks the role; or a cross-origin request from a web page, or the Host header is not allowed",
    );
    if operation.request_body.is_some() {
        add("408", "The body did not arrive in time");
        add("413", "The body is too large, or would take too much memory");
        add("415", "The content type is missing or not supported");
    }
    add("503", "The server is starting, overloaded or stopping, or the database is not reachable; retry");
    if let Some(RefOr::T(unavailable)) = responses.get_mut("503") {
        let seconds = HeaderBuilder::new().schema(Some(u32::schema())).description(Some("Retry after so many seconds"));
        unavailable.headers.insert(header::RETRY_AFTER.to_string(), RefOr::T(seconds.build()));
    }
}

/// A response with an error body.
pub(crate) fn failure(why: &str) -> Response {
    let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("Failure"))).build();
    ResponseBuilder::new().description(why).content("application/json", body).build()
}
