//! `/analytics/…`: durations and failures of tasks and steps.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Failure, Query, Time};
use time::{Duration, OffsetDateTime};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::label;
use super::schema::Label;
use crate::flow::Flow;
use crate::query::analytics::{Bottlenecks, Performance};
use crate::query::list::PAGE_MAX;

/// The default period.
const BACK: Duration = Duration::days(1);
/// The default number of steps.
const STEPS: u64 = 10;

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new().routes(routes!(performance)).routes(routes!(bottlenecks))
}

/// Params tasks to analyse.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `params`, described here")]
struct Params {
    /// Of this namespace; default: of all.
    #[param(value_type = Option<Label>)]
    namespace: Option<String>,
    /// Submitted since this time; default: the last day.
    #[param(value_type = Option<Time>)]
    since: Option<String>,
}

/// How many steps to return.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `bottlenecks`, described here")]
struct LimitParam {
    /// The most steps to return; default 10.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

fn params(query: &Query) -> Result<(Option<String>, OffsetDateTime), ApiError> {
    let since = query.time("since")?.unwrap_or_else(|| OffsetDateTime::now_utc() - BACK);
    Ok((label(query, "namespace")?, since))
}

/// Durations and outcomes of tasks, by template.
#[utoipa::path(
    get, path = "/analytics/performance", tag = "analytics", params(Params),
    responses(
        (status = 200, description = "Figures", body = Performance),
        (status = 400, description = "A parameter is invalid", body = Failure),
    )
)]
pub(super) async fn performance(State(flow): State<Flow>, query: Query) -> Result<Json<Performance>, ApiError> {
    let (namespace, since) = params(&query)?;
    Ok(Json(flow.performance(namespace.as_deref(), since).await?))
}

/// Where tasks spend their time, by step.
#[utoipa::path(
    get, path = "/analytics/bottlenecks", tag = "analytics", params(Params, LimitParam),
    responses(
        (status = 200, description = "Figures, the slowest step first", body = Bottlenecks),
        (status = 400, description = "A parameter is invalid", body = Failure),
    )
)]
pub(super) async fn bottlenecks(State(flow): State<Flow>, query: Query) -> Result<Json<Bottlenecks>, ApiError> {
    let (namespace, since) = params(&query)?;
    let limit = query.number("limit", 1..=PAGE_MAX as u64)?.unwrap_or(STEPS);
    Ok(Json(flow.bottlenecks(namespace.as_deref(), since, limit as usize).await?))
}
