//! What a client needs to use each route of durable. Instances belong to no queue or namespace, so every role is needed
//! for everything.

use reveille_web::Need::{self, Role};
use reveille_web::Role::{Admin, Operator, Producer, Viewer};
use reveille_web::Scope::Everything;

/// The needs of all routes.
pub(super) const NEEDS: &[(&str, &str, Need)] = &[
    ("GET", "/v1/durable/instances", Role(Viewer, Everything)),
    ("POST", "/v1/durable/instances", Role(Producer, Everything)),
    ("GET", "/v1/durable/instances/{instance}", Role(Viewer, Everything)),
    ("DELETE", "/v1/durable/instances/{instance}", Role(Admin, Everything)),
    ("GET", "/v1/durable/instances/{instance}/history", Role(Viewer, Everything)),
    ("GET", "/v1/durable/instances/{instance}/executions", Role(Viewer, Everything)),
    ("GET", "/v1/durable/instances/{instance}/keys", Role(Viewer, Everything)),
    ("GET", "/v1/durable/instances/{instance}/children", Role(Viewer, Everything)),
    ("POST", "/v1/durable/instances/{instance}/events/{name}", Role(Producer, Everything)),
    ("POST", "/v1/durable/instances/{instance}/cancel", Role(Operator, Everything)),
    ("POST", "/v1/durable/prune", Role(Admin, Everything)),
    ("GET", "/v1/durable/figures", Role(Viewer, Everything)),
];
