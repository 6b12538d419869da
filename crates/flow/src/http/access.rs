//! What a client needs to use each route of flow.

use reveille_web::Need::{self, Role};
use reveille_web::Role::{Admin, Operator, Producer, Viewer, Worker};
use reveille_web::Scope::{Everything, Namespace, NamespaceIn, SomeNamespace};

/// The needs of all routes.
pub(super) const NEEDS: &[(&str, &str, Need)] = &[
    // Tasks.
    ("GET", "/v1/tasks", Role(Viewer, NamespaceIn("namespace"))),
    ("POST", "/v1/tasks", Role(Producer, SomeNamespace)),
    ("POST", "/v1/tasks/bulk", Role(Operator, SomeNamespace)),
    ("GET", "/v1/tasks/{task_uuid}", Role(Viewer, SomeNamespace)),
    ("PATCH", "/v1/tasks/{task_uuid}", Role(Operator, SomeNamespace)),
    ("DELETE", "/v1/tasks/{task_uuid}", Role(Operator, SomeNamespace)),
    ("POST", "/v1/tasks/{task_uuid}/resume", Role(Operator, SomeNamespace)),
    ("GET", "/v1/tasks/{task_uuid}/summary", Role(Viewer, SomeNamespace)),
    ("GET", "/v1/tasks/{task_uuid}/events", Role(Viewer, SomeNamespace)),
    ("GET", "/v1/tasks/{task_uuid}/transitions", Role(Viewer, SomeNamespace)),
    ("GET", "/v1/tasks/{task_uuid}/workflow_steps", Role(Viewer, SomeNamespace)),
    ("GET", "/v1/tasks/{task_uuid}/workflow_steps/{step}", Role(Viewer, SomeNamespace)),
    ("PATCH", "/v1/tasks/{task_uuid}/workflow_steps/{step}", Role(Operator, SomeNamespace)),
    ("GET", "/v1/tasks/{task_uuid}/workflow_steps/{step}/audit", Role(Viewer, SomeNamespace)),
    ("GET", "/v1/tasks/{task_uuid}/workflow_steps/{step}/waiting", Role(Viewer, SomeNamespace)),
    ("GET", "/v1/tasks/{task_uuid}/waiting", Role(Viewer, SomeNamespace)),
    ("GET", "/v1/tasks/{task_uuid}/attempts", Role(Viewer, SomeNamespace)),
    ("POST", "/v1/tasks/{task_uuid}/fork", Role(Operator, SomeNamespace)),
    // Templates and workers.
    ("GET", "/v1/workers", Role(Viewer, NamespaceIn("namespace"))),
    ("GET", "/v1/templates", Role(Viewer, NamespaceIn("namespace"))),
    ("POST", "/v1/templates", Role(Operator, SomeNamespace)),
    ("GET", "/v1/templates/{namespace}/{name}/{version}", Role(Viewer, Namespace("namespace"))),
    ("POST", "/v1/workers/claim", Role(Worker, SomeNamespace)),
    ("POST", "/v1/workers/heartbeat", Role(Worker, SomeNamespace)),
    ("POST", "/v1/workers/complete", Role(Worker, SomeNamespace)),
    ("POST", "/v1/workers/fail", Role(Worker, SomeNamespace)),
    ("POST", "/v1/workers/checkpoint", Role(Worker, SomeNamespace)),
    ("POST", "/v1/workers/release", Role(Worker, SomeNamespace)),
    // Schedules, namespaces, limits, dead letters.
    ("GET", "/v1/analytics/bottlenecks", Role(Viewer, NamespaceIn("namespace"))),
    ("GET", "/v1/analytics/performance", Role(Viewer, NamespaceIn("namespace"))),
    ("GET", "/v1/dlq", Role(Viewer, NamespaceIn("namespace"))),
    ("GET", "/v1/dlq/{id}", Role(Viewer, Everything)),
    ("PATCH", "/v1/dlq/{id}", Role(Operator, Everything)),
    ("GET", "/v1/domain_events", Role(Viewer, NamespaceIn("namespace"))),
    ("GET", "/v1/limits", Role(Viewer, NamespaceIn("namespace"))),
    ("PUT", "/v1/limits", Role(Operator, SomeNamespace)),
    ("GET", "/v1/namespace_templates", Role(Viewer, Everything)),
    ("PUT", "/v1/namespace_templates/{name}", Role(Operator, Everything)),
    ("DELETE", "/v1/namespace_templates/{name}", Role(Admin, Everything)),
    ("GET", "/v1/namespaces", Role(Viewer, SomeNamespace)),
    ("PUT", "/v1/namespaces/{namespace}", Role(Operator, Namespace("namespace"))),
    ("GET", "/v1/orchestration", Role(Viewer, Everything)),
    ("GET", "/v1/orchestration/mode", Role(Viewer, Everything)),
    ("PUT", "/v1/orchestration/mode", Role(Admin, Everything)),
    ("GET", "/v1/schedules", Role(Viewer, NamespaceIn("namespace"))),
    ("PUT", "/v1/schedules", Role(Operator, SomeNamespace)),
    ("GET", "/v1/schedules/{namespace}/{name}", Role(Viewer, Namespace("namespace"))),
    ("DELETE", "/v1/schedules/{namespace}/{name}", Role(Operator, Namespace("namespace"))),
    ("POST", "/v1/schedules/{namespace}/{name}/pause", Role(Operator, Namespace("namespace"))),
    ("POST", "/v1/schedules/{namespace}/{name}/resume", Role(Operator, Namespace("namespace"))),
    ("POST", "/v1/schedules/{namespace}/{name}/run", Role(Operator, Namespace("namespace"))),
];
