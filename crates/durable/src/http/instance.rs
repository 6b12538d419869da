//! `/instances…`: listing instances, reading one, waiting for its end, deleting it.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Failure, Path, Principal, Query, Time};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{DurableText, InstanceId, PAGE, WAIT_MS_MAX, label, page};
use crate::error::Error;
use crate::inspect::{
    EVENTS_MAX, EXECUTIONS_MAX, ExecutionPage, Format, HistoryPage, INSTANCES_MAX, Instance, InstancePage, Instances,
    KEYS_MAX, KeyPage, ListFilter, Status, TREE_MAX, Tree,
};
use crate::operate::Deleted;

pub(super) fn routes() -> OpenApiRouter<Instances> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(one, delete))
        .routes(routes!(history))
        .routes(routes!(executions))
        .routes(routes!(keys))
        .routes(routes!(children))
}

/// A page of instances. Filters that are not given match everything.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct ListParams {
    /// In this state. `Pending`: started, and no runtime has begun it; the oldest first. `version` and times do not
    /// apply to these.
    status: Option<Status>,
    /// Of this orchestration.
    #[param(value_type = Option<DurableText>)]
    name: Option<String>,
    /// Of this version of the orchestration.
    #[param(value_type = Option<DurableText>)]
    version: Option<String>,
    /// With an id that begins so.
    #[param(value_type = Option<DurableText>)]
    prefix: Option<String>,
    /// Created at this time or later.
    #[param(value_type = Option<Time>)]
    created_after: Option<String>,
    /// Created before this time.
    #[param(value_type = Option<Time>)]
    created_before: Option<String>,
    /// The `next` of the previous page.
    after: Option<String>,
    /// The most instances to return; default 100.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// Whether to wait for the end of the instance.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `one`, described here")]
struct WaitParams {
    /// How long to wait for the end of the instance, in milliseconds; default: not at all.
    #[param(maximum = 600_000)]
    wait_ms: Option<u64>,
}

/// A part of a history.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `history`, described here")]
struct HistoryParams {
    /// The execution; default: the current one.
    #[param(minimum = 1)]
    execution: Option<u64>,
    /// After the event with this number; default: from the first.
    #[param(minimum = 0)]
    after: Option<u64>,
    /// The most events to return; default 100. A page ends earlier after 4 MB.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
    /// `compact`, the default: without payloads. `raw`: with the events as they are stored, for clients that may see
    /// payloads.
    format: Option<Format>,
}

/// A page of executions.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `executions`, described here")]
struct ExecutionParams {
    /// Before the execution with this number; default: from the latest.
    #[param(minimum = 1)]
    before: Option<u64>,
    /// The most executions to return; default 100.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// A page of keys.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `keys`, described here")]
struct KeyParams {
    /// The `next` of the previous page.
    after: Option<String>,
    /// The most keys to return; default 100.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<u32>,
}

/// How much of a tree.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `children`, described here")]
struct TreeParams {
    /// The most instances to return; default 100.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// What may be deleted.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `delete`, described here")]
struct DeleteParams {
    /// Also if it has not ended. A runtime that runs it notices when it writes.
    force: Option<bool>,
    /// Changes nothing, and returns what would be deleted.
    dry_run: Option<bool>,
}

/// Lists instances, newest first. A page may be short or empty although more instances match: continue while there is a
/// `next`.
#[utoipa::path(
    get, path = "/instances", tag = "durable", params(ListParams),
    responses(
        (status = 200, description = "Instances", body = InstancePage),
        (status = 400, description = "A parameter is invalid", body = Failure),
    )
)]
async fn list(State(instances): State<Instances>, query: Query) -> Result<Json<InstancePage>, ApiError> {
    let unknown = |name: &str| {
        let states = "Pending, Running, Completed, Failed or ContinuedAsNew";
        ApiError::bad_request(format!("invalid parameter `status`: must be {states}, got {name:?}"))
    };
    let status = query.text("status").map(|name| Status::named(name).ok_or_else(|| unknown(name)));
    let filter = ListFilter {
        status: status.transpose()?,
        name: label(&query, "name")?,
        version: label(&query, "version")?,
        prefix: label(&query, "prefix")?,
        created_after: query.time("created_after")?,
        created_before: query.time("created_before")?,
    };
    Ok(Json(instances.list(&filter, query.text("after"), page(&query, INSTANCES_MAX)?).await?))
}

