//! Who makes a change, and why: the history of a task shows it.

use clap::Args;

/// The longest name that the server accepts.
const NAME_MAX: usize = 100;

/// The operator of a change.
#[derive(Clone, Debug, Args)]
pub struct Operator {
    /// Your name, for the history [default: your user name]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Why, for the history
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

impl Operator {
    /// The name: as given, else that of the user.
    pub fn name(&self) -> String {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let user = || variable("USER").or_else(|| variable("LOGNAME"));
        let name = self.by.clone().or_else(user).unwrap_or_else(|| "command line".to_owned());
        name.chars().take(NAME_MAX).collect()
    }
}
