//! Checks the namespace of requests that name a task.
//!
//! The middleware of all routes compares roles with names in paths and parameters. A task is named by its UUID, so its
//! namespace is read first; but only for a client whose role is limited to some namespaces.

use std::sync::LazyLock;

use axum::extract::{FromRequestParts as _, MatchedPath, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use reveille_web::{ApiError, Need, Needs, Principal, Role};
use uuid::Uuid;

use super::{access, uuid};
use crate::error::Error;
use crate::flow::Flow;

/// The needs of all routes.
static NEEDS: LazyLock<Needs> = LazyLock::new(|| Needs::new(access::NEEDS));

/// The path parameter that names a task.
const TASK: &str = "task_uuid";

/// Requires a role for the namespaces of tasks. Tasks that do not exist need nothing.
pub(super) async fn require_tasks(
    flow: &Flow,
    principal: &Principal,
    role: Role,
    tasks: Vec<Uuid>,
) -> Result<(), ApiError> {
    if principal.may(role) || tasks.is_empty() {
        return Ok(());
    }
    let namespaces = flow.namespaces_of(&tasks).await?;
    namespaces.iter().try_for_each(|namespace| principal.require_namespace(role, namespace))
}

/// Middleware: requires the role of a route for the namespace of the task in its path.
pub(super) async fn of_task(State(flow): State<Flow>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let Some(path) = path.filter(|path| path.contains("{task_uuid}")) else { return next.run(request).await };
    let need = NEEDS.of(request.method(), &path);
    let (mut parts, body) = request.into_parts();
    let checked = async {
        let Some(Need::Role(role, _)) = need else { return Ok(()) };
        let principal = Principal::from_request_parts(&mut parts, &()).await?;
        if principal.may(role) {
            return Ok(());
        }
        let parameters = RawPathParams::from_request_parts(&mut parts, &()).await;
        let parameters = parameters.map_err(|error| ApiError::bad_request(error.body_text()))?;
        let task = parameters.iter().find(|(name, _)| *name == TASK).map_or("", |(_, value)| value);
        let task = uuid(TASK, task)?;
        let namespaces = flow.namespaces_of(&[task]).await?;
        if namespaces.is_empty() {
            return Err(Error::NoTask { task }.into());
        }
        namespaces.iter().try_for_each(|namespace| principal.require_namespace(role, namespace))
    };
    match checked.await {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(error) => error.into_response(),
    }
}

impl Flow {
    /// The namespaces of tasks, without those of tasks that do not exist.
    async fn namespaces_of(&self, tasks: &[Uuid]) -> crate::error::Result<Vec<String>> {
        use sqlx::Row as _;
        let inner = &self.inner;
        let query = || sqlx::query(&inner.sql.namespaces_of_tasks).bind(tasks);
        let rows = inner.db.ask("find the namespaces of tasks", query).await?;
        Ok(rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>()?)
    }
}
