//! Where every value comes from: flag, variable, file or default, in this order.

use std::{
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
};

use clap::{Arg, ArgMatches, Command, builder::Resettable, error::ErrorKind, parser::ValueSource};

use super::file::{ConfigFile, Entry};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The command line.
    Flag,
    /// This environment variable.
    Variable(String),
    /// This line of the configuration file.
    File(PathBuf, usize),
    /// Nothing sets it.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Flag => f.write_str("flag"),
            Source::Variable(name) => write!(f, "variable {name}"),
            Source::File(path, line) => write!(f, "{}:{line}", path.display()),
            Source::Default => f.write_str("default"),
        }
    }
}

/// A setting and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The flag, without its dashes: the key of the file.
    pub name: String,
    /// The value in the syntax of the flag, masked if it may be secret; `None` if it is not set.
    pub value: Option<String>,
    /// Where it comes from.
    pub source: Source,
}

/// The name of a setting; `None` if the flag has no variable and so is none.
pub(super) fn name(arg: &Arg) -> Option<&str> {
    arg.get_env().and(arg.get_long())
}

/// Removes empty variables: a compose file or a unit unsets a variable this way.
pub(super) fn without_empty_variables(command: Command) -> Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    everywhere(command, &|arg| match arg.get_env().is_some_and(is_empty) {
        true => arg.env(Resettable::Reset),
        false => arg,
    })
}

/// Makes the values of the file the defaults. Validates them, whether this command uses them or not.
///
/// # Errors
/// The first value that is not valid, with its line.
pub(super) fn with_file(command: Command, file: &ConfigFile) -> Result<Command, clap::Error> {
    validate(&command, file)?;
    Ok(everywhere(command, &|arg| match arg.get_long().and_then(|name| file.entries.get(name)) {
        // Only settings have entries.
        Some(entry) => arg.default_value(entry.value.clone()),
        None => arg,
    }))
}

fn everywhere(command: Command, change: &impl Fn(Arg) -> Arg) -> Command {
    command.mut_args(change).mut_subcommands(|command| everywhere(command, change))
}

/// Every argument of every command.
pub(super) fn arguments(command: &Command) -> Vec<&Arg> {
    let below = command.get_subcommands().flat_map(arguments);
    command.get_arguments().chain(below).collect()
}

fn validate(command: &Command, file: &ConfigFile) -> Result<(), clap::Error> {
    let arguments = arguments(command);
    let setting = |key: &str| arguments.iter().find(|arg| name(arg) == Some(key));
    let mut entries: Vec<_> = file.entries.iter().collect();
    entries.sort_by_key(|(_, entry)| entry.line);
    for (key, entry) in entries {
        if let Some(arg) = setting(key) {
            check((*arg).clone(), entry).map_err(|why| invalid(file, entry, &why))?;
        }
    }
    Ok(())
}

/// Parses a value as the flag would.
fn check(arg: Arg, entry: &Entry) -> Result<(), String> {
    let may_be_secret = arg.is_hide_env_values_set();
    let name = arg.get_long().unwrap_or_default().to_owned();
    let alone = arg.env(Resettable::Reset).default_value(entry.value.clone());
    let parsed = Command::new("reveille").no_binary_name(true).arg(alone).try_get_matches_from([] as [&str; 0]);
    parsed.map(drop).map_err(|error| match may_be_secret {
        true => format!("invalid value for `{name}`"),
        false => {
            let text = error.render().to_string();
            let why = text.trim_start_matches("error: ").split("\n\nFor more").next().unwrap_or_default().trim();
            why.to_owned()
        }
    })
}

fn invalid(file: &ConfigFile, entry: &Entry, why: &str) -> clap::Error {
    clap::Error::raw(ErrorKind::InvalidValue, format!("{}:{}: {why}\n", file.path.display(), entry.line))
}

/// The settings that the parsed command has, in the order of their definition.
pub(super) fn settings(command: &Command, matches: &ArgMatches, file: Option<&ConfigFile>) -> Vec<Setting> {
    let (arguments, matches) = parsed(command, matches);
    let path = file.map_or(Path::new(""), |file| &file.path);
    let setting = |arg: &Arg| {
        let name = name(arg)?;
        let id = arg.get_id().as_str();
        let values = matches.try_get_raw(id).ok().flatten();
        let value = values.map(|values| values.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(","));
        let source = match matches.value_source(id) {
            Some(ValueSource::CommandLine) => Source::Flag,
            Some(ValueSource::EnvVariable) => Source::Variable(arg.get_env()?.to_string_lossy().into_owned()),
            _ => match file.and_then(|file| file.entries.get(name)) {
                Some(entry) => Source::File(path.to_owned(), entry.line),
                None => Source::Default,
            },
        };
        let value = value.map(|value| if arg.is_hide_env_values_set() { masked(&value) } else { value });
        Some(Setting { name: name.to_owned(), value, source })
    };
    arguments.into_iter().filter_map(setting).collect()
}

/// The arguments of the command that was given, with those that it shares with others, and its matches.
fn parsed<'a>(command: &'a Command, matches: &'a ArgMatches) -> (Vec<&'a Arg>, &'a ArgMatches) {
    match matches.subcommand().and_then(|(name, matches)| Some((command.find_subcommand(name)?, matches))) {
        None => (command.get_arguments().collect(), matches),
        Some((below, matches)) => {
            let (mut arguments, matches) = parsed(below, matches);
            arguments.extend(command.get_arguments().filter(|arg| arg.is_global_set()));
            (arguments, matches)
        }
    }
}

/// A URL without its user and password; nothing of anything else.
fn masked(value: &str) -> String {
    match value.contains("://") {
        true => super::redact(value),
        false => "…".to_owned(),
    }
}
