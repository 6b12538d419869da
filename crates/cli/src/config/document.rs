//! All settings, read from the parser itself, and the tables of `docs/configuration.md`, written from them.

use std::fmt::Write as _;

use clap::CommandFactory as _;

use super::{Cli, source};

/// What the document says beyond the help text of a flag, in Markdown.
const MORE: &[(&str, &str)] = &[
    ("--admin-token", "See [security](security.md#tokens)."),
    ("--allow-unauthenticated", "Without it such an address is rejected. See [security](security.md)."),
    ("--allowed-hosts", "See [security](security.md#web-pages)."),
    (
        "--database-url",
        "With it `up` starts no PostgreSQL; `serve` and `migrate` need it. See [below](#the-database-url).",
    ),
    ("--direct-url", "See [below](#through-a-pooler)."),
    (
        "--eviction-interval",
        "These are `maxWaitTimeSeconds` and `ttl`. On an idle server the next removal runs when the next message is due \
         for it. Of several servers one removes at a time.",
    ),
    ("--flow-amqp-ca-file", "Used with `amqps://`; with it `amqp://` is rejected."),
    ("--health-listen", "It shows statistics and names of queues, no messages, and changes nothing."),
    ("--listen", "Port 0 takes a free one and prints it."),
    ("--lock-timeout", "Not sent through a pooler."),
    ("--max-body-mb", "After decompression, of 1 048 576 bytes each; at most 128."),
    ("--console-read-only", "See [actions](console.md#actions)."),
    ("--metrics-top", "See [statistics](metrics.md#statistics)."),
    (
        "--otlp-endpoint",
        "The paths `/v1/traces` and `/v1/metrics` are appended. See [OTLP](operating.md#traces-and-metrics-over-otlp).",
    ),
    ("--pooler", "See [below](#through-a-pooler)."),
    (
        "--queue-encryption-key",
        "At most 16; the same for every server of a database. See [encryption](queue.md#encryption).",
    ),
    ("--queue-encryption-key-file", "Lines that begin with `#` are comments."),
    (
        "--retention-interval",
        "These are `retentionSeconds` and `completedRetentionSeconds`. On an idle server the next removal runs when the \
         next message is due for it.",
    ),
    ("--schema", "Any name up to 63 bytes."),
    ("--server", "See [the command line](command-line.md#which-server)."),
    ("--statement-timeout", "Not sent through a pooler."),
    ("--jwt-secret", "See [security](security.md#json-web-tokens)."),
    ("--oidc-issuer", "See [security](security.md#logging-in-to-the-console)."),
    ("--max-requests-per-client", "Beyond it 429."),
    ("--tls-cert", "See [security](security.md#tls)."),
    (
        "--tls-key",
        "The user who runs the server must be able to read it; of `up` as root that is the user who runs PostgreSQL.",
    ),
    ("--token-file", "`REVEILLE_TOKEN` has no flag: other users of a machine can read a command line."),
];

/// A setting: a flag that has an environment variable. Flags without one choose what a command does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The flag, with its dashes.
    pub flag: String,
    /// The environment variable.
    pub env: String,
    /// The default in the syntax of the flag; `None` if there is none or it depends on the machine.
    pub default: Option<String>,
    /// Its help text.
    pub about: String,
    /// The heading of `--help` that it belongs to.
    pub heading: String,
    /// Whether its value may be secret.
    pub is_secret: bool,
}

/// All settings, each once, in the order of their definition. `docs/configuration.md` lists exactly these.
pub fn keys() -> Vec<Key> {
    let cli = Cli::command();
    let mut keys: Vec<Key> = Vec::new();
    for key in source::arguments(&cli).into_iter().filter_map(key) {
        if !keys.iter().any(|known| known.flag == key.flag) {
            keys.push(key);
        }
    }
    keys
}

/// The key behind a flag; `None` if it has no environment variable.
pub(super) fn key(arg: &clap::Arg) -> Option<Key> {
    let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
    let default = match arg.get_action().takes_values() {
        true => arg.get_default_values().first().map(|default| text(default)),
        false => Some("false".into()),
    };
    Some(Key {
        flag: format!("--{}", arg.get_long()?),
        env: text(arg.get_env()?),
        default,
        about: arg.get_help().map(ToString::to_string).unwrap_or_default(),
        heading: arg.get_help_heading().unwrap_or("Other").to_owned(),
        is_secret: arg.is_hide_env_values_set(),
    })
}

/// A table of settings for each heading of `--help`, in Markdown.
pub fn documented() -> String {
    let keys = keys();
    let mut headings: Vec<&str> = Vec::new();
    for key in &keys {
        if !headings.contains(&key.heading.as_str()) {
            headings.push(&key.heading);
        }
    }
    let mut text = String::new();
    for heading in headings {
        // Writing to a string does not fail.
        let _ = write!(text, "### {heading}\n\n| flag | variable | default | meaning |\n|---|---|---|---|\n");
        for key in keys.iter().filter(|key| key.heading == heading) {
            text.push_str(&row(key));
        }
        text.push('\n');
    }
    text
}

fn row(key: &Key) -> String {
    let default = key.default.as_ref().map(|default| format!("`{default}` ")).unwrap_or_default();
    let more = MORE.iter().find(|(flag, _)| *flag == key.flag).map(|(_, more)| format!(" {more}")).unwrap_or_default();
    let about = key.about.replace('|', "\\|").replace('\n', " ");
    let end = if about.ends_with('.') { "" } else { "." };
    format!("| `{}` | `{}` | {default}| {about}{end}{more} |\n", key.flag, key.env)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every addition belongs to a setting.
    #[test]
    fn additions_belong_to_settings() {
        for (flag, _) in MORE {
            assert!(keys().iter().any(|key| key.flag == *flag), "{flag} is no setting: remove its text");
        }
    }
}
