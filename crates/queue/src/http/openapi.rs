//! What the document says of the queue beside its routes.

use utoipa::OpenApi;

use super::schema::Stage;

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
