//! `/limits`: how many steps may be under way at once.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::{Body, Failure, Query, Refusal};

use super::form::Label;
use super::{given, label};
use crate::claim::limit::Limit;
use crate::flow::Flow;
use crate::name;

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new().routes(routes!(list, set))
}

/// Whose limits.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct Which {
    /// Of this namespace; of all, if it is not given.
    #[param(value_type = Option<Label>)]
    namespace: Option<String>,
}

/// Limits, and how much of each is used.
#[derive(Serialize, ToSchema)]
pub(super) struct Limits {
    limits: Vec<Limit>,
}

/// A limit.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LimitRequest)]
struct Wish {
    #[schema(value_type = Label)]
    namespace: String,
    /// The steps of this name; without it, all of the namespace together.
    #[schema(value_type = Option<Label>)]
    step: Option<String>,
    /// How many of them may be under way at once; null takes the limit away.
    #[schema(maximum = 2_147_483_647, value_type = Option<u32>, required = true)]
    #[serde(default, deserialize_with = "given")]
    max_in_progress: Option<Option<u32>>,
}

/// The limits that there are.
#[utoipa::path(
    get, path = "/limits", tag = "limits", params(Which),
    responses(
        (status = 200, description = "Limits", body = Limits),
        (status = 400, description = "Something cannot be meant", body = Failure),
    )
)]
pub(super) async fn list(State(flow): State<Flow>, query: Query) -> Result<Json<Limits>, Refusal> {
    let namespace = label(&query, "namespace")?;
    Ok(Json(Limits { limits: flow.limits(namespace.as_deref()).await? }))
}

/// Sets a limit, or takes it away. What is under way goes on; what is due waits until there is room.
#[utoipa::path(
    put, path = "/limits", tag = "limits", request_body = Wish,
    responses(
        (status = 200, description = "The limits of the namespace now", body = Limits),
        (status = 400, description = "Something cannot be meant, or there is no such namespace", body = Failure),
    )
)]
pub(super) async fn set(State(flow): State<Flow>, body: Body) -> Result<Json<Limits>, Refusal> {
    let Wish { namespace, step, max_in_progress } = body.json()?;
    let missing = "max_in_progress: it is missing; it must be a number, or null to take the limit away";
    let max_in_progress = max_in_progress.ok_or_else(|| Refusal::bad(missing))?;
    name::check("namespace", &namespace)?;
    step.iter().try_for_each(|step| name::check("step", step))?;
    flow.limit(&namespace, step.as_deref(), max_in_progress).await?;
    Ok(Json(Limits { limits: flow.limits(Some(&namespace)).await? }))
}
