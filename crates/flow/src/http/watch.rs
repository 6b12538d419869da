//! `GET /tasks/{task_uuid}/events`: everything that becomes of a task, as it happens, and its history.
//!
//! A stream of server-sent events: each transition under its id, by which a client that was cut off goes on (`Last-Event-ID`). Between them comments show that the connection lives. It
//! ends with the task, or with the server. A client that comes back after the end is answered with 204, which tells it not to come again.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream, StreamExt as _};
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;
use web::{Failure, Id, Path, Query, Refusal};

use super::{long_page, uuid};
use crate::error::Error;
use crate::flow::Flow;
use crate::task::wait::News;
use crate::transition::{Transition, TransitionId, TransitionPage};

/// How often a comment is sent while nothing happens: often enough for proxies, which give up after a minute as a rule.
const COMMENT_EVERY: Duration = Duration::from_secs(15);
/// How long one wait is; it is only begun again.
const WAIT: Duration = Duration::from_secs(3_600);
/// What a client presents that was cut off.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new().routes(routes!(events)).routes(routes!(history))
}

/// Which transitions.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `history`, described here")]
struct After {
    /// What the page before it said as `next`.
    #[param(pattern = r"^[0-9]{1,18}-[0-9]{1,2}-[0-9]{1,9}-[0-9]{1,9}-[0-9]{1,9}$")]
    after: Option<String>,
    /// How many at most; 1 000 if it is not given.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// An event.
#[derive(ToSchema)]
#[schema(as = TaskEvent)]
#[expect(dead_code, reason = "as events are written, described here")]
struct Told {
    /// `transition`, or `end`.
    event: String,
    /// Of a transition: what to present to go on from there.
    #[schema(required = false)]
    id: String,
    /// A transition, as JSON.
    data: String,
}

/// Everything that became of a task and its steps so far, in order.
#[utoipa::path(
    get, path = "/tasks/{task_uuid}/transitions", tag = "tasks",
    params(("task_uuid" = Id, Path, description = "The task"), After),
    responses(
        (status = 200, description = "Transitions", body = TransitionPage),
        (status = 400, description = "Invalid parameter", body = Failure),
        (status = 404, description = "There is no such task", body = Failure),
    )
)]
pub(super) async fn history(
    State(flow): State<Flow>,
    Path(task): Path<String>,
    query: Query,
) -> Result<Json<TransitionPage>, Refusal> {
    let task = uuid("task_uuid", &task)?;
    let after = query.text("after").map(|text| text.parse::<TransitionId>()).transpose();
    let after = after.map_err(|error| Refusal::bad(format!("after: {error}")))?;
    let found = flow.transitions_after(task, after.as_ref(), long_page(&query)?).await?;
    Ok(Json(found.ok_or(Error::NoTask { task })?))
}

/// Everything that becomes of a task and its steps, as it happens: server-sent events, each `transition` with a transition as its data, and at last `end`.
#[utoipa::path(
    get, path = "/tasks/{task_uuid}/events", tag = "tasks",
    params(
        ("task_uuid" = Id, Path, description = "The task"),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that arrived; from the first, if it is not given")
    ),
    responses(
        (status = 200, description = "Events", content_type = "text/event-stream", body = Told),
        (status = 204, description = "The task has ended, and nothing comes after that event"),
        (status = 400, description = "Something cannot be meant", body = Failure),
        (status = 404, description = "There is no such task", body = Failure),
        (status = 503, description = "Too many wait, or the database is away; try again", body = Failure),
    )
)]
pub(super) async fn events(
    State(flow): State<Flow>,
    Path(task): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let task = uuid("task_uuid", &task)?;
    let after = headers.get(LAST_EVENT_ID).map(|id| {
        let id = String::from_utf8_lossy(id.as_bytes());
        id.parse::<TransitionId>().map_err(|error| Refusal::bad(format!("Last-Event-ID: {error}")))
    });
    let after = after.transpose()?;
    // What there is now, so that what cannot be streamed is refused with its status.
    let first = flow.watch(task, after, Instant::now()).await?;
    if first.over && first.transitions.is_empty() && after.is_some() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let alive = KeepAlive::new().interval(COMMENT_EVERY);
    Ok(Sse::new(told(flow, task, after, first)).keep_alive(alive).into_response())
}

/// Where a stream is.
enum At {
    /// BelowBounds this, with these to be told.
    Told(Option<TransitionId>, News),
    End,
}

fn told(
    flow: Flow,
    task: Uuid,
    after: Option<TransitionId>,
    first: News,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let news = stream::unfold((flow, At::Told(after, first)), move |(flow, at)| async move {
        let At::Told(after, news) = at else { return None };
        let after = news.transitions.last().map(|last| last.id).or(after);
        let mut events: Vec<_> = news.transitions.iter().map(event).collect();
        if news.over {
            events.push(Event::default().event("end").data("{}"));
            return Some((events, (flow, At::End)));
        }
        if !events.is_empty() {
            return Some((events, (flow, At::Told(after, News { transitions: Vec::new(), over: false }))));
        }
        match flow.watch(task, after, Instant::now() + WAIT).await {
            Ok(news) => Some((events, (flow, At::Told(after, news)))),
            Err(error) => {
                // The client comes back, with the id of the last event.
                tracing::debug!(error = pg::causes(&error), %task, "a stream of events ends before its task");
                None
            }
        }
    });
    news.flat_map(|events| stream::iter(events.into_iter().map(Ok)))
}

fn event(transition: &Transition) -> Event {
    let data = serde_json::to_string(transition).expect("a transition is JSON");
    Event::default().id(transition.id.to_string()).event("transition").data(data)
}
