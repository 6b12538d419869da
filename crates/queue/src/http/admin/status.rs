//! `/status…`, `/analytics/…`, `/stats/refresh`: what a console shows.
//!
//! Answered is what is cheap to know: depths, lags, what this process has counted since it started, and what PostgreSQL counts by itself. How much went through when is not stored:
//! `from`, `to` and `interval`, which consoles send, are taken and change nothing. Nothing has to be refreshed, because nothing is kept.

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

/// A period, which changes nothing: what went through when is not stored.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "not read, described here")]
struct Unused {
    /// Changes nothing.
    from: Option<String>,
    /// Changes nothing.
    to: Option<String>,
    /// Changes nothing.
    interval: Option<String>,
}

/// How everything is doing.
#[derive(Serialize, ToSchema)]
struct Status {
    /// Everything there is, in numbers.
    overview: Overview,
    maintenance: MaintenanceState,
    /// The server that answers.
    server: ServerState,
}

/// The server that answers, since it started.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ServerState {
    uptime_seconds: f64,
    /// Pops that wait.
    waiting_pops: usize,
    /// What they wait for: sources and groups, and others that are remembered.
    waiting_groups: usize,
    /// Whether it hears of what other servers do, or has to poll.
    listening: bool,
    polling: bool,
    /// Statements that looked for messages, and those of them that found none.
    polls: u64,
    empty_polls: u64,
    failed_polls: u64,
    /// Pops that were answered with messages.
    pops_served: u64,
    /// Pops that were refused because too many waited.
    pops_refused: u64,
}

impl From<engine::ProcessState> for ServerState {
    fn from(process: engine::ProcessState) -> ServerState {
        ServerState {
            uptime_seconds: process.uptime.as_secs_f64(),
            waiting_pops: process.waiting,
            waiting_groups: process.groups,
            listening: process.hearing,
            polling: process.polling,
            polls: process.pops.polls,
            empty_polls: process.pops.empty_polls,
            failed_polls: process.pops.failed_polls,
            pops_served: process.pops.items,
            pops_refused: process.pops.refused,
        }
    }
}

/// What waits, and for whom.
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
    /// How long the oldest transaction has lasted: until it ends nothing that was deleted since is really gone.
    oldest_transaction_seconds: f64,
    /// The tables of this schema, largest first.
    tables: Vec<TableState>,
}

/// A table.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct TableState {
    name: String,
    /// With all that belongs to it.
    bytes: u64,
    /// About how many rows live and are dead in it.
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

/// That nothing had to be done.
#[derive(Serialize, ToSchema)]
#[schema(as = RefreshResult)]
struct Refreshed {
    success: bool,
}

/// How everything is doing.
#[utoipa::path(
    get, path = "/status", tag = "administration", params(Unused),
    responses(
        (status = 200, description = "How", body = Status),
        (status = 503, description = "The database is away; try again", body = Failure),
    )
)]
async fn status(State(queues): State<Queues>) -> Result<Json<Status>, ApiError> {
    Ok(Json(Status {
        overview: queues.overview().await?.into(),
        maintenance: queues.maintenance().await?.into(),
        server: queues.process().into(),
    }))
}

/// Lists queues with what they hold.
#[utoipa::path(
    get, path = "/status/queues", tag = "administration", params(Search),
    responses(
        (status = 200, description = "The queues", body = QueueList),
        (status = 400, description = "Something cannot be meant", body = Failure),
        (status = 503, description = "The database is away; try again", body = Failure),
    )
)]
async fn queues(state: State<Queues>, query: Query) -> Result<Json<QueueList>, ApiError> {
    super::resources::queues(state, query).await
}

/// A queue, who reads it, and how far they have come in each partition.
#[utoipa::path(
    get, path = "/status/queues/{queue}", tag = "administration",
    params(("queue" = Name, Path, description = "The queue"), Part),
    responses(
        (status = 200, description = "All about it", body = QueueDetail),
        (status = 400, description = "Something cannot be meant", body = Failure),
        (status = 404, description = "There is no such queue", body = Failure),
        (status = 503, description = "The database is away; try again", body = Failure),
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

/// What waits, and for whom, now. What went through when is not stored.
#[utoipa::path(
    get, path = "/status/analytics", tag = "administration", params(Unused),
    responses(
        (status = 200, description = "What is known", body = Analytics),
        (status = 503, description = "The database is away; try again", body = Failure),
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
    responses((status = 200, description = "What it has counted since it started", body = ServerState))
)]
async fn system_metrics(State(queues): State<Queues>) -> Json<ServerState> {
    Json(queues.process().into())
}

/// The server that answers.
#[utoipa::path(
    get, path = "/analytics/worker-metrics", tag = "administration", params(Unused),
    responses((status = 200, description = "What it has counted since it started", body = ServerState))
)]
async fn worker_metrics(State(queues): State<Queues>) -> Json<ServerState> {
    Json(queues.process().into())
}

/// The database.
#[utoipa::path(
    get, path = "/analytics/postgres-stats", tag = "administration",
    responses(
        (status = 200, description = "How it is doing", body = DatabaseState),
        (status = 503, description = "The database is away; try again", body = Failure),
    )
)]
async fn postgres_stats(State(queues): State<Queues>) -> Result<Json<DatabaseState>, ApiError> {
    Ok(Json(queues.database().await?.into()))
}

/// Does nothing: numbers are asked for when they are shown.
#[utoipa::path(
    post, path = "/stats/refresh", tag = "administration",
    responses((status = 200, description = "They are fresh", body = Refreshed))
)]
async fn refresh() -> Json<Refreshed> {
    Json(Refreshed { success: true })
}
