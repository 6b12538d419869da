//! `/traces…`: notes of consumers about messages.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use reveille_web::{ApiError, Body, Failure, Id, Path, Query, Time, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{page, partition};
use crate::admin::resources::Listed;
use crate::admin::traces::{NewTrace, Period, Trace, TraceName};
use crate::http::api_error::missing;
use crate::http::field::{self, Raw};
use crate::http::schema::Name;
use crate::queues::Queues;

/// The default page size.
const TRACES: u32 = 100;

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new()
        .routes(routes!(add))
        .routes(routes!(names))
        .routes(routes!(named))
        .route("/traces/by-name/{name}/{*rest}", get(named_slashed))
        .routes(routes!(of_message))
        .route("/traces/{partitionId}/{transactionId}/{*rest}", get(of_message_slashed))
}

/// A note to add to a message.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TraceRequest)]
struct Note<'a> {
    /// The transaction id of the message.
    #[serde(borrow, default)]
    #[schema(required, value_type = Name)]
    transaction_id: Raw<'a>,
    /// The id of its partition.
    #[serde(borrow, default)]
    #[schema(required, value_type = Id)]
    partition_id: Raw<'a>,
    /// The consumer group; default: reading without a group.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Name>)]
    consumer_group: Raw<'a>,
    /// The names to find it by.
    #[schema(value_type = Option<Vec<Name>>, max_items = 100)]
    trace_names: Option<Vec<String>>,
    /// The type of the event; default `info`.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Name>)]
    event_type: Raw<'a>,
    /// Any JSON.
    #[serde(borrow, default)]
    #[schema(required = false, value_type = Value)]
    data: Raw<'a>,
    /// The name of the worker.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Name>)]
    worker_id: Raw<'a>,
}

impl Note<'_> {
    fn read(self) -> Result<NewTrace, ApiError> {
        let id = field::name(self.partition_id, "partitionId")?.ok_or_else(|| missing("partitionId"))?;
        let transaction_id = field::name(self.transaction_id, "transactionId")?;
        Ok(NewTrace {
            transaction_id: transaction_id.ok_or_else(|| missing("transactionId"))?,
            partition_id: partition(&id)?,
            group: field::name(self.consumer_group, "consumerGroup")?,
            names: self.trace_names.unwrap_or_default(),
            event_type: field::name(self.event_type, "eventType")?.unwrap_or_else(|| "info".to_owned()),
            data: self.data.unwrap_or(RawValue::NULL).to_owned(),
            worker: field::name(self.worker_id, "workerId")?,
        })
    }
}

/// An added trace.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TraceResult)]
struct Noted {
    success: bool,
    /// The number of the trace.
    id: i64,
}

