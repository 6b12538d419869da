//! `/limits`: how many steps may be in progress at once.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Body, Failure, Principal, Query, Role};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::schema::Label;
use super::{given, label};
use crate::flow::Flow;
use crate::name;
use crate::operate::limit::Limit;

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new().routes(routes!(list, set))
}

/// ListParams limits to list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct ListParams {
    /// Of this namespace; default: of all.
    #[param(value_type = Option<Label>)]
    namespace: Option<String>,
}

/// Limits and their current use.
#[derive(Serialize, ToSchema)]
pub(super) struct Limits {
    limits: Vec<Limit>,
}

/// A limit to set or remove.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LimitRequest)]
struct Request {
    #[schema(value_type = Label)]
    namespace: String,
    /// Limits the steps with this name; default: all steps of the namespace together.
    #[schema(value_type = Option<Label>)]
    step: Option<String>,
    /// The most steps in progress at once; null removes the limit.
    #[schema(maximum = 2_147_483_647, value_type = Option<u32>, required = true)]
    #[serde(default, deserialize_with = "given")]
    max_in_progress: Option<Option<u32>>,
}

/// Lists the limits.
#[utoipa::path(
    get, path = "/limits", tag = "limits", params(ListParams),
    responses(
        (status = 200, description = "Limits", body = Limits),
        (status = 400, description = "A parameter is invalid", body = Failure),
    )
)]
pub(super) async fn list(State(flow): State<Flow>, query: Query) -> Result<Json<Limits>, ApiError> {
    let namespace = label(&query, "namespace")?;
    Ok(Json(Limits { limits: flow.limits(namespace.as_deref()).await? }))
}

/// Sets or removes a limit. Steps in progress continue; ready steps wait until the limit allows them.
#[utoipa::path(
    put, path = "/limits", tag = "limits", request_body = Request,
    responses(
        (status = 200, description = "The limits of the namespace after the change", body = Limits),
        (status = 400, description = "A parameter is invalid, or there is no such namespace", body = Failure),
    )
)]
pub(super) async fn set(State(flow): State<Flow>, principal: Principal, body: Body) -> Result<Json<Limits>, ApiError> {
    let Request { namespace, step, max_in_progress } = body.json()?;
    let missing = "missing parameter `max_in_progress`: must be a number, or null to remove the limit";
    let max_in_progress = max_in_progress.ok_or_else(|| ApiError::bad_request(missing))?;
    name::check("namespace", &namespace)?;
    principal.require_namespace(Role::Operator, &namespace)?;
    step.iter().try_for_each(|step| name::check("step", step))?;
    flow.limit(&namespace, step.as_deref(), max_in_progress).await?;
    Ok(Json(Limits { limits: flow.limits(Some(&namespace)).await? }))
}
