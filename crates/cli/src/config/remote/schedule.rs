//! `reveille schedule`.

use clap::{Args, Subcommand};

use super::Confirmation;

const LIST_EXAMPLES: &str = "\
Examples:
  reveille schedule list                    every schedule with its next tick
  reveille schedule list --namespace shop --paused";

const SHOW_EXAMPLES: &str = "\
Examples:
  reveille schedule show shop nightly       its settings, its last task and its next ticks";

const SET_EXAMPLES: &str = "\
Examples:
  reveille schedule set shop nightly --template report --version 1.0.0 --cron '0 3 * * *' --time-zone Europe/Berlin
  reveille schedule set shop once --template report --version 1.0.0 --at 2026-12-24T18:00:00Z
  reveille schedule set shop hourly --template report --version 1.0.0 --cron @hourly --context @context.json

Creates the schedule, or replaces the one of that name. Repeating it changes nothing.";

const PAUSE_EXAMPLES: &str = "\
Examples:
  reveille schedule pause shop nightly      ticks during the pause do not count as missed";

const RESUME_EXAMPLES: &str = "\
Examples:
  reveille schedule resume shop nightly";

const RUN_EXAMPLES: &str = "\
Examples:
  reveille schedule run shop nightly        submit a task now, in addition to the ticks, even while paused";

const DELETE_EXAMPLES: &str = "\
Examples:
  reveille schedule delete shop nightly     asks before it deletes; tasks of the schedule stay";

/// The commands of `reveille schedule`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List schedules with their next ticks
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Show a schedule and its next ticks
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Show),
    /// Create or replace a schedule
    #[command(after_help = SET_EXAMPLES)]
    Set(Set),
    /// Pause a schedule
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(Name),
    /// Resume a schedule
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(Name),
    /// Submit a task of a schedule now
    #[command(after_help = RUN_EXAMPLES)]
    Run(Name),
    /// Delete a schedule
    #[command(after_help = DELETE_EXAMPLES)]
    Delete(Delete),
}

/// `reveille schedule list`.
#[derive(Debug, Args)]
pub struct List {
    /// In this namespace
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Of this template
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,
    /// Only paused ones
    #[arg(long, conflicts_with = "active")]
    pub paused: bool,
    /// Only those that are not paused
    #[arg(long)]
    pub active: bool,
    /// The most schedules to list
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub limit: u32,
    /// Continue a list after this schedule
    #[arg(long, value_name = "UUID")]
    pub after: Option<String>,
}

/// A schedule.
#[derive(Debug, Args)]
pub struct Name {
    /// Its namespace
    pub namespace: String,
    /// Its name
    pub name: String,
}

/// `reveille schedule show`.
#[derive(Debug, Args)]
pub struct Show {
    /// The schedule.
    #[command(flatten)]
    pub schedule: Name,
    /// How many ticks to show
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub upcoming: u32,
}

/// `reveille schedule set`.
#[derive(Debug, Args)]
pub struct Set {
    /// The schedule.
    #[command(flatten)]
    pub schedule: Name,
    /// The template of its tasks, in the same namespace
    #[arg(long, value_name = "NAME")]
    pub template: String,
    /// The version of the template
    #[arg(long = "version", value_name = "VERSION")]
    pub template_version: String,
    /// When: a cron expression, or @hourly, @daily, @weekly, @monthly, @yearly
    #[arg(long, value_name = "CRON", required_unless_present = "at", conflicts_with = "at")]
    pub cron: Option<String>,
    /// The time zone of the cron expression [default: UTC]
    #[arg(long, value_name = "ZONE", requires = "cron")]
    pub time_zone: Option<String>,
    /// Once, at this time
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// The context of its tasks as JSON, or @FILE
    #[arg(long, value_name = "JSON")]
    pub context: Option<String>,
    /// The priority of its tasks
    #[arg(long, value_name = "N", default_value = "0", allow_negative_numbers = true)]
    pub priority: i16,
    /// A tag of its tasks; may be repeated
    #[arg(long, value_name = "TAG")]
    pub tag: Vec<String>,
    /// What happens to missed ticks: skip them, run the latest, or run all
    #[arg(long, value_name = "HOW", value_parser = ["skip", "latest", "all"])]
    pub missed: Option<String>,
    /// A tick is missed if it is later than this many seconds
    #[arg(long, value_name = "N")]
    pub grace_seconds: Option<u32>,
}

/// `reveille schedule delete`.
#[derive(Debug, Args)]
pub struct Delete {
    /// The schedule.
    #[command(flatten)]
    pub schedule: Name,
    /// Whether to ask.
    #[command(flatten)]
    pub confirmation: Confirmation,
}
