//! `/v1/tokens` and `/v1/me`.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use reveille_web::{
    Api, ApiError, Body, Failure, Grant, Id, Need, Needs, Path, Principal, Query, Role, Scope, Timestamp, strict,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::audit::AuditFilter;
use crate::store::{NewToken, Stored};
use crate::tokens::Tokens;

/// The default and the maximum page size of the list.
const PAGE: u64 = 100;
const PAGE_MAX: u64 = 1_000;

/// The needs of the routes.
const NEEDS: &[(&str, &str, Need)] = &[
    ("GET", "/v1/tokens", Need::Role(Role::Admin, Scope::Everything)),
    ("POST", "/v1/tokens", Need::Role(Role::Admin, Scope::Everything)),
    ("DELETE", "/v1/tokens/{id}", Need::Role(Role::Admin, Scope::Everything)),
    ("GET", "/v1/me", Need::Known),
    ("GET", "/v1/audit", Need::Role(Role::Admin, Scope::Everything)),
];

/// The routes, and their OpenAPI document.
pub fn api(tokens: Tokens) -> Api {
    let routes = OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(revoke))
        .routes(routes!(me))
        .routes(routes!(audit));
    let mut routes = OpenApiRouter::new().nest("/v1", routes);
    let mut tag = utoipa::openapi::tag::Tag::new("access");
    tag.description = Some("Tokens, and what a client may do".to_owned());
    routes.get_openapi_mut().tags = Some(vec![tag]);
    Api::new(strict(routes).with_state(tokens), Needs::new(NEEDS))
}

/// A token without its text.
#[derive(Serialize, ToSchema)]
#[schema(as = AccessToken)]
struct Token {
    #[schema(value_type = Id)]
    id: String,
    name: String,
    grants: Vec<Grant>,
    /// Whether its client sees payloads.
    payloads: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    created_by: String,
    /// Null: never.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    /// To about a minute.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_used_at: Option<Timestamp>,
    expired: bool,
}

impl From<Stored> for Token {
    fn from(stored: Stored) -> Token {
        let Stored { id, name, grants, payloads, created_at, created_by, expires_at, last_used_at, expired } = stored;
        Token {
            id: id.to_string(),
            name,
            grants,
            payloads,
            created_at: Timestamp(created_at),
            created_by,
            expires_at: expires_at.map(Timestamp),
            last_used_at: last_used_at.map(Timestamp),
            expired,
        }
    }
}

/// A page of tokens.
#[derive(Serialize, ToSchema)]
struct TokenList {
    tokens: Vec<Token>,
    /// Pass it as `after` to get the next page; null: this is the last.
    next: Option<String>,
}

/// A token to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TokenRequest)]
struct Request {
    /// Its name, which identifies its client in lists, errors and the audit.
    #[schema(min_length = 1, max_length = 128)]
    name: String,
    #[schema(min_items = 1, max_items = 64)]
    grants: Vec<Grant>,
    /// Whether its client sees payloads: data of messages, contexts, inputs, results, histories.
    #[serde(default)]
    payloads: bool,
    /// Null: it does not expire.
    #[serde(default)]
    #[schema(exclusive_minimum = 0)]
    expires_in_seconds: Option<f64>,
}

/// A new token.
#[derive(Serialize, ToSchema)]
struct CreatedToken {
    /// Its text, shown only here.
    token: String,
    #[serde(flatten)]
    about: Token,
}

/// What the client of a request may do.
#[derive(Serialize, ToSchema)]
struct Me {
    name: String,
    /// How it has authenticated: `open` (not at all), `admin token`, `token`, `jwt`, `session`, `certificate`.
    credentials: &'static str,
    grants: Vec<Grant>,
    /// Whether it sees payloads.
    payloads: bool,
}

/// Lists tokens by name.
#[utoipa::path(
    get, path = "/tokens", tag = "access",
    params(
        ("after" = Option<String>, Query, description = "The `next` of the page before"),
        ("limit" = Option<u64>, Query, description = "Up to 1000; default: 100"),
    ),
    responses((status = 200, description = "A page of tokens", body = TokenList))
)]
async fn list(State(tokens): State<Tokens>, query: Query) -> Result<Json<TokenList>, ApiError> {
    let limit = query.number("limit", 1..=PAGE_MAX)?.unwrap_or(PAGE) as usize;
    let (found, more) = tokens.list(query.text("after"), limit).await?;
    let next = found.last().filter(|_| more).map(|token| token.name.clone());
    Ok(Json(TokenList { tokens: found.into_iter().map(Token::from).collect(), next }))
}

