//! The OpenAPI document of the server's own routes.

use utoipa::PartialSchema as _;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn, PathItem, PathsBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::tag::Tag;
use utoipa::openapi::{
    ContentBuilder, InfoBuilder, License, OpenApi, OpenApiBuilder, Ref, RefOr, Required, Response, ResponseBuilder,
};

use super::front::{DOCUMENTS, Front};
use super::health::HealthBody;

/// Title, version and license of the document.
pub fn head() -> OpenApi {
    let about = "Durable workflows, message queues and task graphs on PostgreSQL.";
    let info = InfoBuilder::new()
        .title("Reveille")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(about))
        .license(Some(License::new("Apache-2.0 OR MIT")));
    OpenApiBuilder::new().info(info).build()
}

/// The server's own routes.
pub fn document() -> OpenApi {
    let ready = || {
        get("Whether the process is ready for work", [(200, health("Ready")), (503, health("Not ready, with reasons"))])
    };
    let live = get("Whether the process is alive", [(200, health("Alive"))]);
    let metrics = || get("Metrics in the Prometheus text format", [(200, text("All metrics"))]);
    let paths = PathsBuilder::new()
        .path("/", front())
        .path("/docs", get("The paths of the documents, one per line", [(200, text("The list"))]))
        .path("/docs/{document}", page())
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
    let about = "Cross-origin request from a web page, or the Host header is not allowed";
    let forbidden = ResponseBuilder::new().description(about).content("application/json", body).build();
    let operation = operation.response("403", forbidden);
    PathItem::new(HttpMethod::Get, operation)
}

fn health(about: &str) -> Response {
    json(about, HealthBody::schema())
}

fn front() -> PathItem {
    let about = "What this server is and where to go from here; a client that prefers HTML is led to the console";
    let to_console = ResponseBuilder::new().description("To the console, for a client that prefers HTML").build();
    get(
        about,
        [
            (200, json("Links", Front::schema())),
            (302, to_console),
            (503, json("The server is starting", Front::schema())),
        ],
    )
}

fn page() -> PathItem {
    let names =
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(DOCUMENTS.iter().map(|(name, _)| *name)));
    let name = ParameterBuilder::new()
        .name("document")
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(names))
        .build();
    let missing = json("There is no such document", Ref::from_schema_name("Failure"));
    let mut item = get("A document, as Markdown", [(200, text("The document")), (404, missing)]);
    if let Some(operation) = &mut item.get {
        operation.parameters = Some(vec![RefOr::T(name)]);
    }
    item
}

fn json(about: &str, schema: impl Into<RefOr<Schema>>) -> Response {
    let body = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new().description(about).content("application/json", body).build()
}

fn text(about: &str) -> Response {
    let body = ContentBuilder::new().schema(Some(String::schema())).build();
    ResponseBuilder::new().description(about).content("text/plain", body).build()
}
