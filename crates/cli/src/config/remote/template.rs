//! `reveille template`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const CHECK_EXAMPLES: &str = "\
Examples:
  reveille template check order.yaml        every fault with its line, or the graph of its steps
  reveille template check templates/*.yaml  ends with 1 if one of them has faults

Registers nothing.";

const REGISTER_EXAMPLES: &str = "\
Examples:
  reveille template register order.yaml
  reveille template register - < order.yaml
  reveille template register templates/*.yaml

A registered version never changes: registering it again with the same text does nothing.";

const LIST_EXAMPLES: &str = "\
Examples:
  reveille template list                    every version of every template
  reveille template list --namespace shop --name order";

const SHOW_EXAMPLES: &str = "\
Examples:
  reveille template show shop order         the highest version, with its graph
  reveille template show shop order 1.0.0 --json";

/// The commands of `reveille template`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check templates without registering them
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Files),
    /// Register templates
    #[command(after_help = REGISTER_EXAMPLES)]
    Register(Files),
    /// List registered templates
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Show a template with the graph of its steps
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Show),
}

/// `reveille template check` and `register`.
#[derive(Debug, Args)]
pub struct Files {
    /// Templates in YAML or JSON; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// `reveille template list`.
#[derive(Debug, Args)]
pub struct List {
    /// Only those of this namespace
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Only those of this name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The most templates to list
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub limit: u32,
    /// Continue a list
    #[arg(long, value_name = "NEXT")]
    pub after: Option<u64>,
}

/// `reveille template show`.
#[derive(Debug, Args)]
pub struct Show {
    /// Its namespace
    pub namespace: String,
    /// Its name
    pub name: String,
    /// Its version [default: the highest]
    pub version: Option<String>,
}
