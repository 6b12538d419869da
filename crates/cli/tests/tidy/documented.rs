//! What the documents list is what the code has, in both directions: metrics, configuration, options.

use std::collections::BTreeMap;

use clap::CommandFactory as _;

use crate::repository::{File, Offence, file, places, report, root};

/// A documented thing, and what is said about it in a form that can be compared.
type Facts = BTreeMap<String, String>;

/// The rows of a document's tables whose first column is headed `heading`: line, name, the other cells.
fn rows(document: &File, heading: &str) -> Vec<(usize, String, Vec<String>)> {
    let (mut rows, mut header) = (Vec::new(), None);
    for (at, line) in document.lines() {
        let Some(line) = line.strip_prefix('|') else {
            header = None;
            continue;
        };
        let mut cells =
            line.trim_end().trim_end_matches('|').split('|').map(|cell| cell.trim().trim_matches('`').to_owned());
        let name = cells.next().unwrap_or_default();
        match &header {
            None => header = Some(name),
            Some(header) if header == heading && !name.starts_with("---") => rows.push((at, name, cells.collect())),
            Some(_) => {}
        }
    }
    rows
}

/// Compares what a document says with what is true.
fn compare(document: &File, said: &[(usize, String, String)], truth: &Facts, source: &str) -> Vec<Offence> {
    let mut offences = Vec::new();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, name, fact) in said {
        if let Some(first) = seen.insert(name, *at) {
            offences.push(document.offence(*at, format!("`{name}` is listed already at line {first}: once is enough")));
        }
        match truth.get(name) {
            None => offences.push(document.offence(*at, format!("`{name}` is not in {source}: remove the row"))),
            Some(real) if real != fact => {
                offences.push(
                    document.offence(*at, format!("`{name}` is `{fact}` here and `{real}` in {source}: correct it")),
                );
            }
            Some(_) => {}
        }
    }
    for name in truth.keys().filter(|name| !seen.contains_key(name.as_str())) {
        offences.push(document.offence(1, format!("`{name}` of {source} is missing: add a row")));
    }
    offences
}

fn metrics(document: &File, truth: &Facts) -> Vec<Offence> {
    let said: Vec<_> = rows(document, "name")
        .into_iter()
        .map(|(at, name, cells)| (at, name, cells.first().cloned().unwrap_or_default()))
        .collect();
    compare(document, &said, truth, "METRICS")
}

fn options(document: &File, truth: &Facts) -> Vec<Offence> {
    let said: Vec<_> = rows(document, "option").into_iter().map(|(at, name, _)| (at, name, String::new())).collect();
    compare(document, &said, truth, "the options' source")
}

/// Where it is said what a queue can be told, what it may be told, and what a new one has.
struct OptionSources<'a> {
    /// The names: `lease_seconds: number("leaseTime")?`.
    names: &'a File,
    /// The limits, as an attribute before the field.
    limits: &'a File,
    /// The defaults of the table.
    schema: &'a File,
}