/// An instance: its state, what waits for it, and why it is not running. With `wait_ms` the response is sent when the
/// instance ends or the time is over, whichever comes first.
#[utoipa::path(
    get, path = "/instances/{instance}", tag = "durable",
    params(("instance" = InstanceId, Path, description = "The instance"), WaitParams),
    responses(
        (status = 200, description = "The instance", body = Instance),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such instance", body = Failure),
        (status = 503, description = "Too many requests are waiting, or the database is unavailable; retry", body = Failure),
    )
)]
async fn one(
    State(instances): State<Instances>,
    principal: Principal,
    Path(instance): Path<String>,
    query: Query,
) -> Result<Json<Instance>, ApiError> {
    if let Some(wait_ms) = query.number("wait_ms", 0..=WAIT_MS_MAX)?.filter(|wait_ms| *wait_ms > 0) {
        // An instance that was not started would be waited for in vain.
        instances.known(&instance).await?.ok_or_else(|| Error::NotFound { instance: instance.clone() })?;
        match instances.inner.provider.ended(&instance, Duration::from_millis(wait_ms)).await {
            // A server that stops answers waiting requests instead of cutting them off.
            Ok(_) | Err(Error::Wake(reveille_wake::Error::Closed { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut found = instances.instance(&instance).await?.ok_or(Error::NotFound { instance })?;
    if !principal.sees_payloads() {
        found.output = None;
    }
    Ok(Json(found))
}

/// Deletes an instance with its sub-orchestrations. A running one is rejected, unless `force` is given.
#[utoipa::path(
    delete, path = "/instances/{instance}", tag = "durable",
    params(("instance" = InstanceId, Path, description = "The instance"), DeleteParams),
    responses(
        (status = 200, description = "What was or would be deleted", body = Deleted),
        (status = 400, description = "A parameter is invalid; nothing was changed", body = Failure),
        (status = 404, description = "There is no such instance", body = Failure),
        (status = 409, description = "It has not ended, or is a sub-orchestration; nothing was changed", body = Failure),
    )
)]
async fn delete(
    State(instances): State<Instances>,
    Path(instance): Path<String>,
    query: Query,
) -> Result<Json<Deleted>, ApiError> {
    let (force, dry_run) = (query.flag("force")?, query.flag("dry_run")?);
    Ok(Json(instances.remove(&instance, force, dry_run).await?))
}

/// The history of an execution, in order.
#[utoipa::path(
    get, path = "/instances/{instance}/history", tag = "durable",
    params(("instance" = InstanceId, Path, description = "The instance"), HistoryParams),
    responses(
        (status = 200, description = "Events; none of an execution that does not exist", body = HistoryPage),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such instance", body = Failure),
    )
)]
async fn history(
    State(instances): State<Instances>,
    principal: Principal,
    Path(instance): Path<String>,
    query: Query,
) -> Result<Json<HistoryPage>, ApiError> {
    let unknown =
        |name: &str| ApiError::bad_request(format!("invalid parameter `format`: must be compact or raw, got {name:?}"));
    let format = query.text("format").map(|name| Format::named(name).ok_or_else(|| unknown(name))).transpose()?;
    let format = format.filter(|_| principal.sees_payloads()).unwrap_or(Format::Compact);
    let execution = query.number("execution", 1..=i64::MAX as u64)?;
    let after = query.number("after", 0..=i64::MAX as u64)?.unwrap_or(0);
    let limit = page(&query, EVENTS_MAX)?;
    let found = instances.history(&instance, execution, after, limit, format).await?;
    if found.events.is_empty() {
        exists(&instances, instance).await?;
    }
    Ok(Json(found))
}

/// The executions of an instance, the latest first.
#[utoipa::path(
    get, path = "/instances/{instance}/executions", tag = "durable",
    params(("instance" = InstanceId, Path, description = "The instance"), ExecutionParams),
    responses(
        (status = 200, description = "Executions", body = ExecutionPage),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such instance", body = Failure),
    )
)]
async fn executions(
    State(instances): State<Instances>,
    Path(instance): Path<String>,
    query: Query,
) -> Result<Json<ExecutionPage>, ApiError> {
    let before = query.number("before", 1..=i64::MAX as u64)?;
    let found = instances.executions(&instance, before, page(&query, EXECUTIONS_MAX)?).await?;
    if found.executions.is_empty() {
        exists(&instances, instance).await?;
    }
    Ok(Json(found))
}

/// The keys and values of an instance, by key.
#[utoipa::path(
    get, path = "/instances/{instance}/keys", tag = "durable",
    params(("instance" = InstanceId, Path, description = "The instance"), KeyParams),
    responses(
        (status = 200, description = "Keys", body = KeyPage),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such instance", body = Failure),
    )
)]
async fn keys(
    State(instances): State<Instances>,
    principal: Principal,
    Path(instance): Path<String>,
    query: Query,
) -> Result<Json<KeyPage>, ApiError> {
    let limit = query.number("limit", 1..=KEYS_MAX)?.unwrap_or(PAGE);
    let mut found = instances.keys(&instance, query.text("after").unwrap_or_default(), limit).await?;
    if !principal.sees_payloads() {
        found.keys.iter_mut().for_each(|key| key.value = None);
    }
    if found.keys.is_empty() {
        exists(&instances, instance).await?;
    }
    Ok(Json(found))
}

/// An instance and its sub-orchestrations, level by level.
#[utoipa::path(
    get, path = "/instances/{instance}/children", tag = "durable",
    params(("instance" = InstanceId, Path, description = "The instance"), TreeParams),
    responses(
        (status = 200, description = "The instance and its descendants", body = Tree),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such instance", body = Failure),
    )
)]
async fn children(
    State(instances): State<Instances>,
    Path(instance): Path<String>,
    query: Query,
) -> Result<Json<Tree>, ApiError> {
    let found = instances.tree(&instance, page(&query, TREE_MAX)?).await?;
    if found.instances.is_empty() {
        exists(&instances, instance).await?;
    }
    Ok(Json(found))
}

/// Checks that there is an instance, or one that was started.
async fn exists(instances: &Instances, instance: String) -> Result<(), ApiError> {
    match instances.known(&instance).await? {
        Some(_) => Ok(()),
        None => Err(Error::NotFound { instance }.into()),
    }
}
