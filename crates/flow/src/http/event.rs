//! `GET /domain_events`: the events that steps published when they ended.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Failure, Query};
use utoipa::IntoParams;

use super::schema::Label;
use super::{label, page};
use crate::flow::Flow;
use crate::query::domain_event::{EventFilter, EventPage};

/// A page of events.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct ListParams {
    /// After the event with this cursor; default: from the first.
    #[param(pattern = r"^[0-9]{1,15}\.[0-9]{1,15}$")]
    after: Option<String>,
    /// Of tasks in this namespace.
    #[param(value_type = Option<Label>)]
    namespace: Option<String>,
    /// With this name.
    #[param(value_type = Option<Label>)]
    name: Option<String>,
    /// The most events to return; default 100.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// Lists the events of steps in commit order. A client that continues from the last cursor receives every event once.
#[utoipa::path(
    get, path = "/domain_events", tag = "tasks", params(ListParams),
    responses(
        (status = 200, description = "Events", body = EventPage),
        (status = 400, description = "A parameter is invalid", body = Failure),
    )
)]
pub(super) async fn list(State(flow): State<Flow>, query: Query) -> Result<Json<EventPage>, ApiError> {
    let filter = EventFilter {
        after: query.name("after"),
        namespace: label(&query, "namespace")?,
        names: label(&query, "name")?.map(|name| vec![name]),
    };
    Ok(Json(flow.domain_events(&filter, page(&query)?).await?))
}
