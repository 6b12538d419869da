//! Verifies the credentials of each request.
//!
//! The result is a [`Principal`] in the extensions of the request. A request without credentials may do everything on
//! an open server, and nothing on one that requires authentication: the routes reject it, except for open ones. A
//! request with credentials that are not valid is rejected here, on every route.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use reveille_access::{AdminToken, Tokens};
use reveille_web::{ApiError, Principal};

/// The longest credentials, in bytes. A JSON Web Token has a few hundred.
const CREDENTIALS_MAX: usize = 8 * 1024;

/// How requests are authenticated. Cheap to clone. By default the server is open and knows no credentials.
#[derive(Clone, Debug, Default)]
pub struct Authentication {
    /// Whether a request without credentials is rejected.
    pub required: bool,
    /// The admin token of the configuration.
    pub admin: Option<AdminToken>,
    /// The tokens of the database; `None` before it is ready.
    pub tokens: Option<Tokens>,
}

impl Authentication {
    async fn principal(&self, headers: &HeaderMap) -> Result<Principal, ApiError> {
        let mut sent = headers.get_all(header::AUTHORIZATION).iter();
        let Some(credentials) = sent.next() else {
            return Ok(if self.required { Principal::anonymous() } else { Principal::anyone() });
        };
        let token = credentials.to_str().ok().filter(|text| text.len() <= CREDENTIALS_MAX).and_then(bearer);
        let (Some(token), None) = (token, sent.next()) else {
            return Err(ApiError::unauthenticated("one header `Authorization: Bearer TOKEN` is expected"));
        };
        if let Some(principal) = self.admin.as_ref().and_then(|admin| admin.verify(token)) {
            return Ok(principal);
        }
        let verified = match &self.tokens {
            Some(tokens) => tokens.verify(token).await.map_err(ApiError::from)?,
            None => return Err(ApiError::unavailable("the server is starting; retry on this connection")),
        };
        verified.ok_or_else(|| ApiError::unauthenticated("the token is not valid: unknown, expired or revoked"))
    }
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
    mut request: Request,
    next: Next,
) -> Response {
    match authentication.principal(request.headers()).await {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
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
