//! `GET /tasks/{task_uuid}/events` and `…/transitions`: the transitions of a task, as they happen and as history.
//!
//! The stream consists of server-sent events. Each transition has an id, from which a disconnected client resumes
//! (`Last-Event-ID`). Comments keep the connection alive in between. The stream ends with the task or the server. A
//! client that reconnects after the end of the task is answered with 204, which tells it not to reconnect.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt as _};
use reveille_web::{ApiError, Failure, Id, Path, Query};
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::{long_page, uuid};
use crate::error::Error;
use crate::flow::Flow;
use crate::query::transition::{Transition, TransitionId, TransitionPage};
use crate::task::wait::TaskProgress;

/// How often a comment is sent while nothing happens. Most proxies close a connection after an idle minute.
const COMMENT_EVERY: Duration = Duration::from_secs(15);
/// How long one wait lasts before it is repeated.
const WAIT: Duration = Duration::from_secs(3_600);
/// The header in which a reconnecting client sends the id of its last event.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new().routes(routes!(events)).routes(routes!(history))
}

/// A page of transitions.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `history`, described here")]
struct After {
    /// The `next` of the previous page.
    #[param(pattern = r"^[0-9]{1,18}-[0-9]{1,2}-[0-9]{1,9}-[0-9]{1,9}-[0-9]{1,9}$")]
    after: Option<String>,
    /// The most transitions to return; default 1000.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// A server-sent event.
#[derive(ToSchema)]
#[schema(as = TaskEvent)]
#[expect(dead_code, reason = "written by axum, described here")]
struct TaskEvent {
    /// `transition` or `end`.
    event: String,
    /// Of a transition: the id to resume from.
    #[schema(required = false)]
    id: String,
    /// The transition, as JSON.
    data: String,
}

/// The transitions of a task and its steps so far, in order.
#[utoipa::path(
    get, path = "/tasks/{task_uuid}/transitions", tag = "tasks",
    params(("task_uuid" = Id, Path, description = "The task"), After),
    responses(
        (status = 200, description = "Transitions", body = TransitionPage),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such task", body = Failure),
    )
)]
pub(super) async fn history(
    State(flow): State<Flow>,
    Path(task): Path<String>,
    query: Query,
) -> Result<Json<TransitionPage>, ApiError> {
    let task = uuid("task_uuid", &task)?;
    let after = query.text("after").map(|text| text.parse::<TransitionId>()).transpose();
    let after = after.map_err(|error| ApiError::bad_request(format!("after: {error}")))?;
    let found = flow.transitions_after(task, after.as_ref(), long_page(&query)?).await?;
    Ok(Json(found.ok_or(Error::NoTask { task })?))
}

/// Streams the transitions of a task and its steps as server-sent events: one `transition` each, and `end` at the end.
#[utoipa::path(
    get, path = "/tasks/{task_uuid}/events", tag = "tasks",
    params(
        ("task_uuid" = Id, Path, description = "The task"),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event received; default: from the first event")
    ),
    responses(
        (status = 200, description = "Events", content_type = "text/event-stream", body = TaskEvent),
        (status = 204, description = "The task has ended, and there are no events after this id"),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such task", body = Failure),
        (status = 503, description = "Too many requests are waiting, or the database is unavailable; retry", body = Failure),
    )
)]
pub(super) async fn events(
    State(flow): State<Flow>,
    Path(task): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let task = uuid("task_uuid", &task)?;
    let after = headers.get(LAST_EVENT_ID).map(|id| {
        let id = String::from_utf8_lossy(id.as_bytes());
        id.parse::<TransitionId>().map_err(|error| ApiError::bad_request(format!("Last-Event-ID: {error}")))
    });
    let after = after.transpose()?;
    // Read before the stream starts, so that errors are answered with their status.
    let first = flow.watch(task, after, Instant::now()).await?;
    if first.over && first.transitions.is_empty() && after.is_some() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let alive = KeepAlive::new().interval(COMMENT_EVERY);
    Ok(Sse::new(transitions(flow, task, after, first)).keep_alive(alive).into_response())
}

/// The position of a stream.
enum Position {
    /// After this transition, with these to send.
    After(Option<TransitionId>, TaskProgress),
    End,
}

fn transitions(
    flow: Flow,
    task: Uuid,
    after: Option<TransitionId>,
    first: TaskProgress,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let batches = stream::unfold((flow, Position::After(after, first)), move |(flow, position)| async move {
        let Position::After(after, changes) = position else { return None };
        let after = changes.transitions.last().map(|last| last.id).or(after);
        let mut events: Vec<_> = changes.transitions.iter().map(event).collect();
        if changes.over {
            events.push(Event::default().event("end").data("{}"));
            return Some((events, (flow, Position::End)));
        }
        if !events.is_empty() {
            return Some((
                events,
                (flow, Position::After(after, TaskProgress { transitions: Vec::new(), over: false })),
            ));
        }
        match flow.watch(task, after, Instant::now() + WAIT).await {
            Ok(changes) => Some((events, (flow, Position::After(after, changes)))),
            Err(error) => {
                // The client reconnects with the id of its last event.
                tracing::debug!(error = reveille_pg::causes(&error), %task, "stream of task events ended before the task");
                None
            }
        }
    });
    batches.flat_map(|events| stream::iter(events.into_iter().map(Ok)))
}

fn event(transition: &Transition) -> Event {
    let data = serde_json::to_string(transition).expect("a transition is JSON");
    Event::default().id(transition.id.to_string()).event("transition").data(data)
}
