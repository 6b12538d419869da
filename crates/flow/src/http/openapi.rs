//! The OpenAPI document of flow, without its routes.

use utoipa::OpenApi;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Reveille flow",
        description = "Task graphs on PostgreSQL: ready steps are claimed within milliseconds, by workers in any language.",
        license(name = "Apache-2.0 OR MIT")
    ),
    tags(
        (name = "templates", description = "Definitions of tasks and their steps"),
        (name = "tasks", description = "Runs of templates, and their steps"),
        (name = "schedules", description = "Tasks submitted by cron or at a given time"),
        (name = "analytics", description = "Durations and failures of tasks and steps"),
        (name = "dead letters", description = "Tasks and steps that need an operator"),
        (name = "namespaces", description = "How the steps of a namespace are claimed and delivered"),
        (name = "limits", description = "How many steps may be in progress at once"),
        (name = "workers", description = "Claiming steps and reporting on them")
    )
)]
struct Document;

/// Everything but the routes.
pub(crate) fn head() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// Schemas that are request bodies, and parts of larger responses.
const WIDENED: [&str; 2] = ["Schedule", "NamespaceSettings"];

/// Request bodies reject unknown fields. The responses that embed the same schemas have more fields, so these schemas
/// must not forbid them.
pub(crate) fn widen(document: &mut utoipa::openapi::OpenApi) {
    let Some(components) = &mut document.components else { return };
    for name in WIDENED {
        if let Some(RefOr::T(Schema::Object(schema))) = components.schemas.get_mut(name) {
            schema.additional_properties = None;
        }
    }
}
