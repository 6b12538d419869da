//! `GET /domain_events`: what steps told when they ended.

use axum::Json;
use axum::extract::State;
use utoipa::IntoParams;
use web::{Failure, Query, Refusal};

use super::schema::Label;
use super::{label, page};
use crate::flow::Flow;
use crate::query::domain_event::{EventFilter, EventPage};

/// Which events.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct Which {
    /// After the one with this cursor; from the first, if it is not given.
    #[param(pattern = r"^[0-9]{1,15}\.[0-9]{1,15}$")]
    after: Option<String>,
    /// Of tasks in this namespace.
    #[param(value_type = Option<Label>)]
    namespace: Option<String>,
    /// Of this name.
    #[param(value_type = Option<Label>)]
    name: Option<String>,
    /// How many at most; 100 if it is not given.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// What steps told, in order. Whoever goes on from the last cursor gets every event once.
#[utoipa::path(
    get, path = "/domain_events", tag = "tasks", params(Which),
    responses(
        (status = 200, description = "Events", body = EventPage),
        (status = 400, description = "Something cannot be meant", body = Failure),
    )
)]
pub(super) async fn list(State(flow): State<Flow>, query: Query) -> Result<Json<EventPage>, Refusal> {
    let filter = EventFilter {
        after: query.name("after"),
        namespace: label(&query, "namespace")?,
        names: label(&query, "name")?.map(|name| vec![name]),
    };
    Ok(Json(flow.domain_events(&filter, page(&query)?).await?))
}
