//! A message to push, from a text.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::config::remote::queue::Push;

/// A message to push. Its payload is sent as it was written, with all digits of its numbers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Item<'a> {
    queue: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    payload: Box<RawValue>,
}

/// A line with more than a payload.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Given {
    partition: Option<String>,
    transaction_id: Option<String>,
    trace_id: Option<String>,
    payload: Box<RawValue>,
}

impl<'a> Item<'a> {
    /// The message of a text, as the command line says. The error completes "the payload …".
    pub(super) fn of(args: &'a Push, text: &str, id: Option<String>) -> Result<Item<'a>, String> {
        let not_json = |error: serde_json::Error| format!("is not JSON: {error}");
        let given = if args.items {
            serde_json::from_str(text).map_err(|error| format!("is not an item: {error}"))?
        } else {
            let payload = match args.text {
                true => serde_json::value::to_raw_value(text).map_err(not_json)?,
                false => RawValue::from_string(text.trim().to_owned()).map_err(not_json)?,
            };
            Given { partition: None, transaction_id: id, trace_id: None, payload }
        };
        Ok(Item {
            queue: &args.queue,
            partition: given.partition.or_else(|| args.partition.clone()),
            transaction_id: given.transaction_id,
            trace_id: given.trace_id.or_else(|| args.trace_id.clone()),
            payload: given.payload,
        })
    }

    /// About how many bytes it takes in a request.
    pub(super) fn size(&self) -> usize {
        const NAMES: usize = 128;
        let optional = [&self.partition, &self.transaction_id, &self.trace_id];
        let names: usize = optional.into_iter().flatten().map(String::len).sum();
        NAMES + self.queue.len() + names + self.payload.get().len()
    }
}
