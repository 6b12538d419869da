//! The OpenAPI document of durable, without its routes.

use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Reveille durable",
        description = "Durable orchestrations on PostgreSQL: instances, histories, events.",
        license(name = "Apache-2.0 OR MIT")
    ),
    tags((name = "durable", description = "Orchestrations and their instances"))
)]
struct Document;

/// Everything but the routes.
pub(super) fn head() -> utoipa::openapi::OpenApi {
    Document::openapi()
}
