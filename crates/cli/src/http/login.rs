//! Logging in to the console, and out: by a token, or by an OpenID provider.
//!
//! The browser gets the secret of a session in a cookie, see `cookie.rs`; the token itself is not kept. Attempts are
//! bounded per peer address. A form of another site cannot log a visitor in: the request has to name the server's own
//! origin.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    body::to_bytes,
    extract::{OriginalUri, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use reveille_access::{NewSession, SESSION_LASTS, Secret, Tokens, jwt};
use reveille_console::Login;
use reveille_web::{Credentials, Principal, proceed};
use tokio::time::timeout;

use super::{
    attempts::Attempts,
    authenticate::Authentication,
    cookie::{self, Cookie},
    front::CONSOLE,
    handshake::Peer,
    reply,
};

/// The largest form: a token and a path.
const FORM_MAX: usize = 32 * 1024;
/// How long a form may take to arrive.
const FORM_WITHIN: Duration = Duration::from_secs(10);
/// How long a login at an OpenID provider may take.
const LOGIN_WITHIN: Duration = Duration::from_secs(10 * 60);

/// The page after a login, relative to the pages of a login.
const OVERVIEW: &str = "../console";

/// What the routes of this module use.
#[derive(Clone)]
struct Logins {
    authentication: Authentication,
    tokens: Tokens,
    attempts: Arc<Attempts>,
}

/// The routes, if requests are authenticated with the tokens of a database.
pub(super) fn routes(authentication: &Authentication) -> Router {
    let Some(tokens) = authentication.tokens.clone() else { return Router::new() };
    let logins = Logins { authentication: authentication.clone(), tokens, attempts: Arc::default() };
    Router::new()
        .route("/console/login", get(page).post(by_token))
        .route("/console/logout", post(logout))
        .route("/console/login/oidc", get(begin))
        .route("/console/login/callback", get(finish))
        .with_state(logins)
}

/// Leads a visitor without credentials to the login. A layer of the console.
pub async fn required(request: Request, next: Next) -> Response {
    let known = request.extensions().get::<Principal>().is_none_or(Principal::is_authenticated);
    let is_page = request.method().is_safe() && super::front::wants_html(request.headers());
    if known || !is_page {
        return proceed(next, request).await;
    }
    let original = request.extensions().get::<OriginalUri>().map_or(request.uri(), |original| &original.0);
    let (path, query) = (original.path(), original.query());
    let page = path.strip_prefix(CONSOLE).unwrap_or_default().trim_start_matches('/');
    let wanted = query.map_or(page.to_owned(), |query| format!("{page}?{query}"));
    let parameter: String = form_urlencoded::byte_serialize(wanted.as_bytes()).collect();
    // Relative, so that it stays below the path under which a proxy serves this server.
    let above = "../".repeat(path.matches('/').count().saturating_sub(1));
    redirect(&format!("{above}console/login?next={parameter}"))
}

/// `GET /console/login`
async fn page(State(logins): State<Logins>, uri: Uri, principal: Principal) -> Response {
    let user = (principal.credentials() == Credentials::Session).then(|| principal.name());
    let provider = logins.authentication.oidc.is_some();
    let next = field(uri.query().unwrap_or_default().as_bytes(), "next").unwrap_or_default();
    Login { provider, user, next: &next, ..Login::default() }.page(StatusCode::OK, "./").await
}

/// `POST /console/login`
async fn by_token(State(logins): State<Logins>, Extension(peer): Extension<Peer>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let secure = cookie::is_secure(&parts.headers, &parts.extensions);
    if let Some(rejection) = logins.refuse(&parts.headers, peer.address, secure).await {
        return rejection;
    }
    let body = match timeout(FORM_WITHIN, to_bytes(body, FORM_MAX)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return reply::error(StatusCode::PAYLOAD_TOO_LARGE, "a login has at most 32 kB"),
        Err(_) => return reply::error(StatusCode::REQUEST_TIMEOUT, "the login did not arrive in time"),
    };
    let field = |name| field(&body, name).unwrap_or_default();
    match logins.session_of(field("token").trim()).await {
        Ok(Some(secret)) => logged_in(&secret, &after_login(&field("next")), secure),
        Ok(None) => logins.failed(StatusCode::UNAUTHORIZED, "This token is not valid.", "./").await,
        Err(message) => logins.failed(StatusCode::SERVICE_UNAVAILABLE, &message, "./").await,
    }
}

/// `POST /console/logout`
async fn logout(State(logins): State<Logins>, request: Request) -> Response {
    if !is_own(request.headers()) {
        return reply::error(StatusCode::FORBIDDEN, FOREIGN);
    }
    let tls = request.extensions().get::<Peer>().is_some_and(|peer| peer.secure);
    if let Some(secret) = Cookie::Session.read(request.headers(), tls)
        && let Err(error) = logins.tokens.end_session(secret).await
    {
        return logins.failed(StatusCode::SERVICE_UNAVAILABLE, &error.to_string(), "./").await;
    }
    let mut response = redirect("login");
    let secure = cookie::is_secure(request.headers(), request.extensions());
    response.headers_mut().append(header::SET_COOKIE, Cookie::Session.remove(secure));
    response
}

/// `GET /console/login/oidc`: sends the browser to the provider.
async fn begin(State(logins): State<Logins>, Extension(peer): Extension<Peer>) -> Response {
    let Some(oidc) = &logins.authentication.oidc else { return no_provider() };
    if let Err(after) = logins.attempts.count(peer.address) {
        return too_many(after);
    }
    let Ok(secret) = Secret::random() else {
        return logins.failed(StatusCode::SERVICE_UNAVAILABLE, "There are no random numbers.", "../").await;
    };
    match oidc.begin(secret.reveal()).await {
        Ok(address) => {
            let mut response = redirect(&address);
            let set = Cookie::Login.set(secret.reveal(), LOGIN_WITHIN, logins.secure(&peer));
            response.headers_mut().append(header::SET_COOKIE, set);
            response
        }
        Err(error) => logins.failed(StatusCode::BAD_GATEWAY, &error.to_string(), "../").await,
    }
}

/// `GET /console/login/callback`: the browser comes back from the provider.
async fn finish(
    State(logins): State<Logins>,
    Extension(peer): Extension<Peer>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let Some(oidc) = &logins.authentication.oidc else { return no_provider() };
    if let Err(after) = logins.attempts.count(peer.address) {
        return too_many(after);
    }
    let returned = |name| field(uri.query().unwrap_or_default().as_bytes(), name);
    if let Some(error) = returned("error") {
        let message =
            format!("The OpenID provider rejected the login: {}", error.chars().take(100).collect::<String>());
        return logins.failed(StatusCode::UNAUTHORIZED, &message, "../").await;
    }
    let secret = Cookie::Login.read(&headers, peer.secure).unwrap_or_default();
    let claims = match oidc
        .finish(secret, &returned("state").unwrap_or_default(), &returned("code").unwrap_or_default())
        .await
    {
        Ok(claims) => claims,
        Err(error) => return logins.failed(StatusCode::UNAUTHORIZED, &error.to_string(), "../").await,
    };
    if claims.grants.is_empty() {
        let message = format!("{} has no role here. An administrator has to grant one.", claims.user());
        return logins.failed(StatusCode::FORBIDDEN, &message, "../").await;
    }
    let (name, lasts) = (claims.user(), SESSION_LASTS);
    let session = NewSession { name, grants: claims.grants, payloads: claims.payloads, lasts };
    match logins.tokens.open_session(session).await {
        Ok(secret) => {
            let secure = logins.secure(&peer);
            let mut response = logged_in(secret.reveal(), "../../console", secure);
            response.headers_mut().append(header::SET_COOKIE, Cookie::Login.remove(secure));
            response
        }
        Err(error) => logins.failed(StatusCode::SERVICE_UNAVAILABLE, &error.to_string(), "../").await,
    }
}

impl Logins {
    /// Why a login is not even tried.
    async fn refuse(&self, headers: &HeaderMap, peer: IpAddr, secure: bool) -> Option<Response> {
        if !is_own(headers) {
            return Some(reply::error(StatusCode::FORBIDDEN, FOREIGN));
        }
        if !secure && !cookie::is_local(headers) {
            let message = "Use https://, or a loopback address: without TLS others could read the session.";
            return Some(self.failed(StatusCode::FORBIDDEN, message, "./").await);
        }
        self.attempts.count(peer).err().map(too_many)
    }

    /// Opens a session of a token. `None`: the token is not valid.
    async fn session_of(&self, token: &str) -> Result<Option<String>, String> {
        let Authentication { admin, jwt, .. } = &self.authentication;
        let open = async |principal: Principal, lasts| {
            let (name, grants) = (principal.name().to_owned(), principal.grants().to_vec());
            let session = NewSession { name, grants, payloads: principal.sees_payloads(), lasts };
            let opened = self.tokens.open_session(session).await.map_err(|error| error.to_string())?;
            Ok(Some(opened.reveal().to_owned()))
        };
        if let Some(principal) = admin.as_ref().and_then(|admin| admin.verify(token)) {
            return open(principal, SESSION_LASTS).await;
        }
        if let Some(verifier) = jwt.as_ref().filter(|_| jwt::Verifier::is_token(token)) {
            return match verifier.verify(token).await {
                Ok(claims) => open(claims.principal(Credentials::Jwt), claims.remaining()).await,
                Err(jwt::Rejected::Invalid(_)) => Ok(None),
                Err(error) => Err(error.to_string()),
            };
        }
        let opened = self.tokens.open_token_session(token).await.map_err(|error| error.to_string())?;
        Ok(opened.map(|secret| secret.reveal().to_owned()))
    }

    /// Whether the browser uses TLS, for a request without an origin.
    fn secure(&self, peer: &Peer) -> bool {
        peer.secure || self.authentication.public_url.as_ref().is_some_and(|url| url.starts_with("https://"))
    }

    async fn failed(&self, status: StatusCode, message: &str, base: &str) -> Response {
        let provider = self.authentication.oidc.is_some();
        Login { failure: Some(message), provider, ..Login::default() }.page(status, base).await
    }
}

const FOREIGN: &str = "this request does not come from a page of this server";

/// Whether a page of this server sent the request. The guard has rejected other origins; here one has to be named.
pub(super) fn is_own(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || headers.get("sec-fetch-site").is_some_and(|site| site == "same-origin")
}

/// A field of a form or a query.
fn field(form: &[u8], name: &str) -> Option<String> {
    form_urlencoded::parse(form).find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

/// The page after a login: below the console, whatever the form says.
fn after_login(wanted: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_.~%/?&=+".contains(character);
    let is_page = !wanted.is_empty() && wanted.len() <= 2_000 && wanted.chars().all(plain);
    let leaves = wanted.starts_with('/') || wanted.contains("..") || wanted.contains("//");
    if is_page && !leaves { format!("{OVERVIEW}/{wanted}") } else { OVERVIEW.to_owned() }
}

fn logged_in(secret: &str, to: &str, secure: bool) -> Response {
    let mut response = redirect(to);
    response.headers_mut().append(header::SET_COOKIE, Cookie::Session.set(secret, SESSION_LASTS, secure));
    response
}

/// 303 to an address, which is never kept.
fn redirect(to: &str) -> Response {
    let Ok(location) = HeaderValue::from_str(to) else {
        return reply::error(StatusCode::BAD_GATEWAY, "the address of the next page is invalid");
    };
    let headers = [(header::LOCATION, location), (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    (StatusCode::SEE_OTHER, headers).into_response()
}

fn too_many(after: Duration) -> Response {
    let mut response =
        reply::error(StatusCode::TOO_MANY_REQUESTS, "too many logins from this address: try again later");
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs() + 1));
    response
}

fn no_provider() -> Response {
    reply::error(StatusCode::NOT_FOUND, "there is no OpenID provider: log in with a token, or set --oidc-issuer")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A login leads to pages of the console only.
    #[test]
    fn a_login_leads_into_the_console() {
        for (wanted, to) in [
            ("", "../console"),
            ("queues/a%2Fb?tab=groups", "../console/queues/a%2Fb?tab=groups"),
            ("//evil.example", "../console"),
            ("/evil", "../console"),
            ("https://evil.example", "../console"),
            ("../api/v1/pop", "../console"),
            ("a\\b", "../console"),
        ] {
            assert_eq!(after_login(wanted), to, "{wanted}");
        }
    }
}
