//! Starting instances, raising events, cancelling.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use reveille_web::{ApiError, Body, Failure, Path};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{DurableText, InstanceId, short};
use crate::inspect::Instances;
use crate::operate::{Sent, Start, Started};

/// The reason if a cancellation gives none.
const DEFAULT_REASON: &str = "cancelled by an operator";

pub(super) fn routes() -> OpenApiRouter<Instances> {
    OpenApiRouter::new().routes(routes!(start)).routes(routes!(raise)).routes(routes!(cancel))
}

/// An instance to start. At most one of `input` and `text` is given.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StartRequest)]
struct StartRequest {
    /// The id of the instance: any text that does not contain `sub::`.
    #[schema(value_type = InstanceId)]
    instance: String,
    /// The name of the orchestration. Whether a runtime knows it is not checked.
    #[schema(value_type = DurableText)]
    name: String,
    /// The version of the orchestration; default: the runtime chooses.
    #[schema(value_type = Option<DurableText>)]
    version: Option<String>,
    /// The input as JSON, whose text the orchestration gets; default: null.
    #[schema(value_type = Option<Object>)]
    input: Option<Box<RawValue>>,
    /// The input as the text itself.
    text: Option<String>,
}

/// An event to raise. At most one of `data` and `text` is given.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RaiseRequest)]
struct RaiseRequest {
    /// The data as JSON, whose text the orchestration gets; default: null.
    #[schema(value_type = Option<Object>)]
    data: Option<Box<RawValue>>,
    /// The data as the text itself.
    text: Option<String>,
    /// Puts it into the queue of that name instead, where it stays until the orchestration takes it.
    #[serde(default)]
    #[schema(required = false)]
    queue: bool,
}

/// Why an instance is cancelled.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CancelInstanceRequest)]
struct CancelRequest {
    /// The reason, which its history shows.
    #[schema(value_type = Option<DurableText>)]
    reason: Option<String>,
}

/// Starts an instance. Repeating the request changes nothing.
#[utoipa::path(
    post, path = "/instances", tag = "durable", request_body = StartRequest,
    responses(
        (status = 201, description = "It was started", body = Started),
        (status = 200, description = "It had been started before; nothing was changed", body = Started),
        (status = 400, description = "A parameter is invalid; nothing was changed", body = Failure),
        (status = 409, description = "There is an instance of another orchestration or version with this id", body = Failure),
    )
)]
async fn start(State(instances): State<Instances>, body: Body) -> Result<(StatusCode, Json<Started>), ApiError> {
    let StartRequest { instance, name, version, input, text } = body.json()?;
    let name = short("name", &name)?;
    if name.is_empty() {
        return Err(ApiError::bad_request("invalid parameter `name`: must not be empty"));
    }
    let version = version.map(|version| short("version", &version)).transpose()?.filter(|text| !text.is_empty());
    let input = payload("input", input, text)?;
    let started = instances.begin(Start { instance, name, version, input }).await?;
    Ok((if started.existed { StatusCode::OK } else { StatusCode::CREATED }, Json(started)))
}

/// Raises an event for an instance. Subscriptions that are open get it.
#[utoipa::path(
    post, path = "/instances/{instance}/events/{name}", tag = "durable",
    params(
        ("instance" = InstanceId, Path, description = "The instance"),
        ("name" = DurableText, Path, description = "The event, or the queue"),
    ),
    request_body = RaiseRequest,
    responses(
        (status = 200, description = "It was sent", body = Sent),
        (status = 400, description = "A parameter is invalid; nothing was changed", body = Failure),
        (status = 404, description = "There is no such instance", body = Failure),
        (status = 409, description = "The instance has ended", body = Failure),
    )
)]
async fn raise(
    State(instances): State<Instances>,
    Path((instance, name)): Path<(String, String)>,
    body: Body,
) -> Result<Json<Sent>, ApiError> {
    let RaiseRequest { data, text, queue } = body.json()?;
    let data = payload("data", data, text)?;
    Ok(Json(instances.raise(&instance, short("name", &name)?, data, queue).await?))
}

/// Asks an instance to end. Its next turn fails it and cancels its activities and sub-orchestrations.
#[utoipa::path(
    post, path = "/instances/{instance}/cancel", tag = "durable",
    params(("instance" = InstanceId, Path, description = "The instance")),
    request_body = CancelRequest,
    responses(
        (status = 200, description = "The request was sent", body = Sent),
        (status = 400, description = "A parameter is invalid; nothing was changed", body = Failure),
        (status = 404, description = "There is no such instance", body = Failure),
        (status = 409, description = "The instance has ended", body = Failure),
    )
)]
async fn cancel(
    State(instances): State<Instances>,
    Path(instance): Path<String>,
    body: Body,
) -> Result<Json<Sent>, ApiError> {
    let CancelRequest { reason } = body.json()?;
    let reason = short("reason", reason.as_deref().unwrap_or(DEFAULT_REASON))?;
    Ok(Json(instances.cancel(&instance, reason).await?))
}

/// The payload of a request: the text of its JSON, or its text.
fn payload(what: &str, json: Option<Box<RawValue>>, text: Option<String>) -> Result<String, ApiError> {
    match (json, text) {
        (Some(_), Some(_)) => {
            Err(ApiError::bad_request(format!("invalid parameters `{what}` and `text`: only one of them may be given")))
        }
        (Some(json), None) => Ok(json.get().to_owned()),
        (None, Some(text)) => Ok(text),
        (None, None) => Ok("null".to_owned()),
    }
}
