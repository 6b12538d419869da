//! `/namespaces…`: how the steps of a namespace are claimed and delivered.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use reveille_web::{ApiError, Body, Failure, Path, Principal, Role};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::schema::Person;
use crate::flow::Flow;
use crate::namespace::template::NamespaceTemplate;
use crate::namespace::{Namespace, NamespaceChange, NamespaceSettings};

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(put))
        .routes(routes!(templates))
        .routes(routes!(put_template, delete_template))
}

/// Namespaces.
#[derive(Serialize, ToSchema)]
pub(super) struct Namespaces {
    namespaces: Vec<Namespace>,
}

/// Lists the namespaces that the client may see, by name.
#[utoipa::path(
    get, path = "/namespaces", tag = "namespaces",
    responses((status = 200, description = "Namespaces", body = Namespaces))
)]
pub(super) async fn list(State(flow): State<Flow>, principal: Principal) -> Result<Json<Namespaces>, ApiError> {
    let (mut namespaces, visible) = (flow.namespaces().await?, principal.namespaces(Role::Viewer));
    namespaces.retain(|namespace| visible.includes(&namespace.name));
    Ok(Json(Namespaces { namespaces }))
}

/// Creates a namespace, or changes the settings that are given.
#[utoipa::path(
    put, path = "/namespaces/{namespace}", tag = "namespaces", request_body = NamespaceChange,
    params(("namespace" = Person, Path, description = "Its name")),
    responses(
        (status = 200, description = "The namespace after the change", body = Namespace),
        (status = 400, description = "A parameter is invalid; nothing was changed", body = Failure),
    )
)]
pub(super) async fn put(
    State(flow): State<Flow>,
    Path(namespace): Path<String>,
    body: Body,
) -> Result<Json<Namespace>, ApiError> {
    let change: NamespaceChange = body.json()?;
    Ok(Json(flow.put_namespace(&namespace, &change).await?))
}

/// Namespace templates.
#[derive(Serialize, ToSchema)]
pub(super) struct NamespaceTemplates {
    namespace_templates: Vec<NamespaceTemplate>,
}

/// Lists all namespace templates by name.
#[utoipa::path(
    get, path = "/namespace_templates", tag = "namespaces",
    responses((status = 200, description = "Namespace templates", body = NamespaceTemplates))
)]
pub(super) async fn templates(State(flow): State<Flow>) -> Result<Json<NamespaceTemplates>, ApiError> {
    Ok(Json(NamespaceTemplates { namespace_templates: flow.namespace_templates().await? }))
}

/// Sets the initial settings of namespaces created from this template; `default` applies to namespaces that name none.
/// Settings that are not given have their defaults.
#[utoipa::path(
    put, path = "/namespace_templates/{name}", tag = "namespaces", request_body = NamespaceSettings,
    params(("name" = Person, Path, description = "Its name")),
    responses(
        (status = 200, description = "The namespace template after the change", body = NamespaceTemplate),
        (status = 400, description = "A parameter is invalid; nothing was changed", body = Failure),
    )
)]
pub(super) async fn put_template(
    State(flow): State<Flow>,
    Path(name): Path<String>,
    body: Body,
) -> Result<Json<NamespaceTemplate>, ApiError> {
    let settings: NamespaceSettings = body.json()?;
    flow.put_namespace_template(&name, &settings).await?;
    Ok(Json(NamespaceTemplate { name, settings }))
}

/// Deletes a namespace template. Namespaces created from it keep their settings.
#[utoipa::path(
    delete, path = "/namespace_templates/{name}", tag = "namespaces",
    params(("name" = Person, Path, description = "Its name")),
    responses(
        (status = 204, description = "Deleted"),
        (status = 400, description = "The name is invalid", body = Failure),
        (status = 404, description = "There is no such namespace template", body = Failure),
    )
)]
pub(super) async fn delete_template(
    State(flow): State<Flow>,
    Path(name): Path<String>,
) -> Result<StatusCode, ApiError> {
    if flow.delete_namespace_template(&name).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(ApiError::not_found(format!("there is no namespace template {name:?}")))
}
