//! What a client needs to use each route of the queue.
//!
//! Routes with a wildcard need their role for everything: the queue is not known before the path is interpreted. A
//! client whose role is limited to some queues has to escape the slashes of a name.

use reveille_web::Need::{self, Role};
use reveille_web::Role::{Admin, Operator, Producer, Viewer, Worker};
use reveille_web::Scope::{Everything, Queue, QueueIn};

/// The needs of all routes.
pub(super) const NEEDS: &[(&str, &str, Need)] = &[
    // Messages.
    ("POST", "/api/v1/push", Role(Producer, Everything)),
    ("GET", "/api/v1/pop", Role(Worker, Everything)),
    ("GET", "/api/v1/pop/queue/{queue}", Role(Worker, Queue("queue"))),
    ("GET", "/api/v1/pop/queue/{queue}/partition/{partition}", Role(Worker, Queue("queue"))),
    ("GET", "/api/v1/pop/queue/{queue}/{*rest}", Role(Worker, Everything)),
    ("POST", "/api/v1/ack", Role(Worker, Everything)),
    ("POST", "/api/v1/ack/batch", Role(Worker, Everything)),
    ("POST", "/api/v1/lease/{leaseId}/extend", Role(Worker, Everything)),
    ("POST", "/api/v1/transaction", Role(Admin, Everything)),
    ("POST", "/api/v1/configure", Role(Operator, Everything)),
    // Queues and consumer groups.
    ("GET", "/api/v1/resources/overview", Role(Viewer, Everything)),
    ("GET", "/api/v1/resources/queues", Role(Viewer, Everything)),
    ("GET", "/api/v1/resources/queues/{queue}", Role(Viewer, Queue("queue"))),
    ("GET", "/api/v1/resources/queues/{queue}/{*rest}", Role(Viewer, Everything)),
    ("DELETE", "/api/v1/resources/queues/{queue}", Role(Admin, Queue("queue"))),
    ("DELETE", "/api/v1/resources/queues/{queue}/{*rest}", Role(Admin, Everything)),
    ("GET", "/api/v1/resources/queues/{queue}/depth", Role(Viewer, Queue("queue"))),
    ("DELETE", "/api/v1/queues/{queue}/clear", Role(Admin, Queue("queue"))),
    ("DELETE", "/api/v1/queues/{queue}/{*rest}", Role(Admin, Everything)),
    ("GET", "/api/v1/resources/partitions", Role(Viewer, QueueIn("queue"))),
    ("GET", "/api/v1/resources/namespaces", Role(Viewer, Everything)),
    ("GET", "/api/v1/resources/tasks", Role(Viewer, Everything)),
    ("GET", "/api/v1/consumer-groups", Role(Viewer, Everything)),
    ("GET", "/api/v1/consumer-groups/lagging", Role(Viewer, Everything)),
    ("GET", "/api/v1/consumer-groups/{group}", Role(Viewer, Everything)),
    ("DELETE", "/api/v1/consumer-groups/{group}", Role(Admin, Everything)),
    ("GET", "/api/v1/consumer-groups/{group}/{*rest}", Role(Viewer, Everything)),
    ("DELETE", "/api/v1/consumer-groups/{group}/{*rest}", Role(Admin, Everything)),
    ("POST", "/api/v1/consumer-groups/{group}/{*rest}", Role(Operator, Everything)),
    ("DELETE", "/api/v1/consumer-groups/{group}/queues/{queue}", Role(Admin, Queue("queue"))),
    ("POST", "/api/v1/consumer-groups/{group}/subscription", Role(Operator, Everything)),
    ("POST", "/api/v1/consumer-groups/{group}/queues/{queue}/seek", Role(Operator, Queue("queue"))),
    (
        "POST",
        "/api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek",
        Role(Operator, Queue("queue")),
    ),
    // Single messages.
    ("GET", "/api/v1/messages", Role(Viewer, QueueIn("queue"))),
    ("GET", "/api/v1/messages/{partitionId}/{transactionId}", Role(Viewer, Everything)),
    ("GET", "/api/v1/messages/{partitionId}/{transactionId}/{*rest}", Role(Viewer, Everything)),
    ("DELETE", "/api/v1/messages/{partitionId}/{transactionId}", Role(Admin, Everything)),
    ("DELETE", "/api/v1/messages/{partitionId}/{transactionId}/{*rest}", Role(Admin, Everything)),
    ("POST", "/api/v1/messages/{partitionId}/{transactionId}/retry", Role(Operator, Everything)),
    ("POST", "/api/v1/messages/{partitionId}/{transactionId}/dlq", Role(Operator, Everything)),
    ("POST", "/api/v1/messages/{partitionId}/{transactionId}/{*rest}", Role(Operator, Everything)),
    ("GET", "/api/v1/dlq", Role(Viewer, QueueIn("queue"))),
    ("DELETE", "/api/v1/dlq", Role(Admin, QueueIn("queue"))),
    ("POST", "/api/v1/dlq/replay", Role(Operator, Everything)),
    ("POST", "/api/v1/traces", Role(Worker, Everything)),
    ("GET", "/api/v1/traces/{partitionId}/{transactionId}", Role(Viewer, Everything)),
    ("GET", "/api/v1/traces/{partitionId}/{transactionId}/{*rest}", Role(Viewer, Everything)),
    ("GET", "/api/v1/traces/by-name/{name}", Role(Viewer, Everything)),
    ("GET", "/api/v1/traces/by-name/{name}/{*rest}", Role(Viewer, Everything)),
    ("GET", "/api/v1/traces/names", Role(Viewer, Everything)),
    // Administration.
    ("GET", "/api/v1/system/maintenance", Role(Viewer, Everything)),
    ("POST", "/api/v1/system/maintenance", Role(Admin, Everything)),
    ("GET", "/api/v1/system/maintenance/pop", Role(Viewer, Everything)),
    ("POST", "/api/v1/system/maintenance/pop", Role(Admin, Everything)),
    ("GET", "/api/v1/status", Role(Viewer, Everything)),
    ("GET", "/api/v1/status/queues", Role(Viewer, Everything)),
    ("GET", "/api/v1/status/queues/{queue}", Role(Viewer, Queue("queue"))),
    ("GET", "/api/v1/status/queues/{queue}/{*rest}", Role(Viewer, Everything)),
    ("GET", "/api/v1/status/analytics", Role(Viewer, Everything)),
    ("GET", "/api/v1/analytics/system-metrics", Role(Viewer, Everything)),
    ("GET", "/api/v1/analytics/worker-metrics", Role(Viewer, Everything)),
    ("GET", "/api/v1/analytics/postgres-stats", Role(Viewer, Everything)),
    ("POST", "/api/v1/stats/refresh", Role(Viewer, Everything)),
];
