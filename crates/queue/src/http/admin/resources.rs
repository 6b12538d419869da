//! `/resources/…`: queues, partitions, namespaces and tasks, with the number of their messages.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use reveille_web::{ApiError, Failure, Path, Query, Timestamp};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::groups::GroupState;
use super::page;
use super::partitions::{Part, PartitionState, depth};
use super::queues::{self, Set, delete_slashed};
use crate::admin::resources as engine;
use crate::http::schema::Name;
use crate::queues::Queues;

/// The default page size of queues.
const QUEUES: u32 = 1_000;
/// The default page size of partitions.
pub(super) const PARTITIONS: u32 = 1_000;

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new()
        .routes(routes!(overview))
        .routes(routes!(queues))
        .routes(routes!(queue, queues::delete))
        .route("/resources/queues/{queue}/{*rest}", get(queue_slashed).delete(delete_slashed))
        .routes(routes!(namespaces))
        .routes(routes!(tasks))
}

/// Numbers of messages. A deleted message counts until its segment is deleted.
#[derive(Serialize, ToSchema)]
#[schema(as = MessageCounts)]
pub(super) struct Counts {
    total: u64,
    /// Those that a consumer group has not consumed; without groups, all.
    pending: u64,
    /// Those that are leased.
    processing: u64,
    /// Those that every consumer group has consumed.
    completed: u64,
}

impl From<engine::Counts> for Counts {
    fn from(counts: engine::Counts) -> Counts {
        let engine::Counts { total, pending, processing, completed } = counts;
        Counts { total, pending, processing, completed }
    }
}

/// Numbers of queues, partitions, groups and messages.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Overview {
    queues: u64,
    namespaces: u64,
    tasks: u64,
    partitions: u64,
    consumer_groups: u64,
    active_leases: u64,
    messages: Counts,
    dead_letters: u64,
}

impl From<engine::Overview> for Overview {
    fn from(overview: engine::Overview) -> Overview {
        Overview {
            queues: overview.queues,
            namespaces: overview.namespaces,
            tasks: overview.tasks,
            partitions: overview.partitions,
            consumer_groups: overview.groups,
            active_leases: overview.leases,
            messages: overview.messages.into(),
            dead_letters: overview.dead_letters,
        }
    }
}

/// A queue, and the number of its messages.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct QueueState {
    id: String,
    name: String,
    namespace: String,
    task: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    partitions: u64,
    messages: Counts,
}

impl From<engine::QueueState> for QueueState {
    fn from(queue: engine::QueueState) -> QueueState {
        QueueState {
            id: queue.id.to_string(),
            name: queue.name,
            namespace: queue.namespace,
            task: queue.task,
            created_at: Timestamp(queue.created_at),
            partitions: queue.partitions,
            messages: queue.messages.into(),
        }
    }
}

/// Queues, in order of their names.
#[derive(Serialize, ToSchema)]
pub(super) struct QueueList {
    queues: Vec<QueueState>,
    /// The total number.
    total: u64,
}

/// A queue with its consumer groups and their positions.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct QueueDetail {
    id: String,
    name: String,
    namespace: String,
    task: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    options: Set,
    messages: Counts,
    dead_letters: u64,
    consumer_groups: Vec<GroupState>,
    /// The number of its partitions.
    partition_count: u64,
    /// A page of them (`limit`, `offset`), or the one that `partition` names. Default 1 000.
    partitions: Vec<PartitionState>,
}

impl From<engine::QueueDetail> for QueueDetail {
    fn from(detail: engine::QueueDetail) -> QueueDetail {
        let engine::QueueDetail { queue, groups, dead_letters, partitions } = detail;
        QueueDetail {
            id: queue.id.to_string(),
            name: queue.name,
            namespace: queue.namespace,
            task: queue.task,
            created_at: Timestamp(queue.created_at),
            options: queue.settings.into(),
            messages: queue.messages.into(),
            dead_letters,
            consumer_groups: groups.into_iter().map(Into::into).collect(),
            partition_count: queue.partitions,
            partitions: partitions.rows.into_iter().map(Into::into).collect(),
        }
    }
}

