//! The head of the OpenAPI document: everything except the routes.

use utoipa::OpenApi;

use super::schema::MessageStatus;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Reveille queue",
        description = "A message queue on PostgreSQL: ordered partitions, consumer groups, leases, and waiting pops.",
        license(name = "Apache-2.0 OR MIT")
    ),
    components(schemas(MessageStatus)),
    tags(
        (name = "messages", description = "Pushing, popping and acking"),
        (name = "administration", description = "Queues, consumer groups, dead letters, maintenance"),
        (name = "queues", description = "Queues, messages and dead letters, in pages without counts; pauses")
    )
)]
struct Document;

/// The document without routes.
pub(crate) fn head() -> utoipa::openapi::OpenApi {
    Document::openapi()
}
