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
        (name = "namespaces", description = "How the steps of each are claimed and handed out"),
        (name = "limits", description = "How many steps may be under way at once"),
        (name = "workers", description = "Claiming steps, and saying what became of them")
    )
)]
struct Document;

/// Everything but the routes.
pub(crate) fn head() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// Forms that are asked for by themselves and answered among other fields.
const WIDENED: [&str; 2] = ["Schedule", "NamespaceSettings"];

/// What is asked for has no other fields than those that are described; what is answered has.
pub(crate) fn widen(document: &mut utoipa::openapi::OpenApi) {
    let Some(components) = &mut document.components else { return };
    for name in WIDENED {
        if let Some(RefOr::T(Schema::Object(form))) = components.schemas.get_mut(name) {
            form.additional_properties = None;
        }
    }
}