/// Creates a token. Its text is in this response and nowhere else.
#[utoipa::path(
    post, path = "/tokens", tag = "access", request_body = Request,
    responses(
        (status = 201, description = "The token with its text", body = CreatedToken),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 409, description = "There is a token of that name", body = Failure),
    )
)]
async fn create(
    State(tokens): State<Tokens>,
    principal: Principal,
    body: Body,
) -> Result<(StatusCode, Json<CreatedToken>), ApiError> {
    let Request { name, grants, payloads, expires_in_seconds: expires_in } = body.json()?;
    let (secret, stored) = tokens.create(NewToken { name, grants, payloads, expires_in }, principal.name()).await?;
    let created = CreatedToken { token: secret.reveal().to_owned(), about: stored.into() };
    Ok((StatusCode::CREATED, Json(created)))
}

/// Revokes a token on every server within a second, and ends its requests.
#[utoipa::path(
    delete, path = "/tokens/{id}", tag = "access",
    params(("id" = Id, Path, description = "The id of the token")),
    responses(
        (status = 204, description = "It is revoked"),
        (status = 400, description = "The id is no UUID", body = Failure),
        (status = 404, description = "There is no such token", body = Failure),
    )
)]
async fn revoke(State(tokens): State<Tokens>, Path(id): Path<String>) -> Result<StatusCode, ApiError> {
    let uuid = Uuid::try_parse(&id);
    let uuid =
        uuid.map_err(|_| ApiError::bad_request(format!("invalid parameter `id`: must be a UUID, got {id:?}")))?;
    let missing = || ApiError::not_found(format!("there is no token {id}"));
    tokens.revoke(uuid).await?.map(|_| StatusCode::NO_CONTENT).ok_or_else(missing)
}

/// Who the client of this request is, and what it may do.
#[utoipa::path(
    get, path = "/me", tag = "access",
    responses((status = 200, description = "The client", body = Me))
)]
async fn me(principal: Principal) -> Json<Me> {
    Json(Me {
        name: principal.name().to_owned(),
        credentials: principal.credentials().as_str(),
        grants: principal.grants().to_vec(),
        payloads: principal.sees_payloads(),
    })
}

/// A change.
#[derive(Serialize, ToSchema)]
struct AuditEntry {
    id: i64,
    /// When the transaction of the change began.
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// The name of the client.
    actor: String,
    /// How it has authenticated.
    credentials: String,
    /// Such as `queue.delete`.
    action: String,
    /// The name of the queue, the task, the token.
    target: String,
    /// Further facts.
    #[schema(value_type = Option<serde_json::Value>)]
    facts: Option<Box<RawValue>>,
    request_id: String,
}

/// A page of the audit.
#[derive(Serialize, ToSchema)]
struct AuditPage {
    audit: Vec<AuditEntry>,
    /// Pass it as `before` to get the next page; null: this is the last.
    next: Option<i64>,
}

/// Lists changes, newest first.
#[utoipa::path(
    get, path = "/audit", tag = "access",
    params(
        ("actor" = Option<String>, Query, description = "Of this client"),
        ("action" = Option<String>, Query, description = "Of this action"),
        ("target" = Option<String>, Query, description = "Of this target"),
        ("before" = Option<i64>, Query, description = "The `next` of the page before"),
        ("limit" = Option<u64>, Query, description = "Up to 1000; default: 100"),
    ),
    responses((status = 200, description = "A page of the audit", body = AuditPage))
)]
async fn audit(State(tokens): State<Tokens>, query: Query) -> Result<Json<AuditPage>, ApiError> {
    let limit = query.number("limit", 1..=PAGE_MAX)?.unwrap_or(PAGE) as usize;
    let filter = AuditFilter {
        before: query.number("before", 0..=i64::MAX as u64)?.map(|before| before as i64),
        actor: query.name("actor"),
        action: query.name("action"),
        target: query.name("target"),
    };
    let rows = tokens.audit().list(&filter, limit).await?;
    let next = rows.last().filter(|_| rows.len() == limit).map(|row| row.id);
    let audit = rows.into_iter().map(|row| AuditEntry {
        id: row.id,
        at: Timestamp(row.at),
        actor: row.actor,
        credentials: row.credentials,
        action: row.action,
        target: row.target,
        facts: row.detail.and_then(|detail| RawValue::from_string(detail).ok()),
        request_id: row.request_id,
    });
    Ok(Json(AuditPage { audit: audit.collect(), next }))
}
