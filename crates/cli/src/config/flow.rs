//! What can be set about task graphs.

use clap::Args;

use super::SecretUrl;
use crate::error::Error;

/// How workers wait, and how templates are read.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Task graphs")]
pub struct Flow {
    /// Claims of workers that may wait at once; further ones are refused with 503 and a time to try again
    #[arg(long, env = "REVEILLE_FLOW_MAX_INTENTIONS", default_value = "10000", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    flow_max_intentions: u32,
    /// Which of the `environments` of a template counts when it is registered
    #[arg(long, env = "REVEILLE_FLOW_ENVIRONMENT", value_name = "NAME")]
    flow_environment: Option<String>,
    /// RabbitMQ for the namespaces that hand out their steps through it, as amqp://user:password@host:port; keep it in the variable
    #[arg(long, env = "REVEILLE_FLOW_AMQP_URL", hide_env_values = true, value_name = "URL")]
    flow_amqp_url: Option<SecretUrl>,
}

impl Flow {
    /// The options of task graphs.
    ///
    /// # Errors
    /// If RabbitMQ is asked for and this build has none.
    pub fn options(&self) -> Result<flow::Options, Error> {
        if self.flow_amqp_url.is_some() && !flow::ProviderOptions::HAS_RABBITMQ {
            let source = "this build has no RabbitMQ: build `reveille` with `--features rabbitmq`".into();
            return Err(Error::Setting { key: "--flow-amqp-url", source });
        }
        let wake = wake::Options { max_intentions: self.flow_max_intentions as usize, ..wake::Options::default() };
        let amqp_url = self.flow_amqp_url.as_ref().map(|url| url.reveal().to_owned());
        let providers = flow::ProviderOptions { amqp_url, ..flow::ProviderOptions::default() };
        Ok(flow::Options { wake, environment: self.flow_environment.clone(), providers, ..flow::Options::default() })
    }
}
