//! The server's own routes, for the document that describes everything a client can reach.

use utoipa::PartialSchema as _;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, PathItem, PathsBuilder};
use utoipa::openapi::tag::Tag;
use utoipa::openapi::{ContentBuilder, InfoBuilder, License, OpenApi, OpenApiBuilder, Ref, Response, ResponseBuilder};

use super::health::Answer;

/// What the document is called.
pub fn head() -> OpenApi {
    let about = "Durable workflows, message queues and task graphs on PostgreSQL.";
    let info = InfoBuilder::new()
        .title("Reveille")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(about))
        .license(Some(License::new("Apache-2.0 OR MIT")));
    OpenApiBuilder::new().info(info).build()
}

/// What the server has beside the routes of its products.
pub fn document() -> OpenApi {
    let ready =
        || get("Whether the process can do its work", [(200, health("It can")), (503, health("It cannot, and why"))]);
    let live = get("Whether the process lives", [(200, health("It does"))]);
    let metrics = || get("Metrics, as Prometheus reads them", [(200, text("All of them"))]);
    let paths = PathsBuilder::new()
        .path("/health", ready())
        .path("/health/ready", ready())
        .path("/health/live", live)
        .path("/metrics", metrics())
        .path("/metrics/prometheus", metrics());
    let mut tag = Tag::new(TAG);
    tag.description = Some("The server itself".to_owned());
    OpenApiBuilder::new().paths(paths).tags(Some([tag])).build()
}

const TAG: &str = "server";

fn get<const N: usize>(summary: &str, answers: [(u16, Response); N]) -> PathItem {
    let operation = OperationBuilder::new().tag(TAG).summary(Some(summary));
    let operation = answers
        .into_iter()
        .fold(operation, |operation, (status, answer)| operation.response(status.to_string(), answer));
    let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("Failure"))).build();
    let about = "Another web page asks, or the name by which the server was called is not allowed";
    let refused = ResponseBuilder::new().description(about).content("application/json", body).build();
    let operation = operation.response("403", refused);
    PathItem::new(HttpMethod::Get, operation)
}

fn health(about: &str) -> Response {
    let body = ContentBuilder::new().schema(Some(Answer::schema())).build();
    ResponseBuilder::new().description(about).content("application/json", body).build()
}

fn text(about: &str) -> Response {
    let body = ContentBuilder::new().schema(Some(String::schema())).build();
    ResponseBuilder::new().description(about).content("text/plain", body).build()
}
