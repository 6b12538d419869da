//! `/status…`, `/analytics/…`, `/stats/refresh`: the state of queues, server and database.
//!
//! Only what is cheap to know: lags, the counters of this process, and PostgreSQL's statistics. History is not stored:
//! `from`, `to` and `interval`, which consoles send, are ignored.

use axum::Json;
use axum::extract::State;
use axum::routing::get;
use reveille_web::{ApiError, Failure, Path, Query, Timestamp};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::groups::GroupState;
use super::maintenance::Shown as MaintenanceState;
use super::partitions::Part;
use super::resources::{Overview, QueueDetail, QueueList, Search, detail};
use crate::admin::status as engine;
use crate::http::schema::Name;
use crate::queues::Queues;

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new()
        .routes(routes!(status))
        .routes(routes!(queues))
        .routes(routes!(queue))
        .route("/status/queues/{queue}/{*rest}", get(queue_slashed))
        .routes(routes!(analytics))
        .routes(routes!(system_metrics))
        .routes(routes!(worker_metrics))
        .routes(routes!(postgres_stats))
        .routes(routes!(refresh))
}

/// A period, which is ignored: history is not stored.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "not read, described here")]
struct Unused {
    /// Ignored.
    from: Option<String>,
    /// Ignored.
    to: Option<String>,
    /// Ignored.
    interval: Option<String>,
}

/// The state of queues and server.
#[derive(Serialize, ToSchema)]
struct Status {
    /// Numbers of queues, partitions, groups and messages.
    overview: Overview,
    maintenance: MaintenanceState,
    /// The server that answers.
    server: ServerState,
}

/// The server that responds, since its start.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ServerState {
    uptime_seconds: f64,
    /// Waiting pops.
    waiting_pops: usize,
    /// Groups of waiters, including idle ones that are remembered.
    waiting_groups: usize,
    /// Whether the listener is connected, and whether consumers poll at an interval.
    listening: bool,
    polling: bool,
    /// Polls for messages, and those that found none.
    polls: u64,
    empty_polls: u64,
    failed_polls: u64,
    /// Pops that returned messages.
    pops_served: u64,
    /// Pops that were rejected because too many waited.
    pops_refused: u64,
}

impl From<engine::ProcessState> for ServerState {
    fn from(process: engine::ProcessState) -> ServerState {
        ServerState {
            uptime_seconds: process.uptime.as_secs_f64(),
            waiting_pops: process.waiting,
            waiting_groups: process.groups,
            listening: process.connected,
            polling: process.polling,
            polls: process.pops.polls,
            empty_polls: process.pops.empty_polls,
            failed_polls: process.pops.failed_polls,
            pops_served: process.pops.items,
            pops_refused: process.pops.refused,
        }
    }
}

/// The backlogs of queues and groups.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Analytics {
    overview: Overview,
    consumer_groups: Vec<GroupState>,
    server: ServerState,
}

/// The database.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DatabaseState {
    version: String,
    database_bytes: u64,
    connections: u64,
    active_connections: u64,
    /// The age of the oldest transaction, which keeps all rows that were deleted since.
    oldest_transaction_seconds: f64,
    /// The tables of this schema, largest first.
    tables: Vec<TableState>,
}

/// A table.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TableState {
    name: String,
    /// With indexes and TOAST.
    bytes: u64,
    /// The estimated numbers of rows and dead rows.
    rows: u64,
    dead_rows: u64,
    #[schema(value_type = Option<String>, format = DateTime)]
    last_autovacuum_at: Option<Timestamp>,
}

impl From<engine::DatabaseState> for DatabaseState {
    fn from(database: engine::DatabaseState) -> DatabaseState {
        let table = |table: engine::TableState| TableState {
            name: table.name,
            bytes: table.bytes,
            rows: table.rows,
            dead_rows: table.dead_rows,
            last_autovacuum_at: table.vacuumed_at.map(Timestamp),
        };
        DatabaseState {
            version: database.version,
            database_bytes: database.bytes,
            connections: database.connections,
            active_connections: database.active,
            oldest_transaction_seconds: database.oldest_transaction.as_secs_f64(),
            tables: database.tables.into_iter().map(table).collect(),
        }
    }
}

/// An empty result.
#[derive(Serialize, ToSchema)]
#[schema(as = RefreshResult)]
struct Refreshed {
    success: bool,
}

/// The state of queues and server.
#[utoipa::path(
    get, path = "/status", tag = "administration", params(Unused),
    responses(
        (status = 200, description = "The state", body = Status),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn status(State(queues): State<Queues>) -> Result<Json<Status>, ApiError> {
    Ok(Json(Status {
        overview: queues.overview().await?.into(),
        maintenance: queues.maintenance().await?.into(),
        server: queues.process().into(),
    }))
}

/// Lists queues with the number of their messages.
#[utoipa::path(
    get, path = "/status/queues", tag = "administration", params(Search),
    responses(
        (status = 200, description = "The queues", body = QueueList),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn queues(state: State<Queues>, query: Query) -> Result<Json<QueueList>, ApiError> {
    super::resources::queues(state, query).await
}

/// A queue with its consumer groups and their positions in each partition.
#[utoipa::path(
    get, path = "/status/queues/{queue}", tag = "administration",
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

async fn queue_slashed(
    state: State<Queues>,
    Path((queue, rest)): Path<(String, String)>,
    query: Query,
) -> Result<Json<QueueDetail>, ApiError> {
    self::queue(state, Path(format!("{queue}/{rest}")), query).await
}

/// The current backlogs of queues and groups. History is not stored.
#[utoipa::path(
    get, path = "/status/analytics", tag = "administration", params(Unused),
    responses(
        (status = 200, description = "The backlogs", body = Analytics),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn analytics(State(queues): State<Queues>) -> Result<Json<Analytics>, ApiError> {
    Ok(Json(Analytics {
        overview: queues.overview().await?.into(),
        consumer_groups: queues.groups(None, None).await?.into_iter().map(Into::into).collect(),
        server: queues.process().into(),
    }))
}

/// The server that answers.
#[utoipa::path(
    get, path = "/analytics/system-metrics", tag = "administration", params(Unused),
    responses((status = 200, description = "The counters of the server since its start", body = ServerState))
)]
async fn system_metrics(State(queues): State<Queues>) -> Json<ServerState> {
    Json(queues.process().into())
}

/// The server that answers.
#[utoipa::path(
    get, path = "/analytics/worker-metrics", tag = "administration", params(Unused),
    responses((status = 200, description = "The counters of the server since its start", body = ServerState))
)]
async fn worker_metrics(State(queues): State<Queues>) -> Json<ServerState> {
    Json(queues.process().into())
}

/// The database.
#[utoipa::path(
    get, path = "/analytics/postgres-stats", tag = "administration",
    responses(
        (status = 200, description = "The state of the database", body = DatabaseState),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn postgres_stats(State(queues): State<Queues>) -> Result<Json<DatabaseState>, ApiError> {
    Ok(Json(queues.database().await?.into()))
}

/// Does nothing: statistics are read when they are requested.
#[utoipa::path(
    post, path = "/stats/refresh", tag = "administration",
    responses((status = 200, description = "Nothing had to be done", body = Refreshed))
)]
async fn refresh() -> Json<Refreshed> {
    Json(Refreshed { success: true })
}
