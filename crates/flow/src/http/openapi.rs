//! What the document says of flow beside its routes.

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
        (name = "templates", description = "What tasks of a kind consist of"),
        (name = "tasks", description = "Task graphs that run"),
        (name = "schedules", description = "Tasks that are submitted when their time comes"),
        (name = "analytics", description = "How tasks went, and where they spent their time"),
        (name = "dead letters", description = "What somebody has to look into"),
        (name = "limits", description = "How many steps may be under way at once"),
        (name = "workers", description = "Claiming steps, and saying what became of them")
    )
)]
struct Document;

/// Everything but the routes.
pub(crate) fn head() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// What is asked for has no other fields than those that are described, and what is answered has: a schedule is both.
pub(crate) fn open_schedules(document: &mut utoipa::openapi::OpenApi) {
    let schemas = document.components.iter_mut().flat_map(|components| components.schemas.get_mut("Schedule"));
    for schema in schemas {
        if let RefOr::T(Schema::Object(schedule)) = schema {
            schedule.additional_properties = None;
        }
    }
}
