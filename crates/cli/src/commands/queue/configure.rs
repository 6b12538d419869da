//! `reveille queue configure`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{client::Route, commands::remote::Remote, config::remote::queue::Configure, error::Error};

/// The options that are numbers.
const NUMBERS: &[&str] = &[
    "completedRetentionSeconds",
    "consumedRetentionSeconds",
    "delayedProcessing",
    "leaseTime",
    "maxSize",
    "maxWaitTimeSeconds",
    "priority",
    "retentionSeconds",
    "retryDelay",
    "retryLimit",
    "ttl",
    "windowBuffer",
];
/// Those that are true or false.
const FLAGS: &[&str] =
    &["chargeExpiredLeases", "deadLetterQueue", "dlqAfterMaxRetries", "encryptionEnabled", "retentionEnabled"];

#[derive(Serialize)]
struct Request<'a> {
    queue: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    options: BTreeMap<&'a str, Value>,
}

#[derive(Deserialize)]
struct Configured {
    options: BTreeMap<String, Value>,
}

pub(super) async fn run(remote: &Remote, args: Configure) -> Result<(), Error> {
    let options = args.options.iter().map(|given| option(given)).collect::<Result<_, _>>();
    let request = Request {
        queue: &args.queue,
        namespace: args.namespace.as_deref(),
        task: args.task.as_deref(),
        options: options.map_err(|what| Error::Input { what })?,
    };
    let answer = remote.client.post(&Route::new("/api/v1/configure"), &request).await?;
    remote.show(&answer, |configured: Configured| {
        let options: Vec<_> =
            configured.options.iter().map(|(name, value)| (name.as_str(), value.to_string())).collect();
        remote.screen.properties(&options)
    })
}

/// The name and the value of `OPTION=VALUE`.
fn option(given: &str) -> Result<(&str, Value), String> {
    let (name, value) = given.split_once('=').ok_or_else(|| format!("{given:?} must be OPTION=VALUE"))?;
    if NUMBERS.contains(&name) {
        let number: i64 = value.parse().map_err(|_| format!("{name} must be a whole number, got {value:?}"))?;
        return Ok((name, number.into()));
    }
    if FLAGS.contains(&name) {
        let flag: bool = value.parse().map_err(|_| format!("{name} must be true or false, got {value:?}"))?;
        return Ok((name, flag.into()));
    }
    let mut known = [NUMBERS, FLAGS].concat();
    known.sort_unstable();
    Err(format!("a queue has no option {name:?}; it has {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values have the kind of their option; anything else is rejected with what is allowed.
    #[test]
    fn options_are_read_by_their_kind() {
        assert_eq!(option("leaseTime=60"), Ok(("leaseTime", 60.into())));
        assert_eq!(option("deadLetterQueue=true"), Ok(("deadLetterQueue", true.into())));
        for (given, part) in [
            ("leaseTime", "OPTION=VALUE"),
            ("leaseTime=1m", "whole number"),
            ("deadLetterQueue=1", "true or false"),
            ("lease=1", "leaseTime"),
        ] {
            assert!(option(given).is_err_and(|error| error.contains(part)), "{given}");
        }
    }
}
