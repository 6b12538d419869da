//! What the document says of every route alike.

use axum::http::header;
use utoipa::PartialSchema as _;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{ContentBuilder, HeaderBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};

/// The document with what is the same for all routes: how a body is refused, and what happens while the server cannot answer.
pub fn complete(mut document: OpenApi) -> OpenApi {
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        operations.into_iter().flatten().for_each(operation);
    }
    document
}

fn operation(operation: &mut Operation) {
    let answers = &mut operation.responses.responses;
    let mut may = |status: &str, why: &str| {
        answers.entry(status.to_owned()).or_insert_with(|| RefOr::T(failure(why)));
    };
    may("403", "Another web page sends it, or the name by which the server was called is not allowed");
    if operation.request_body.is_some() {
        may("408", "The body did not arrive in time");
        may("413", "The body is too large, or would take too much memory");
        may("415", "The body does not say that it is JSON");
    }
    may("503", "The server is starting, or the database is away; try again");
    if let Some(RefOr::T(later)) = answers.get_mut("503") {
        let seconds = HeaderBuilder::new().schema(Some(u32::schema())).description(Some("In how many seconds"));
        later.headers.insert(header::RETRY_AFTER.to_string(), RefOr::T(seconds.build()));
    }
}

pub(crate) fn failure(why: &str) -> Response {
    let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("Failure"))).build();
    ResponseBuilder::new().description(why).content("application/json", body).build()
}
