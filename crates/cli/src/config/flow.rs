//! What can be set about task graphs.

use clap::Args;

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
}

impl Flow {
    /// The options of task graphs.
    pub fn options(&self) -> flow::Options {
        let wake = wake::Options { max_intentions: self.flow_max_intentions as usize, ..wake::Options::default() };
        flow::Options { wake, environment: self.flow_environment.clone(), ..flow::Options::default() }
    }
}