impl OptionSources<'_> {
    /// Of each option its default, and its limits if it is a number.
    fn facts(&self) -> Facts {
        let named = self.names.text.split_once("Ok(Change {\n").map_or("", |(_, body)| body);
        let named = named.split("\n    })").next().unwrap_or_default();
        let option = |line: &str| {
            let (field, name) = line.trim().split_once(": ")?;
            let name = name.split('"').nth(1)?;
            Some((name.to_owned(), format!("{} | {}", self.default(field), self.limit(name))))
        };
        named.lines().filter_map(option).collect()
    }

    fn default(&self, field: &str) -> String {
        let table = self.schema.text.split_once("create table {schema}.queue (\n").map_or("", |(_, table)| table);
        let column = table.lines().find_map(|line| line.trim().strip_prefix(field)?.strip_prefix(' '));
        let default = column.and_then(|column| column.trim_end_matches(',').split_once(" default "));
        match (default, field) {
            (Some((_, default)), _) => default.to_owned(),
            (None, "retry_delay_ms") => format!("none; {} is shown", reveille_queue::Settings::RETRY_DELAY_MS),
            (None, "ttl_seconds") => format!("none; {} is shown", reveille_queue::Settings::TTL_SECONDS),
            (None, _) => "?".to_owned(),
        }
    }

    fn limit(&self, name: &str) -> String {
        let snake: String = name
            .chars()
            .flat_map(|letter| letter.is_uppercase().then_some('_').into_iter().chain(letter.to_lowercase()))
            .collect();
        let before = self.limits.text.split_once(&format!("\n    {snake}: ")).map_or("", |(before, _)| before);
        let attribute = before.lines().last().unwrap_or_default();
        let number = |key: &str| {
            let digits: String = attribute.split_once(key)?.1.chars().take_while(|it| !",)i".contains(*it)).collect();
            digits.replace('_', "").parse::<i64>().ok()
        };
        match (number("minimum = "), number("maximum = ")) {
            (Some(least), Some(most)) if least == -most => format!("±{most}"),
            (Some(least), Some(most)) => format!("{least} to {most}"),
            _ => String::new(),
        }
    }
}

/// A table of options as the sources say it: numbers without spaces, and no explanations.
fn queue_options(document: &File, truth: &Facts) -> Vec<Offence> {
    let plain = |text: &str| {
        let words = [("ten years", "315360000"), ("10¹²", "1000000000000")];
        let text = words.iter().fold(text.to_owned(), |text, (word, number)| text.replace(word, number));
        let mut plain = String::new();
        for letter in text.chars() {
            let joins = letter.is_ascii_digit() && plain.trim_end().ends_with(|it: char| it.is_ascii_digit());
            plain.truncate(if joins { plain.trim_end().len() } else { plain.len() });
            plain.push(letter);
        }
        plain
    };
    let said: Vec<_> = rows(document, "name in `options")
        .into_iter()
        .flat_map(|(at, names, cells)| {
            let cell = |at: usize| plain(cells.get(at).map_or("", String::as_str));
            let default = cell(0).split(':').next().unwrap_or_default().to_owned();
            // Behind the numbers stands their unit.
            let allowed = cell(1).trim_end_matches(|it: char| !it.is_ascii_digit()).to_owned();
            let fact = format!("{default} | {allowed}");
            let names: Vec<String> = names.split("`, `").map(str::to_owned).collect();
            names.into_iter().map(move |name| (at, name, fact.clone()))
        })
        .collect();
    compare(document, &said, truth, "the queue's sources")
}

/// The public fields of a struct, from its source.
fn fields(source: &File, name: &str) -> Facts {
    let body = source.text.split_once(&format!("pub struct {name} {{\n")).map_or("", |(_, body)| body);
    let body = body.split("\n}").next().unwrap_or_default();
    let field = |line: &str| line.trim().strip_prefix("pub ")?.split_once(':').map(|(field, _)| field.to_owned());
    body.lines().filter_map(field).map(|field| (field, String::new())).collect()
}

/// `docs/metrics.md` lists exactly the metrics of the engine, the products and the server, each with its kind.
#[test]
fn every_metric_is_documented() {
    let all = reveille_wake::METRICS
        .iter()
        .chain(reveille_durable::METRICS)
        .chain(reveille_queue::METRICS)
        .chain(reveille_flow::METRICS)
        .chain(reveille::http::METRICS)
        .chain(reveille::statistics::METRICS);
    let truth: Facts = all.map(|metric| (metric.name.to_owned(), metric.kind.to_owned())).collect();
    assert!(!truth.is_empty());
    report(metrics(file("docs/metrics.md"), &truth));
}

