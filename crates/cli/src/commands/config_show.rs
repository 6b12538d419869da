//! `reveille config show`: every setting, its value and its source.

use serde::Serialize;

use crate::{
    config::{ConfigShow, Setting, Source},
    error::Error,
    terminal::{Column, Table},
};

#[derive(Serialize)]
struct Shown<'a> {
    settings: Vec<Row<'a>>,
}

/// A setting for programs.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    value: Option<&'a str>,
    /// flag, variable, file or default.
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    variable: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
}

impl<'a> Row<'a> {
    fn of(setting: &'a Setting) -> Row<'a> {
        let (source, variable, file, line) = match &setting.source {
            Source::Flag => ("flag", None, None, None),
            Source::Variable(name) => ("variable", Some(name.as_str()), None, None),
            Source::File(path, line) => ("file", None, Some(path.display().to_string()), Some(*line)),
            Source::Default => ("default", None, None, None),
        };
        Row { name: &setting.name, value: setting.value.as_deref(), source, variable, file, line }
    }
}

/// `reveille config show`.
pub(super) fn run(args: &ConfigShow, settings: &[Setting]) -> Result<(), Error> {
    // What the parser cannot check, so that an invalid setting is an error here, too.
    args.server.listen()?;
    args.database.schema()?;
    args.queue.options()?;
    args.flow.options()?;
    let screen = args.remote.screen();
    if screen.is_json() {
        return screen.document(&Shown { settings: settings.iter().map(Row::of).collect() });
    }
    let mut table = Table::new([Column::id("setting"), Column::text("value"), Column::text("source")]);
    for setting in settings {
        let value = setting.value.as_deref().unwrap_or("-");
        table.row([setting.name.as_str().into(), value.into(), setting.source.to_string().into()]);
    }
    screen.table(&table, "no settings")
}
