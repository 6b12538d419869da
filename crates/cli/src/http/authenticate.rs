//! Verifies the credentials of each request.
//!
//! The result is a [`Principal`] in the extensions of the request. A request without credentials may do everything on
//! an open server, and nothing on one that requires authentication: the routes reject it, except for open ones. A
//! request with credentials that are not valid is rejected here, on every route.

use std::time::Duration;

use axum::{
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use reveille_access::{AdminToken, Tokens, jwt, oidc::Oidc};
use reveille_pg::audit::acting;
use reveille_web::{ApiError, Credentials, Grant, Principal, RequestId, Role, proceed};
use tokio::{sync::watch, time::Instant};

use super::{cookie::Cookie, front::CONSOLE, handshake::Peer, in_progress::InProgress, login::is_own};

/// The longest credentials, in bytes: a JSON Web Token and the name of the scheme.
const CREDENTIALS_MAX: usize = jwt::TOKEN_MAX + 16;

/// How requests are authenticated. Cheap to clone. By default the server is open and knows no credentials.
#[derive(Clone, Debug, Default)]
pub struct Authentication {
    /// Whether a request without credentials is rejected.
    pub required: bool,
    /// The admin token of the configuration.
    pub admin: Option<AdminToken>,
    /// The tokens of the database; `None` before it is ready.
    pub tokens: Option<Tokens>,
    /// Verifies JSON Web Tokens.
    pub jwt: Option<jwt::Verifier>,
    /// Logs users of the console in.
    pub oidc: Option<Oidc>,
    /// The address under which browsers reach the server.
    pub public_url: Option<String>,
    /// The role of clients with a client certificate.
    pub certificate_role: Option<Role>,
    /// Bounds the requests of each client.
    pub in_progress: InProgress,
}

impl Authentication {
    async fn principal(&self, request: &Parts) -> Result<Principal, ApiError> {
        let mut sent = request.headers.get_all(header::AUTHORIZATION).iter();
        let Some(credentials) = sent.next() else { return self.without_token(request).await };
        let token = credentials.to_str().ok().filter(|text| text.len() <= CREDENTIALS_MAX).and_then(bearer);
        let (Some(token), None) = (token, sent.next()) else {
            return Err(ApiError::unauthenticated("one header `Authorization: Bearer TOKEN` is expected"));
        };
        if let Some(principal) = self.admin.as_ref().and_then(|admin| admin.verify(token)) {
            return Ok(principal);
        }
        if let Some(verifier) = self.jwt.as_ref().filter(|_| jwt::Verifier::is_token(token)) {
            return match verifier.verify(token).await {
                Ok(claims) => Ok(ending(claims.principal(Credentials::Jwt), claims.remaining())),
                Err(error @ jwt::Rejected::Invalid(_)) => Err(ApiError::unauthenticated(error.to_string())),
                Err(error) => Err(ApiError::unavailable(error.to_string())),
            };
        }
        let verified = match &self.tokens {
            Some(tokens) => tokens.verify(token).await.map_err(ApiError::from)?,
            None => return Err(ApiError::unavailable("the server is starting; retry on this connection")),
        };
        verified.ok_or_else(|| ApiError::unauthenticated("the token is not valid: unknown, expired or revoked"))
    }
}

impl Authentication {
    /// The client of a request without a token: a session of the console, or a client certificate.
    async fn without_token(&self, request: &Parts) -> Result<Principal, ApiError> {
        let peer = request.extensions.get::<Peer>();
        let secret = Cookie::Session.read(&request.headers, peer.is_some_and(|peer| peer.secure));
        if let (Some(secret), Some(tokens)) = (secret, &self.tokens)
            && let Some(principal) = tokens.verify_session(secret).await.map_err(ApiError::from)?
        {
            return if may_use_cookie(request) { Ok(principal) } else { Err(foreign()) };
        }
        if let (Some(role), Some(name)) = (self.certificate_role, peer.and_then(|peer| peer.certificate.as_deref())) {
            let payloads = role == Role::Admin;
            return Ok(Principal::new(name, Credentials::Certificate, vec![Grant::everything(role)], payloads));
        }
        Ok(if self.required { Principal::anonymous() } else { Principal::anyone() })
    }
}

/// The same client until its token expires.
fn ending(principal: Principal, within: Duration) -> Principal {
    // Nothing revokes it before: the sender is dropped.
    let (_, never) = watch::channel(false);
    principal.ending(Instant::now().checked_add(within), never)
}

/// Whether a request may act by its cookie: browsers send cookies with requests that other sites cause. The guard has
/// rejected those that name another origin; here it must be named, except for pages of the console, which only read.
fn may_use_cookie(request: &Parts) -> bool {
    let path = request.uri.path();
    let is_page = request.method.is_safe() && (path == CONSOLE || path.starts_with(PAGES));
    is_page || is_own(&request.headers)
}

/// What the paths of pages begin with.
const PAGES: &str = "/console/";

fn foreign() -> ApiError {
    let message =
        "a request with a session needs the header `Origin` or `Sec-Fetch-Site`: programs send a token instead";
    ApiError::new(StatusCode::FORBIDDEN, message)
}

/// The token of the scheme `Bearer`.
fn bearer(credentials: &str) -> Option<&str> {
    let (scheme, token) = credentials.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Adds the principal to a request, or rejects it.
pub(super) async fn authenticate(
    State(authentication): State<Authentication>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let principal = match authentication.principal(&parts).await {
        Ok(principal) => principal,
        Err(error) => return error.into_response(),
    };
    let Some(counted) = authentication.in_progress.begin(&principal) else {
        return too_many(authentication.in_progress.max());
    };
    let changes = !matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
    let audit = authentication.tokens.as_ref().map(Tokens::audit).filter(|_| changes);
    let actor = audit.map(|audit| {
        let id = parts.extensions.get::<RequestId>().map_or("", RequestId::as_str);
        audit.actor(&principal, id)
    });
    parts.extensions.insert(principal);
    let response = proceed(next, Request::from_parts(parts, body));
    let response = match actor {
        Some(actor) => acting(actor, response).await,
        None => response.await,
    };
    response.map(|body| counted.until_read(body))
}

fn too_many(max: usize) -> Response {
    let message = format!("too many requests of this client are in progress: at most {max} are allowed; retry");
    let mut response = ApiError::new(StatusCode::TOO_MANY_REQUESTS, message).into_response();
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scheme is not case-sensitive; other schemes and empty tokens are no credentials.
    #[test]
    fn only_bearer_tokens_are_credentials() {
        for (credentials, token) in [
            ("Bearer a", Some("a")),
            ("bearer  a ", Some("a")),
            ("Bearer ", None),
            ("Bearer", None),
            ("Basic a", None),
            ("", None),
        ] {
            assert_eq!(bearer(credentials), token, "{credentials:?}");
        }
    }
}
