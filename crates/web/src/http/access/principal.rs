//! Who asks.

use std::fmt;
use std::future::pending;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::glob::Glob;
use super::grant::{Grant, Role};
use crate::http::ApiError;

/// How a client has authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Credentials {
    /// Not at all: the server is open.
    Open,
    /// Not at all, and the server requires it.
    Missing,
    /// By the admin token of the server's configuration.
    AdminToken,
    /// By a token of the database.
    Token,
    /// By a JSON Web Token.
    Jwt,
    /// By a session of the console.
    Session,
    /// By a client certificate.
    Certificate,
}

impl Credentials {
    /// Its name, as in the audit table.
    pub fn as_str(self) -> &'static str {
        match self {
            Credentials::Open => "open",
            Credentials::Missing => "missing",
            Credentials::AdminToken => "admin token",
            Credentials::Token => "token",
            Credentials::Jwt => "jwt",
            Credentials::Session => "session",
            Credentials::Certificate => "certificate",
        }
    }
}

/// Who asks, and what it may do. A request extension; cheap to clone.
#[derive(Clone)]
pub struct Principal(Arc<Identity>);

#[derive(Clone)]
struct Identity {
    name: String,
    credentials: Credentials,
    grants: Vec<Grant>,
    payloads: bool,
    /// When its credentials expire.
    expires: Option<Instant>,
    /// Becomes true when its credentials are revoked.
    revoked: Option<watch::Receiver<bool>>,
}

/// The names that a client may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visible {
    /// All.
    All,
    /// Those that match one of these patterns; none, if there are none.
    Matching(Vec<Glob>),
}

impl Visible {
    /// Whether `name` is one of them.
    pub fn includes(&self, name: &str) -> bool {
        match self {
            Visible::All => true,
            Visible::Matching(globs) => globs.iter().any(|glob| glob.matches(name)),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        matches!(self, Visible::Matching(globs) if globs.is_empty())
    }

    /// Patterns for `name like any($1)`. `None`: all names.
    pub fn like(&self) -> Option<Vec<String>> {
        match self {
            Visible::All => None,
            Visible::Matching(globs) => Some(globs.iter().map(Glob::like).collect()),
        }
    }

    fn of(globs: impl Iterator<Item = Glob>) -> Visible {
        let mut matching = Vec::new();
        for glob in globs {
            if glob.is_all() {
                return Visible::All;
            }
            if !matching.contains(&glob) {
                matching.push(glob);
            }
        }
        Visible::Matching(matching)
    }
}

impl Principal {
    /// A client of an open server: it may do everything.
    pub fn anyone() -> Principal {
        Principal::new("anyone", Credentials::Open, vec![Grant::everything(Role::Admin)], true)
    }

    /// A client without credentials of a server that requires them: it may do nothing.
    pub fn anonymous() -> Principal {
        Principal::new("anonymous", Credentials::Missing, Vec::new(), false)
    }

    /// A client that has authenticated. `payloads`: whether it may see payloads.
    pub fn new(name: impl Into<String>, credentials: Credentials, grants: Vec<Grant>, payloads: bool) -> Principal {
        let (name, expires, revoked) = (name.into(), None, None);
        Principal(Arc::new(Identity { name, credentials, grants, payloads, expires, revoked }))
    }

    /// The same with credentials that end: at a time, or when `revoked` becomes true.
    pub fn ending(self, expires: Option<Instant>, revoked: watch::Receiver<bool>) -> Principal {
        let identity = Arc::unwrap_or_clone(self.0);
        Principal(Arc::new(Identity { expires, revoked: Some(revoked), ..identity }))
    }

    /// Resolves when the credentials end: a request that is waiting then has to end, too.
    pub async fn ended(&self) {
        let expired = async {
            match self.0.expires {
                Some(expires) => sleep_until(expires).await,
                None => pending().await,
            }
        };
        let revoked = async {
            let Some(mut revoked) = self.0.revoked.clone() else { return pending().await };
            if revoked.wait_for(|revoked| *revoked).await.is_err() {
                // They were only forgotten: the next request reads them again.
                pending::<()>().await;
            }
        };
        tokio::select! {
            () = expired => {}
            () = revoked => {}
        }
    }

    /// Whether the credentials can end while a request waits.
    pub(super) fn ends(&self) -> bool {
        self.0.expires.is_some() || self.0.revoked.is_some()
    }

