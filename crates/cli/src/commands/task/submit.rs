//! `reveille task submit`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::watch;
use crate::{
    client::{self, Route},
    commands::{input, remote::Remote},
    config::remote::task::Submit,
    error::Error,
};

#[derive(Serialize)]
struct Request<'a> {
    namespace: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    context: Box<RawValue>,
    priority: i16,
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    initiator: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Deserialize)]
struct Created {
    task_uuid: String,
}

pub(super) async fn run(remote: &Remote, args: Submit) -> Result<(), Error> {
    let request = Request {
        namespace: &args.namespace,
        name: &args.name,
        version: args.template_version.as_deref(),
        context: input::json("the context", args.context.as_deref().unwrap_or("{}")).await?,
        priority: args.priority,
        tags: &args.tag,
        correlation_id: args.correlation_id.as_deref(),
        idempotency_key: args.idempotency_key.as_deref(),
        initiator: args.initiator.as_deref(),
        reason: args.reason.as_deref(),
    };
    let submitted = remote.client.post(&Route::new("/v1/tasks"), &request).await;
    let task = match submitted {
        Ok(answer) => {
            let created: Created = answer.json()?;
            if !(args.watch && remote.screen.is_json()) {
                remote.changed(&answer, &created.task_uuid)?;
            }
            created.task_uuid
        }
        // It exists already: with a watch, that one is followed.
        Err(client::Error::Rejected { status: 409, message, body }) if args.watch => {
            let rejected = |body| client::Error::Rejected { status: 409, message, body };
            let Ok(Created { task_uuid }) = serde_json::from_str(&body) else { return Err(rejected(body).into()) };
            task_uuid
        }
        Err(error) => return Err(error.into()),
    };
    if args.watch { watch::run(remote, &task).await } else { Ok(()) }
}
