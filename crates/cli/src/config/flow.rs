//! Settings of task graphs.

use std::path::{Path, PathBuf};

use clap::Args;

use super::SecretUrl;
use crate::error::Error;

/// Workers, templates and brokers.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Task graphs")]
pub struct Flow {
    /// Maximum number of waiting claims; further ones are rejected with 503 and Retry-After
    #[arg(long, env = "REVEILLE_FLOW_MAX_WAITERS", default_value = "10000", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    flow_max_waiters: u32,
    /// Which of the `environments` of a template is used when it is registered
    #[arg(long, env = "REVEILLE_FLOW_ENVIRONMENT", value_name = "NAME")]
    flow_environment: Option<String>,
    /// RabbitMQ for namespaces that dispatch steps through it: amqp://user:password@host:port, amqps:// for TLS; prefer
    /// the variable
    #[arg(long, env = "REVEILLE_FLOW_AMQP_URL", hide_env_values = true, value_name = "URL")]
    flow_amqp_url: Option<SecretUrl>,
    /// File with the CA certificates (PEM) to verify RabbitMQ with [default: those of the system]
    #[arg(long, env = "REVEILLE_FLOW_AMQP_CA_FILE", value_name = "FILE")]
    flow_amqp_ca_file: Option<PathBuf>,
}

impl Flow {
    /// The options of task graphs.
    ///
    /// # Errors
    /// If RabbitMQ is configured and this build does not support it, or the file of certificates is not readable.
    pub fn options(&self) -> Result<reveille_flow::Options, Error> {
        if self.flow_amqp_url.is_some() && !reveille_flow::ProviderOptions::HAS_RABBITMQ {
            let source = "this build does not support RabbitMQ: build `reveille` with `--features rabbitmq`".into();
            return Err(Error::Setting { key: "--flow-amqp-url", source });
        }
        let wake =
            reveille_wake::Options { max_waiters: self.flow_max_waiters as usize, ..reveille_wake::Options::default() };
        let amqp_url = self.flow_amqp_url.as_ref().map(|url| url.reveal().to_owned());
        let amqp_ca = self.flow_amqp_ca_file.as_deref().map(certificates).transpose()?;
        let providers =
            reveille_flow::ProviderOptions { amqp_url, amqp_ca, ..reveille_flow::ProviderOptions::default() };
        Ok(reveille_flow::Options {
            wake,
            environment: self.flow_environment.clone(),
            providers,
            ..reveille_flow::Options::default()
        })
    }
}

/// The text of a file of certificates. TLS validates them when it connects.
fn certificates(file: &Path) -> Result<String, Error> {
    let invalid = |why: String| Error::Setting { key: "--flow-amqp-ca-file", source: why.into() };
    let text =
        std::fs::read_to_string(file).map_err(|error| invalid(format!("cannot read {}: {error}", file.display())))?;
    match text.contains("-----BEGIN CERTIFICATE-----") {
        true => Ok(text),
        false => Err(invalid(format!("{} contains no PEM certificate", file.display()))),
    }
}