/// `docs/configuration.md` lists exactly the flags that have a variable: its tables are generated from them.
/// `REVEILLE_UPDATE_SNAPSHOTS=1` writes them.
#[test]
fn every_setting_is_documented() {
    const PATH: &str = "docs/configuration.md";
    const MARKS: [&str; 2] = ["<!-- generated from the flags: begin -->\n\n", "<!-- generated from the flags: end -->"];
    let document = file(PATH);
    let (before, rest) = document.text.split_once(MARKS[0]).expect("the mark where the tables begin");
    let (tables, after) = rest.split_once(MARKS[1]).expect("the mark where the tables end");
    let truth = reveille::config::documented();
    assert!(truth.contains("`--database-url`"), "{truth}");
    if tables != truth && std::env::var_os("REVEILLE_UPDATE_SNAPSHOTS").is_some() {
        let text = [before, MARKS[0], &truth, MARKS[1], after].concat();
        std::fs::write(root().join(PATH), text).expect("the document is writable");
        return;
    }
    let differs = tables.lines().zip(truth.lines()).position(|(one, other)| one != other);
    let line = before.lines().count() + differs.unwrap_or_default() + 1;
    let why =
        "the tables differ from the flags: REVEILLE_UPDATE_SNAPSHOTS=1 cargo test -p reveille --test tidy writes them";
    report(if tables == truth { Vec::new() } else { vec![document.offence(line, why)] });
}

/// `docs/command-line.md` lists exactly the exit codes, each with its meaning.
#[test]
fn every_exit_code_is_documented() {
    let document = file("docs/command-line.md");
    let said: Vec<_> =
        rows(document, "code").into_iter().map(|(at, code, cells)| (at, code, cells.join(" "))).collect();
    let truth = reveille::exit::CODES.iter().map(|(code, meaning)| (code.to_string(), (*meaning).to_owned())).collect();
    report(compare(document, &said, &truth, "the exit codes"));
}

/// The leaf commands of the program.
fn leaf_commands(command: &clap::Command, path: &str, into: &mut Facts) {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set()) {
        let path = format!("{path} {}", sub.get_name());
        if sub.has_subcommands() {
            leaf_commands(sub, &path, into);
        } else {
            into.insert(path.trim().to_owned(), String::new());
        }
    }
}

/// The command of a row, which may have the name of the program before it and arguments behind it.
fn command_name(row: &str) -> String {
    let is_name = |word: &&str| word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
    let words = row.trim_start_matches("reveille ").split_whitespace().take_while(is_name);
    words.collect::<Vec<_>>().join(" ")
}

/// `docs/command-line.md` lists exactly the commands.
#[test]
fn every_command_is_documented() {
    let document = file("docs/command-line.md");
    let said: Vec<_> =
        rows(document, "command").into_iter().map(|(at, row, _)| (at, command_name(&row), String::new())).collect();
    let mut truth = Facts::new();
    leaf_commands(&reveille::config::Cli::command(), "", &mut truth);
    assert!(truth.len() > 30, "the parser was read: {truth:?}");
    report(compare(document, &said, &truth, "the command line"));
}

/// `docs/wake.md` lists exactly the options of the engine and of its writers.
#[test]
fn every_option_of_the_engine_is_documented() {
    let mut truth = fields(file("crates/wake/src/options.rs"), "Options");
    truth.extend(fields(file("crates/wake/src/write/writer.rs"), "WriterOptions"));
    assert!(truth.len() > 15, "the structs were found: {truth:?}");
    report(options(file("docs/wake.md"), &truth));
}

/// `docs/durable.md` lists exactly the options of the provider and of its waiting.
#[test]
fn every_option_of_the_provider_is_documented() {
    let source = file("crates/durable/src/config.rs");
    let mut truth = fields(source, "LongPollConfig");
    truth.extend(fields(source, "Options"));
    assert!(truth.len() > 12, "the structs were found: {truth:?}");
    report(options(file("docs/durable.md"), &truth));
}

/// `docs/queue.md` lists exactly the options of a queue, each with its default and limits.
#[test]
fn every_option_of_a_queue_is_documented() {
    let sources = OptionSources {
        names: file("crates/queue/src/http/admin/queues.rs"),
        limits: file("crates/queue/src/http/admin/queue_options.rs"),
        schema: file("crates/queue/db/schema.sql"),
    };
    let truth = sources.facts();
    let fields = fields(file("crates/queue/src/admin/configure.rs"), "Change");
    assert_eq!(truth.len(), fields.len(), "every field has a name of its own: {truth:?}");
    report(queue_options(file("docs/queue.md"), &truth));
}