/// A note about a message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Trace)]
struct Shown {
    id: i64,
    transaction_id: String,
    partition_id: String,
    queue: String,
    partition: String,
    consumer_group: String,
    trace_names: Vec<String>,
    event_type: String,
    #[schema(value_type = Value)]
    data: Box<RawValue>,
    worker_id: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<Trace> for Shown {
    fn from(trace: Trace) -> Shown {
        Shown {
            id: trace.id,
            transaction_id: trace.transaction_id,
            partition_id: trace.partition_id.to_string(),
            queue: trace.queue,
            partition: trace.partition,
            consumer_group: trace.group,
            trace_names: trace.names,
            event_type: trace.event_type,
            data: trace.data,
            worker_id: trace.worker,
            created_at: Timestamp(trace.created_at),
        }
    }
}

/// Traces, in order.
#[derive(Serialize, ToSchema)]
struct TraceList {
    traces: Vec<Shown>,
    /// The total number.
    total: u64,
}

impl From<Listed<Trace>> for TraceList {
    fn from(listed: Listed<Trace>) -> TraceList {
        TraceList { traces: listed.rows.into_iter().map(Into::into).collect(), total: listed.total }
    }
}

/// A name of traces.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TraceName)]
struct Named {
    name: String,
    trace_count: u64,
    message_count: u64,
    #[schema(value_type = String, format = DateTime)]
    first_seen_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    last_seen_at: Timestamp,
}

impl From<TraceName> for Named {
    fn from(name: TraceName) -> Named {
        Named {
            name: name.name,
            trace_count: name.traces,
            message_count: name.messages,
            first_seen_at: Timestamp(name.first_at),
            last_seen_at: Timestamp(name.last_at),
        }
    }
}

/// Names, the latest first.
#[derive(Serialize, ToSchema)]
struct TraceNameList {
    names: Vec<Named>,
    /// The total number.
    total: u64,
}

/// Which part of a list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `page`, described here")]
struct Part {
    /// The most rows; default 100.
    limit: Option<u32>,
    /// The number of rows to skip.
    offset: Option<u32>,
}

/// A period.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `period`, described here")]
struct When {
    /// At this time or later.
    #[param(value_type = Option<Time>)]
    from: Option<String>,
    /// Before this time.
    #[param(value_type = Option<Time>)]
    to: Option<String>,
}

fn period(query: &Query) -> Result<Period, ApiError> {
    Ok(Period { from: query.time("from")?, before: query.time("to")? })
}

/// Adds a trace to a message.
#[utoipa::path(
    post, path = "/traces", tag = "administration", request_body = Note<'_>,
    responses(
        (status = 201, description = "The trace is added", body = Noted),
        (status = 400, description = "A parameter is invalid; nothing was noted", body = Failure),
        (status = 404, description = "There is no such partition", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn add(State(queues): State<Queues>, body: Body) -> Result<(StatusCode, Json<Noted>), ApiError> {
    let note = body.json::<Note<'_>>()?.read()?;
    match queues.add_trace(&note).await? {
        Some(id) => Ok((StatusCode::CREATED, Json(Noted { success: true, id }))),
        None => Err(ApiError::not_found("partitionId: there is no such partition")),
    }
}

/// Lists names of traces, the latest first.
#[utoipa::path(
    get, path = "/traces/names", tag = "administration",
    params(("search" = Option<Name>, Query, description = "Part of the name, case-insensitive"), When, Part),
    responses(
        (status = 200, description = "The names", body = TraceNameList),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn names(State(queues): State<Queues>, query: Query) -> Result<Json<TraceNameList>, ApiError> {
    let listed = queues.trace_names(query.text("search"), period(&query)?, page(&query, TRACES)?).await?;
    Ok(Json(TraceNameList { names: listed.rows.into_iter().map(Into::into).collect(), total: listed.total }))
}

/// The traces with a name, in order.
#[utoipa::path(
    get, path = "/traces/by-name/{name}", tag = "administration",
    params(("name" = Name, Path, description = "The name"), When, Part),
    responses(
        (status = 200, description = "The traces", body = TraceList),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn named(
    State(queues): State<Queues>,
    Path(name): Path<String>,
    query: Query,
) -> Result<Json<TraceList>, ApiError> {
    Ok(Json(queues.traces_named(&name, period(&query)?, page(&query, TRACES)?).await?.into()))
}

async fn named_slashed(
    state: State<Queues>,
    Path((name, rest)): Path<(String, String)>,
    query: Query,
) -> Result<Json<TraceList>, ApiError> {
    named(state, Path(format!("{name}/{rest}")), query).await
}

/// The traces of a message, in order.
#[utoipa::path(
    get, path = "/traces/{partitionId}/{transactionId}", tag = "administration",
    params(
        ("partitionId" = Id, Path, description = "Its partition"),
        ("transactionId" = Name, Path, description = "Its transaction id"),
        Part
    ),
    responses(
        (status = 200, description = "The traces", body = TraceList),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn of_message(
    State(queues): State<Queues>,
    Path((id, transaction)): Path<(String, String)>,
    query: Query,
) -> Result<Json<TraceList>, ApiError> {
    Ok(Json(queues.traces(partition(&id)?, &transaction, page(&query, TRACES)?).await?.into()))
}

async fn of_message_slashed(
    state: State<Queues>,
    Path((id, first, rest)): Path<(String, String, String)>,
    query: Query,
) -> Result<Json<TraceList>, ApiError> {
    of_message(state, Path((id, format!("{first}/{rest}"))), query).await
}
