//! What a route needs, and the middleware that enforces it.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{FromRequestParts as _, MatchedPath, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use utoipa::openapi::OpenApi;

use super::grant::Role;
use super::principal::Principal;
use crate::http::{ApiError, Query, proceed};

/// What a client needs to use a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: the route is open.
    Open,
    /// Credentials, with any role.
    Known,
    /// A role, for the queue or namespace that the request is about.
    Role(Role, Scope),
}

/// What a role is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All queues and namespaces.
    Everything,
    /// The queue that this path parameter names.
    Queue(&'static str),
    /// The namespace that this path parameter names.
    Namespace(&'static str),
    /// The queue that this query parameter names; without it, all queues.
    QueueIn(&'static str),
    /// The namespace that this query parameter names; without it, all namespaces.
    NamespaceIn(&'static str),
    /// At least one queue. The route's code checks the names in the body, or shows only what the client may see.
    SomeQueue,
    /// At least one namespace. The route's code checks the names in the body, or shows only what the client may see.
    SomeNamespace,
    /// At least one queue or namespace.
    Something,
}

/// The needs of routes, by method and path as it is registered. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Needs(Arc<HashMap<(Method, String), Need>>);

impl Needs {
    /// A table of `("GET", "/v1/tasks", need)`.
    ///
    /// # Panics
    /// If a method is invalid, or a route has two needs. Both are mistakes in the program.
    pub fn new(table: &[(&str, &str, Need)]) -> Needs {
        let mut needs = HashMap::with_capacity(table.len());
        for (method, path, need) in table {
            let method = Method::from_bytes(method.as_bytes()).expect("a method of HTTP");
            let earlier = needs.insert((method, (*path).to_owned()), *need);
            assert!(earlier.is_none(), "two needs of {path}");
        }
        Needs(Arc::new(needs))
    }

    /// Both tables.
    ///
    /// # Panics
    /// If both have a need of the same route.
    pub fn merge(self, other: Needs) -> Needs {
        let mut all = Arc::unwrap_or_clone(self.0);
        for (route, need) in other.0.iter() {
            assert!(all.insert(route.clone(), *need).is_none(), "two needs of {route:?}");
        }
        Needs(Arc::new(all))
    }

    /// The need of a route. `None`: there is no such route, or its need was forgotten.
    pub fn of(&self, method: &Method, path: &str) -> Option<Need> {
        // HEAD is handled by the GET route.
        let method = if method == Method::HEAD { Method::GET } else { method.clone() };
        self.0.get(&(method, path.to_owned())).copied()
    }

    /// All routes with their needs.
    pub fn iter(&self) -> impl Iterator<Item = (&Method, &str, Need)> {
        self.0.iter().map(|((method, path), need)| (method, path.as_str(), *need))
    }
}

/// The documented routes without a need, and the needs without a documented route that are no wildcard.
pub(crate) fn undocumented(needs: &Needs, document: &OpenApi) -> Vec<String> {
    let mut routes = Vec::new();
    for (path, item) in &document.paths.paths {
        let operations = [
            (Method::GET, &item.get),
            (Method::POST, &item.post),
            (Method::PUT, &item.put),
            (Method::PATCH, &item.patch),
            (Method::DELETE, &item.delete),
        ];
        routes.extend(operations.into_iter().filter(|(_, operation)| operation.is_some()).map(|(it, _)| (it, path)));
    }
    let forgotten = routes.iter().filter(|(method, path)| needs.of(method, path).is_none());
    let forgotten = forgotten.map(|(method, path)| format!("{method} {path} has no need"));
    let is_known = |method: &Method, path: &str| routes.iter().any(|(it, at)| it == method && at.as_str() == path);
    let gone = needs.iter().filter(|(method, path, _)| !path.contains("{*") && !is_known(method, path));
    forgotten.chain(gone.map(|(method, path, _)| format!("{method} {path} is no route"))).collect()
}

/// A middleware: rejects a request whose principal lacks what its route needs, before anything of the body is read.
pub async fn enforce(State(needs): State<Needs>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let need = route.as_deref().and_then(|route| needs.of(request.method(), route));
    let (mut parts, body) = request.into_parts();
    match check(need, &mut parts).await {
        Ok(()) => {
            let ending = parts.extensions.get::<Principal>().filter(|principal| principal.ends()).cloned();
            let response = proceed(next, Request::from_parts(parts, body));
            match ending {
                Some(principal) => until_ended(&principal, response).await,
                None => response.await,
            }
        }
        Err(error) => error.into_response(),
    }
}

/// Drops the request when its credentials end while it waits, which gives back what it has claimed.
async fn until_ended(principal: &Principal, response: impl Future<Output = Response>) -> Response {
    tokio::select! {
        biased;
        response = response => response,
        () = principal.ended() => ApiError::unauthenticated("the credentials have expired or were revoked").into_response(),
    }
}

async fn check(need: Option<Need>, parts: &mut Parts) -> Result<(), ApiError> {
    if need == Some(Need::Open) {
        return Ok(());
    }
    let principal = Principal::from_request_parts(parts, &()).await?;
    let (role, scope) = match need {
        Some(Need::Role(role, scope)) => (role, scope),
        Some(Need::Open | Need::Known) if principal.is_authenticated() => return Ok(()),
        Some(Need::Open | Need::Known) => return Err(principal.denied(Role::Viewer, format_args!("this route"))),
        // A method that the route does not have, or a forgotten entry.
        None => (Role::Admin, Scope::Everything),
    };
    let query = |name: &str| Query::of(parts.uri.query().unwrap_or_default()).name(name);
    let (queues, namespaces) = (|| principal.queues(role), || principal.namespaces(role));
    match scope {
        Scope::Everything => principal.require(role),
        Scope::Queue(name) => principal.require_queue(role, &in_path(name, parts).await?),
        Scope::Namespace(name) => principal.require_namespace(role, &in_path(name, parts).await?),
        Scope::QueueIn(name) => match query(name) {
            Some(queue) => principal.require_queue(role, &queue),
            None if queues() == super::Visible::All => Ok(()),
            None => Err(principal.denied(role, format_args!("all queues; name one with the parameter `{name}`"))),
        },
        Scope::NamespaceIn(name) => match query(name) {
            Some(namespace) => principal.require_namespace(role, &namespace),
            None if namespaces() == super::Visible::All => Ok(()),
            None => Err(principal.denied(role, format_args!("all namespaces; name one with the parameter `{name}`"))),
        },
        Scope::SomeQueue if queues().is_empty() => Err(principal.denied(role, format_args!("a queue"))),
        Scope::SomeNamespace if namespaces().is_empty() => Err(principal.denied(role, format_args!("a namespace"))),
        Scope::Something if queues().is_empty() && namespaces().is_empty() => {
            Err(principal.denied(role, format_args!("a queue or a namespace")))
        }
        Scope::SomeQueue | Scope::SomeNamespace | Scope::Something => Ok(()),
    }
}

/// The value of a path parameter, decoded.
async fn in_path(name: &str, parts: &mut Parts) -> Result<String, ApiError> {
    let parameters = RawPathParams::from_request_parts(parts, &()).await;
    let parameters =
        parameters.map_err(|error| ApiError::bad_request(format!("invalid path: {}", error.body_text())))?;
    let found = parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned());
    found.ok_or_else(|| ApiError::new(StatusCode::FORBIDDEN, format!("this route has no path parameter `{name}`")))
}
