//! `/analytics/…`: how tasks went, and where they spent their time.

use axum::Json;
use axum::extract::State;
use time::{Duration, OffsetDateTime};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::{Failure, Query, Refusal, Time};

use super::label;
use super::schema::Label;
use crate::flow::Flow;
use crate::query::analytics::{Bottlenecks, Performance};
use crate::query::list::PAGE_MAX;

/// How far back, if that is not said.
const BACK: Duration = Duration::days(1);
/// Steps that are told, if that is not said.
const STEPS: u64 = 10;

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new().routes(routes!(performance)).routes(routes!(bottlenecks))
}

/// Which tasks.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `which`, described here")]
struct Which {
    /// Of this namespace; of all, if it is not given.
    #[param(value_type = Option<Label>)]
    namespace: Option<String>,
    /// Submitted since then; for a day, if it is not given.
    #[param(value_type = Option<Time>)]
    since: Option<String>,
}

/// How many.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `bottlenecks`, described here")]
struct Many {
    /// How many steps at most; 10 if it is not given.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

fn which(query: &Query) -> Result<(Option<String>, OffsetDateTime), Refusal> {
    let since = query.time("since")?.unwrap_or_else(|| OffsetDateTime::now_utc() - BACK);
    Ok((label(query, "namespace")?, since))
}

/// How tasks went, by template.
#[utoipa::path(
    get, path = "/analytics/performance", tag = "analytics", params(Which),
    responses(
        (status = 200, description = "Figures", body = Performance),
        (status = 400, description = "Something cannot be meant", body = Failure),
    )
)]
pub(super) async fn performance(State(flow): State<Flow>, query: Query) -> Result<Json<Performance>, Refusal> {
    let (namespace, since) = which(&query)?;
    Ok(Json(flow.performance(namespace.as_deref(), since).await?))
}

/// Where tasks spent their time, by step.
#[utoipa::path(
    get, path = "/analytics/bottlenecks", tag = "analytics", params(Which, Many),
    responses(
        (status = 200, description = "Figures, the step that took longest first", body = Bottlenecks),
        (status = 400, description = "Something cannot be meant", body = Failure),
    )
)]
pub(super) async fn bottlenecks(State(flow): State<Flow>, query: Query) -> Result<Json<Bottlenecks>, Refusal> {
    let (namespace, since) = which(&query)?;
    let limit = query.number("limit", 1..=PAGE_MAX as u64)?.unwrap_or(STEPS);
    Ok(Json(flow.bottlenecks(namespace.as_deref(), since, limit as usize).await?))
}
