//! `POST /prune`: deleting what has ended, step by step.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Body, Failure, Time, parse_timestamp};
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{DurableText, PAGE, short};
use crate::inspect::{Instances, Status};
use crate::operate::{PRUNED_MAX, Prune, Pruned, What};

pub(super) fn routes() -> OpenApiRouter<Instances> {
    OpenApiRouter::new().routes(routes!(prune))
}

/// What to delete. Repeat it with `after` until there is no `next`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PruneRequest)]
struct Request {
    /// Ended instances, or ended executions; default: instances.
    #[serde(default)]
    #[schema(required = false)]
    what: What,
    /// What ended before this time; default: at any time.
    #[schema(value_type = Option<Time>)]
    ended_before: Option<String>,
    /// Only instances in this state, `Completed` or `Failed`; not with `what: executions`.
    status: Option<Status>,
    /// Only instances of this orchestration.
    #[schema(value_type = Option<DurableText>)]
    name: Option<String>,
    /// With `what: executions`: keep so many of the latest executions of each instance, the current one included.
    #[schema(minimum = 0)]
    keep_last: Option<u32>,
    /// The `next` of the previous step.
    after: Option<String>,
    /// The most instances of this step; default 100.
    #[schema(minimum = 1, maximum = 500)]
    limit: Option<u64>,
    /// Changes nothing, and returns what would be deleted.
    #[serde(default)]
    #[schema(required = false)]
    dry_run: bool,
}

/// Deletes ended instances with their sub-orchestrations, those that ended first first; or ended executions of instances
/// that continue as new. A request is a bounded step: continue with `next`. An instance with a running descendant is
/// skipped.
#[utoipa::path(
    post, path = "/prune", tag = "durable", request_body = Request,
    responses(
        (status = 200, description = "What was or would be deleted", body = Pruned),
        (status = 400, description = "A parameter is invalid; nothing was changed", body = Failure),
        (status = 409, description = "An instance has changed meanwhile; nothing was changed, retry", body = Failure),
    )
)]
async fn prune(State(instances): State<Instances>, body: Body) -> Result<Json<Pruned>, ApiError> {
    let Request { what, ended_before, status, name, keep_last, after, limit, dry_run } = body.json()?;
    let ended_before =
        ended_before.map(|text| parse_timestamp(&text).ok_or_else(|| ApiError::not_a_timestamp("ended_before", &text)));
    let limit = limit.unwrap_or(PAGE);
    if !(1..=PRUNED_MAX).contains(&limit) {
        let message = format!("invalid parameter `limit`: must be between 1 and {PRUNED_MAX}, got {limit}");
        return Err(ApiError::bad_request(message));
    }
    if let Some(status) = status.filter(|status| !status.has_ended()) {
        let name = status.name();
        let message = format!("invalid parameter `status`: must be Completed or Failed, got {name:?}");
        return Err(ApiError::bad_request(message));
    }
    let misplaced = match what {
        What::Instances => keep_last.map(|_| ("keep_last", "executions")),
        What::Executions => status.map(|_| ("status", "instances")),
    };
    if let Some((parameter, what)) = misplaced {
        let message = format!("invalid parameter `{parameter}`: only allowed with `what: {what}`");
        return Err(ApiError::bad_request(message));
    }
    let name = name.map(|name| short("name", &name)).transpose()?;
    let ended_before = ended_before.transpose()?;
    let prune = Prune { what, ended_before, status, name, keep_last, after, limit, dry_run };
    Ok(Json(instances.prune(&prune).await?))
}