/// A namespace, or a task.
#[derive(Serialize, ToSchema)]
#[schema(as = SpaceState)]
struct Space {
    name: String,
    queues: u64,
    partitions: u64,
    messages: Counts,
}

impl From<engine::Space> for Space {
    fn from(space: engine::Space) -> Space {
        let engine::Space { name, queues, partitions, messages } = space;
        Space { name, queues, partitions, messages: messages.into() }
    }
}

/// The namespaces that queues have.
#[derive(Serialize, ToSchema)]
struct NamespaceList {
    namespaces: Vec<Space>,
}

/// The tasks that queues have.
#[derive(Serialize, ToSchema)]
struct TaskList {
    tasks: Vec<Space>,
}

/// A filter and a page of queues.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `queues`, described here")]
pub(super) struct Search {
    /// Part of the name, case-insensitive.
    #[param(value_type = Option<Name>)]
    search: Option<String>,
    /// The most rows.
    limit: Option<u32>,
    /// The number of rows to skip.
    offset: Option<u32>,
}

/// Numbers of queues, partitions, groups and messages.
#[utoipa::path(
    get, path = "/resources/overview", tag = "administration",
    responses(
        (status = 200, description = "The numbers", body = Overview),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn overview(State(queues): State<Queues>) -> Result<Json<Overview>, ApiError> {
    Ok(Json(queues.overview().await?.into()))
}

/// Lists queues, in order of their names.
#[utoipa::path(
    get, path = "/resources/queues", tag = "administration", params(Search),
    responses(
        (status = 200, description = "The queues and the number of their messages", body = QueueList),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
pub(super) async fn queues(State(queues): State<Queues>, query: Query) -> Result<Json<QueueList>, ApiError> {
    let listed = queues.queues(query.text("search"), page(&query, QUEUES)?).await?;
    Ok(Json(QueueList { queues: listed.rows.into_iter().map(Into::into).collect(), total: listed.total }))
}

/// A queue with its consumer groups and their positions in each partition.
#[utoipa::path(
    get, path = "/resources/queues/{queue}", tag = "administration",
    params(("queue" = Name, Path, description = "The queue"), Part),
    responses(
        (status = 200, description = "Its details", body = QueueDetail),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such queue", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn queue(
    State(queues): State<Queues>,
    Path(queue): Path<String>,
    query: Query,
) -> Result<Json<QueueDetail>, ApiError> {
    Ok(Json(detail(&queues, &queue, &query).await?))
}

pub(super) async fn detail(queues: &Queues, queue: &str, query: &Query) -> Result<QueueDetail, ApiError> {
    let detail = queues.queue(queue, query.text("partition"), page(query, PARTITIONS)?).await?;
    Ok(detail.ok_or_else(|| none(queue))?.into())
}

pub(super) fn none(queue: &str) -> ApiError {
    ApiError::not_found(format!("there is no queue {queue:?}"))
}

async fn queue_slashed(
    state: State<Queues>,
    Path((queue, rest)): Path<(String, String)>,
    query: Query,
) -> Result<Response, ApiError> {
    let name = format!("{queue}/{rest}");
    Ok(match name.strip_suffix("/depth") {
        Some(name) => depth(state, Path(name.to_owned()), query).await?.into_response(),
        None => self::queue(state, Path(name), query).await?.into_response(),
    })
}

/// Lists the namespaces that queues have.
#[utoipa::path(
    get, path = "/resources/namespaces", tag = "administration",
    responses(
        (status = 200, description = "The namespaces and the number of their messages", body = NamespaceList),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn namespaces(State(queues): State<Queues>) -> Result<Json<NamespaceList>, ApiError> {
    Ok(Json(NamespaceList { namespaces: queues.namespaces().await?.into_iter().map(Into::into).collect() }))
}

/// Lists the tasks that queues have.
#[utoipa::path(
    get, path = "/resources/tasks", tag = "administration",
    responses(
        (status = 200, description = "The tasks and the number of their messages", body = TaskList),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn tasks(State(queues): State<Queues>) -> Result<Json<TaskList>, ApiError> {
    Ok(Json(TaskList { tasks: queues.tasks().await?.into_iter().map(Into::into).collect() }))
}
