//! `/schedules…`: tasks that are submitted when their time comes.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;
use web::{Body, Failure, Id, Path, Query, Refusal};

use super::schema::Label;
use super::{label, page, uuid};
use crate::flow::Flow;
use crate::name;
use crate::schedule::{Schedule, ScheduleFilter, SchedulePage, Scheduled};

/// Ticks that are told of one schedule, if that is not said, and the most.
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

/// Which schedules. Everything that is not given is not asked.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct Which {
    /// Of this namespace.
    #[param(value_type = Option<Label>)]
    namespace: Option<String>,
    /// Of this template.
    #[param(value_type = Option<Label>)]
    template: Option<String>,
    /// That rest, or do not.
    paused: Option<bool>,
    /// That were made after this one: the last of the answer before.
    #[param(value_type = Option<Id>)]
    after: Option<Uuid>,
    /// How many at most; 100 if it is not given.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// How much of a schedule.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `one`, described here")]
struct Much {
    /// How many of its next ticks; 5 if it is not given.
    #[param(maximum = 100)]
    upcoming: Option<u32>,
}

/// A task that a schedule made.
#[derive(Serialize, ToSchema)]
#[schema(as = ScheduleRun)]
pub(super) struct Run {
    #[schema(value_type = Id)]
    task_uuid: Uuid,
}

/// Schedules, in the order in which they were made.
#[utoipa::path(
    get, path = "/schedules", tag = "schedules", params(Which),
    responses(
        (status = 200, description = "Schedules", body = SchedulePage),
        (status = 400, description = "Something cannot be meant", body = Failure),
    )
)]
pub(super) async fn list(State(flow): State<Flow>, query: Query) -> Result<Json<SchedulePage>, Refusal> {
    let filter = ScheduleFilter {
        namespace: label(&query, "namespace")?,
        template: label(&query, "template")?,
        paused: query.text("paused").map(|_| query.flag("paused")).transpose()?,
        after: query.text("after").map(|text| uuid("after", text)).transpose()?,
        limit: Some(page(&query)? as u32),
    };
    Ok(Json(flow.schedules(&filter).await?))
}

/// Makes a schedule, or replaces the one of that name. The same again changes nothing.
#[utoipa::path(
    put, path = "/schedules", tag = "schedules", request_body = Schedule,
    responses(
        (status = 200, description = "The schedule, and how it stands", body = Scheduled),
        (status = 400, description = "Something cannot be meant; nothing was changed", body = Failure),
        (status = 404, description = "There is no such template", body = Failure),
    )
)]
pub(super) async fn put(State(flow): State<Flow>, body: Body) -> Result<Json<Scheduled>, Refusal> {
    Ok(Json(flow.put_schedule(body.json()?).await?))
}

/// A schedule, and how it stands.
#[utoipa::path(
    get, path = "/schedules/{namespace}/{name}", tag = "schedules",
    params(("namespace" = Label, Path, description = "Its namespace"), ("name" = Label, Path, description = "Its name"), Much),
    responses(
        (status = 200, description = "The schedule", body = Scheduled),
        (status = 400, description = "Something cannot be meant", body = Failure),
        (status = 404, description = "There is none", body = Failure),
    )
)]
pub(super) async fn one(
    State(flow): State<Flow>,
    Path(names): Path<(String, String)>,
    query: Query,
) -> Result<Json<Scheduled>, Refusal> {
    let (namespace, name) = checked(names)?;
    let upcoming = query.number("upcoming", 0..=UPCOMING_MAX)?.unwrap_or(UPCOMING);
    Ok(Json(flow.schedule(&namespace, &name, upcoming as usize).await?))
}

/// Removes a schedule. Its tasks stay.
#[utoipa::path(
    delete, path = "/schedules/{namespace}/{name}", tag = "schedules",
    params(("namespace" = Label, Path, description = "Its namespace"), ("name" = Label, Path, description = "Its name")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 400, description = "Something cannot be meant", body = Failure),
        (status = 404, description = "There is none", body = Failure),
    )
)]
pub(super) async fn delete(
    State(flow): State<Flow>,
    Path(names): Path<(String, String)>,
) -> Result<StatusCode, Refusal> {
    let (namespace, name) = checked(names)?;
    flow.delete_schedule(&namespace, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lets a schedule rest. What comes while it does is not missed.
#[utoipa::path(
    post, path = "/schedules/{namespace}/{name}/pause", tag = "schedules",
    params(("namespace" = Label, Path, description = "Its namespace"), ("name" = Label, Path, description = "Its name")),
    responses(
        (status = 200, description = "It rests", body = Scheduled),
        (status = 400, description = "Something cannot be meant", body = Failure),
        (status = 404, description = "There is none", body = Failure),
    )
)]
pub(super) async fn pause(
    State(flow): State<Flow>,
    Path(names): Path<(String, String)>,
) -> Result<Json<Scheduled>, Refusal> {
    let (namespace, name) = checked(names)?;
    Ok(Json(flow.pause_schedule(&namespace, &name).await?))
}

/// Lets a schedule go on.
#[utoipa::path(
    post, path = "/schedules/{namespace}/{name}/resume", tag = "schedules",
    params(("namespace" = Label, Path, description = "Its namespace"), ("name" = Label, Path, description = "Its name")),
    responses(
        (status = 200, description = "It goes on", body = Scheduled),
        (status = 400, description = "Something cannot be meant", body = Failure),
        (status = 404, description = "There is none", body = Failure),
    )
)]
pub(super) async fn resume(
    State(flow): State<Flow>,
    Path(names): Path<(String, String)>,
) -> Result<Json<Scheduled>, Refusal> {
    let (namespace, name) = checked(names)?;
    Ok(Json(flow.resume_schedule(&namespace, &name).await?))
}

/// Submits a task of a schedule now, beside its ticks, even while it rests.
#[utoipa::path(
    post, path = "/schedules/{namespace}/{name}/run", tag = "schedules",
    params(("namespace" = Label, Path, description = "Its namespace"), ("name" = Label, Path, description = "Its name")),
    responses(
        (status = 201, description = "The task", body = Run),
        (status = 400, description = "Something cannot be meant", body = Failure),
        (status = 404, description = "There is no such schedule, or its template is gone", body = Failure),
    )
)]
pub(super) async fn run(
    State(flow): State<Flow>,
    Path(names): Path<(String, String)>,
) -> Result<(StatusCode, Json<Run>), Refusal> {
    let (namespace, name) = checked(names)?;
    let task_uuid = flow.run_schedule(&namespace, &name).await?.task_uuid;
    Ok((StatusCode::CREATED, Json(Run { task_uuid })))
}

fn checked((namespace, name): (String, String)) -> Result<(String, String), Refusal> {
    name::check("namespace", &namespace)?;
    name::check("name", &name)?;
    Ok((namespace, name))
}