    /// The name of the token, the subject of the JWT, the name of the user.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// How it has authenticated.
    pub fn credentials(&self) -> Credentials {
        self.0.credentials
    }

    /// What it is granted.
    pub fn grants(&self) -> &[Grant] {
        &self.0.grants
    }

    /// Whether it has credentials, or needs none.
    pub fn is_authenticated(&self) -> bool {
        self.0.credentials != Credentials::Missing
    }

    /// Whether it may see payloads: data of messages, contexts, inputs, results, histories. A worker sees those of the
    /// work that it claims in any case.
    pub fn sees_payloads(&self) -> bool {
        self.0.payloads
    }

    /// The name that the server records as the producer of a message. `None` on an open server, where the client
    /// gives it.
    pub fn producer(&self) -> Option<&str> {
        (self.0.credentials != Credentials::Open).then_some(&self.0.name)
    }

    /// Whether it has the role for everything.
    pub fn may(&self, role: Role) -> bool {
        self.with(role).any(Grant::is_unscoped)
    }

    /// Whether it has the role for this queue.
    pub fn may_queue(&self, role: Role, queue: &str) -> bool {
        self.with(role).any(|grant| grant.covers_queue(queue))
    }

    /// Whether it has the role for this namespace.
    pub fn may_namespace(&self, role: Role, namespace: &str) -> bool {
        self.with(role).any(|grant| grant.covers_namespace(namespace))
    }

    /// The queues for which it has the role.
    pub fn queues(&self, role: Role) -> Visible {
        Visible::of(self.with(role).filter_map(Grant::queues))
    }

    /// The namespaces for which it has the role.
    pub fn namespaces(&self, role: Role) -> Visible {
        Visible::of(self.with(role).filter_map(Grant::namespaces))
    }

    /// Requires the role for everything.
    ///
    /// # Errors
    /// 403, or 401 without credentials.
    pub fn require(&self, role: Role) -> Result<(), ApiError> {
        if self.may(role) { Ok(()) } else { Err(self.denied(role, format_args!("all queues and namespaces"))) }
    }

    /// Requires the role for a queue.
    ///
    /// # Errors
    /// 403, or 401 without credentials.
    pub fn require_queue(&self, role: Role, queue: &str) -> Result<(), ApiError> {
        let may = self.may_queue(role, queue);
        if may { Ok(()) } else { Err(self.denied(role, format_args!("the queue {queue:?}"))) }
    }

    /// Requires the role for a namespace.
    ///
    /// # Errors
    /// 403, or 401 without credentials.
    pub fn require_namespace(&self, role: Role, namespace: &str) -> Result<(), ApiError> {
        let may = self.may_namespace(role, namespace);
        if may { Ok(()) } else { Err(self.denied(role, format_args!("the namespace {namespace:?}"))) }
    }

    /// The error for a missing role: it names the role and what it is missing for.
    pub(super) fn denied(&self, role: Role, scope: fmt::Arguments<'_>) -> ApiError {
        if !self.is_authenticated() {
            return ApiError::unauthenticated("this server requires authentication: send `Authorization: Bearer …`");
        }
        let Identity { name, grants, .. } = &*self.0;
        let grants: Vec<String> = grants.iter().map(Grant::to_string).collect();
        let granted = if grants.is_empty() { "nothing".to_owned() } else { grants.join("; ") };
        let message = format!("this needs the role {role} for {scope}; {name:?} is granted: {granted}");
        ApiError::new(StatusCode::FORBIDDEN, message)
    }

    fn with(&self, role: Role) -> impl Iterator<Item = &Grant> {
        self.0.grants.iter().filter(move |grant| grant.role.includes(role))
    }
}

/// Grants only: a name may be secret enough to stay out of logs.
impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { credentials, grants, payloads, .. } = &*self.0;
        let mut debug = f.debug_struct("Principal");
        debug
            .field("credentials", credentials)
            .field("grants", grants)
            .field("payloads", payloads)
            .finish_non_exhaustive()
    }
}

/// A request without a principal is one that no server has checked: 401.
impl<S: Send + Sync> FromRequestParts<S> for Principal {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Principal, ApiError> {
        let found = parts.extensions.get::<Principal>().cloned();
        found.ok_or_else(|| ApiError::unauthenticated("the credentials of this request were not checked"))
    }
}
