//! `/schedules…`: tasks submitted by cron or at a given time.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use reveille_web::{ApiError, Body, Failure, Id, Path, Principal, Query, Role};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::schema::Label;
use super::{label, page, uuid};
use crate::flow::Flow;
use crate::name;
use crate::schedule::{Schedule, ScheduleFilter, SchedulePage, Scheduled};

/// The default and the maximum number of upcoming ticks in a response.
const UPCOMING: u64 = 5;
const UPCOMING_MAX: u64 = 100;

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new()
        .routes(routes!(list, put))
        .routes(routes!(one, delete))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(run))
}

/// A page of schedules. Filters that are not given match everything.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct ListParams {
    /// In this namespace.
    #[param(value_type = Option<Label>)]
    namespace: Option<String>,
    /// Of this template.
    #[param(value_type = Option<Label>)]
    template: Option<String>,
    /// Only paused schedules, or only active ones.
    paused: Option<bool>,
    /// The `next` of the previous page.
    #[param(value_type = Option<Id>)]
    after: Option<Uuid>,
    /// The most schedules to return; default 100.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// How many ticks to return.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `one`, described here")]
struct UpcomingParam {
    /// The number of upcoming ticks to return; default 5.
    #[param(maximum = 100)]
    upcoming: Option<u32>,
}

/// A task created by a schedule.
#[derive(Serialize, ToSchema)]
#[schema(as = ScheduleRun)]
pub(super) struct Run {
    #[schema(value_type = Id)]
    task_uuid: Uuid,
}

/// Lists schedules in the order of their creation.
#[utoipa::path(
    get, path = "/schedules", tag = "schedules", params(ListParams),
    responses(
        (status = 200, description = "Schedules", body = SchedulePage),
        (status = 400, description = "A parameter is invalid", body = Failure),
    )
)]
pub(super) async fn list(State(flow): State<Flow>, query: Query) -> Result<Json<SchedulePage>, ApiError> {
    let filter = ScheduleFilter {
        namespace: label(&query, "namespace")?,
        template: label(&query, "template")?,
        paused: query.text("paused").map(|_| query.flag("paused")).transpose()?,
        after: query.text("after").map(|text| uuid("after", text)).transpose()?,
        limit: Some(page(&query)? as u32),
    };
    Ok(Json(flow.schedules(&filter).await?))
}

/// Creates a schedule, or replaces the one with the same name. Repeating the request changes nothing.
#[utoipa::path(
    put, path = "/schedules", tag = "schedules", request_body = Schedule,
    responses(
        (status = 200, description = "The schedule and its status", body = Scheduled),
        (status = 400, description = "A parameter is invalid; nothing was changed", body = Failure),
        (status = 404, description = "There is no such template", body = Failure),
    )
)]
pub(super) async fn put(
    State(flow): State<Flow>,
    principal: Principal,
    body: Body,
) -> Result<Json<Scheduled>, ApiError> {
    let schedule: Schedule = body.json()?;
    principal.require_namespace(Role::Operator, &schedule.namespace)?;
    Ok(Json(flow.put_schedule(schedule).await?))
}

/// A schedule and its status.
#[utoipa::path(
    get, path = "/schedules/{namespace}/{name}", tag = "schedules",
    params(("namespace" = Label, Path, description = "Its namespace"), ("name" = Label, Path, description = "Its name"), UpcomingParam),
    responses(
        (status = 200, description = "The schedule", body = Scheduled),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such schedule", body = Failure),
    )
)]
pub(super) async fn one(
    State(flow): State<Flow>,
    Path(names): Path<(String, String)>,
    query: Query,
) -> Result<Json<Scheduled>, ApiError> {
    let (namespace, name) = checked(names)?;
    let upcoming = query.number("upcoming", 0..=UPCOMING_MAX)?.unwrap_or(UPCOMING);
    Ok(Json(flow.schedule(&namespace, &name, upcoming as usize).await?))
}

/// Deletes a schedule. Its tasks are kept.
#[utoipa::path(
    delete, path = "/schedules/{namespace}/{name}", tag = "schedules",
    params(("namespace" = Label, Path, description = "Its namespace"), ("name" = Label, Path, description = "Its name")),
    responses(
        (status = 204, description = "Deleted"),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such schedule", body = Failure),
    )
)]
pub(super) async fn delete(
    State(flow): State<Flow>,
    Path(names): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let (namespace, name) = checked(names)?;
    flow.delete_schedule(&namespace, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pauses a schedule. Ticks while it is paused do not count as missed.
#[utoipa::path(
    post, path = "/schedules/{namespace}/{name}/pause", tag = "schedules",
    params(("namespace" = Label, Path, description = "Its namespace"), ("name" = Label, Path, description = "Its name")),
    responses(
        (status = 200, description = "The paused schedule", body = Scheduled),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such schedule", body = Failure),
    )
)]
pub(super) async fn pause(
    State(flow): State<Flow>,
    Path(names): Path<(String, String)>,
) -> Result<Json<Scheduled>, ApiError> {
    let (namespace, name) = checked(names)?;
    Ok(Json(flow.pause_schedule(&namespace, &name).await?))
}

/// Resumes a paused schedule.
#[utoipa::path(
    post, path = "/schedules/{namespace}/{name}/resume", tag = "schedules",
    params(("namespace" = Label, Path, description = "Its namespace"), ("name" = Label, Path, description = "Its name")),
    responses(
        (status = 200, description = "The resumed schedule", body = Scheduled),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such schedule", body = Failure),
    )
)]
pub(super) async fn resume(
    State(flow): State<Flow>,
    Path(names): Path<(String, String)>,
) -> Result<Json<Scheduled>, ApiError> {
    let (namespace, name) = checked(names)?;
    Ok(Json(flow.resume_schedule(&namespace, &name).await?))
}

/// Submits a task of a schedule now, in addition to its ticks, even if the schedule is paused.
#[utoipa::path(
    post, path = "/schedules/{namespace}/{name}/run", tag = "schedules",
    params(("namespace" = Label, Path, description = "Its namespace"), ("name" = Label, Path, description = "Its name")),
    responses(
        (status = 201, description = "The created task", body = Run),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such schedule, or its template does not exist", body = Failure),
    )
)]
pub(super) async fn run(
    State(flow): State<Flow>,
    Path(names): Path<(String, String)>,
) -> Result<(StatusCode, Json<Run>), ApiError> {
    let (namespace, name) = checked(names)?;
    let task_uuid = flow.run_schedule(&namespace, &name).await?.task_uuid;
    Ok((StatusCode::CREATED, Json(Run { task_uuid })))
}

fn checked((namespace, name): (String, String)) -> Result<(String, String), ApiError> {
    name::check("namespace", &namespace)?;
    name::check("name", &name)?;
    Ok((namespace, name))
}