/// A made-up table of options with a wrong default, a wrong limit, and a row that is missing.
#[test]
fn an_option_of_a_queue_that_differs_is_an_offence() {
    let names = "    Ok(Change {\n        lease_seconds: number(\"leaseTime\")?,\n        priority: number(\"priority\")?,\n        \
                 is_on: flag(\"isOn\")?,\n        ttl_seconds: number(\"ttl\")?,\n    })\n";
    let limits = "struct Given {\n    #[schema(minimum = 1, maximum = 604_800)]\n    lease_time: Option<i32>,\n    \
                  #[schema(minimum = -1_000_000, maximum = 1_000_000)]\n    priority: Option<i32>,\n    is_on: Option<bool>,\n    \
                  #[schema(minimum = 0, maximum = 315_360_000)]\n    ttl: Option<i32>,\n}\n";
    let schema = "create table {schema}.queue (\n    lease_seconds integer not null default 300,\n    priority integer not null default 0,\n    \
                  is_on boolean not null default true,\n    ttl_seconds integer,\n);\n";
    let [names, limits, schema] =
        [("n.rs", names), ("l.rs", limits), ("s.sql", schema)].map(|(at, it)| File::new(at, it));
    let truth = OptionSources { names: &names, limits: &limits, schema: &schema }.facts();
    let head = "| name in `options` | default | allowed | meaning |\n|---|---|---|---|\n";
    let right = "| `leaseTime` | 300 | 1 to 604 800 s | x |\n| `priority` | 0: x | ±1 000 000 | x |\n| `isOn` | `true` | | x |\n";
    let ttl = "| `ttl` | none; 3600 is shown | 0 to ten years, in s | x |\n";
    assert_eq!(places(&queue_options(&File::new("q.md", &format!("{head}{right}{ttl}")), &truth)), []);
    let wrong = right.replace("300", "30").replace("±1 000 000", "±1 000");
    assert_eq!(
        places(&queue_options(&File::new("q.md", &format!("{head}{wrong}")), &truth)),
        [("q.md", 3), ("q.md", 4), ("q.md", 1)]
    );
}

/// A made-up table with a row too many, a wrong kind, a row twice, and one missing.
#[test]
fn a_table_that_differs_is_an_offence() {
    let table = "| name | kind |\n|---|---|\n| `reveille_a` | counter |\n| `reveille_b` | counter |\n| `reveille_x` | gauge |\n\
                 | `reveille_a` | counter |\n\n| reason |\n|---|\n| `other` |\n";
    let truth = [("reveille_a", "counter"), ("reveille_b", "gauge"), ("reveille_c", "gauge")];
    let truth: Facts = truth.into_iter().map(|(name, kind)| (name.into(), kind.into())).collect();
    let offences = metrics(&File::new("m.md", table), &truth);
    assert_eq!(places(&offences), [("m.md", 4), ("m.md", 5), ("m.md", 6), ("m.md", 1)]);
}

/// Fields are read from the struct that was asked for, and an undocumented one is an offence.
#[test]
fn an_undocumented_option_is_an_offence() {
    let source = "pub struct Options {\n    /// Doc.\n    pub one: u8,\n    pub two: u8,\n}\npub struct Other {\n    pub three: u8,\n}\n";
    let truth = fields(&File::new("o.rs", source), "Options");
    assert_eq!(truth.keys().collect::<Vec<_>>(), ["one", "two"]);
    let document = File::new("o.md", "| option | default |\n|---|---|\n| `one` | 1 | x |\n| `three` | 1 | x |\n");
    assert_eq!(places(&options(&document, &truth)), [("o.md", 4), ("o.md", 1)]);
}
