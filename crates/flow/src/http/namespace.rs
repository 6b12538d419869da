//! `/namespaces…`: how the steps of each are claimed and handed out.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::{Body, Failure, Path, Refusal};

use super::form::Person;
use crate::flow::Flow;
use crate::namespace::{Namespace, NamespaceChange};

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(put))
}

/// Namespaces.
#[derive(Serialize, ToSchema)]
pub(super) struct Namespaces {
    namespaces: Vec<Namespace>,
}

/// All namespaces, by name.
#[utoipa::path(
    get, path = "/namespaces", tag = "namespaces",
    responses((status = 200, description = "Namespaces", body = Namespaces))
)]
pub(super) async fn list(State(flow): State<Flow>) -> Result<Json<Namespaces>, Refusal> {
    Ok(Json(Namespaces { namespaces: flow.namespaces().await? }))
}

/// Makes a namespace, unless it is there, and changes what is given.
#[utoipa::path(
    put, path = "/namespaces/{namespace}", tag = "namespaces", request_body = NamespaceChange,
    params(("namespace" = Person, Path, description = "Its name")),
    responses(
        (status = 200, description = "The namespace as it is now", body = Namespace),
        (status = 400, description = "Something cannot be meant; nothing was changed", body = Failure),
    )
)]
pub(super) async fn put(
    State(flow): State<Flow>,
    Path(namespace): Path<String>,
    body: Body,
) -> Result<Json<Namespace>, Refusal> {
    let change: NamespaceChange = body.json()?;
    Ok(Json(flow.put_namespace(&namespace, &change).await?))
}
