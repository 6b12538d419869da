//! Commands in the documents can be typed: targets of `make`, commands and flags of `reveille`.

use std::collections::BTreeMap;

use clap::CommandFactory as _;

use crate::markdown::quoted;
use crate::repository::{File, Offence, file, files, places, report};

/// What can be typed: the targets of the Makefile, and the flags of every command of the program.
struct Known {
    targets: Vec<String>,
    commands: BTreeMap<String, Vec<String>>,
}

fn targets(makefile: &File) -> Vec<String> {
    let rule = |line: &str| {
        let (target, _) = line.split_once(':')?;
        (!target.is_empty() && target.chars().all(|c| c.is_ascii_lowercase() || c == '-')).then(|| target.to_owned())
    };
    makefile.lines().filter_map(|(_, line)| rule(line)).collect()
}

fn commands(program: &clap::Command) -> BTreeMap<String, Vec<String>> {
    // Of a command that has commands of its own, all their flags.
    let flags = |command: &clap::Command| -> Vec<String> {
        let parts = std::iter::once(command).chain(command.get_subcommands());
        let own = parts.flat_map(|part| part.get_arguments()).filter_map(|arg| arg.get_long());
        let global = program.get_arguments().filter_map(|arg| arg.get_long());
        own.chain(global).chain(["help"]).map(|flag| format!("--{flag}")).collect()
    };
    program.get_subcommands().map(|command| (command.get_name().to_owned(), flags(command))).collect()
}

fn check(documents: &[&File], known: &Known) -> Vec<Offence> {
    let mut offences = Vec::new();
    for document in documents {
        let mut in_code = false;
        for (at, line) in document.lines() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
                continue;
            }
            let typed: Vec<&str> = if in_code { vec![line] } else { quoted(line).collect() };
            let faults = typed.into_iter().filter_map(|text| fault(text, known));
            offences.extend(faults.map(|what| document.offence(at, what)));
        }
    }
    offences
}

/// What is wrong with a command line; `None` if it is right, or none of ours.
fn fault(text: &str, known: &Known) -> Option<String> {
    let text = text.trim_start_matches(['$', ' ']);
    let is_setting = |word: &&str| word.split_once('=').is_some_and(|(name, _)| name.chars().all(is_of_a_variable));
    let mut words = text.split_whitespace().skip_while(is_setting);
    let program = words.next()?;
    match program {
        "make" => {
            let target = words.find(|word| !is_setting(word))?;
            (!known.targets.iter().any(|it| it == target))
                .then(|| format!("`make {target}` is no target of the Makefile"))
        }
        _ if program == "reveille" || program.ends_with("/reveille") => {
            let command = words.next().filter(|word| word.chars().all(|c| c.is_ascii_lowercase()))?;
            let Some(flags) = known.commands.get(command) else {
                return Some(format!("`reveille {command}` is no command of the program"));
            };
            let flag = words.map(|word| word.split('=').next().unwrap_or(word)).find(|word| {
                word.starts_with("--") && !flags.iter().any(|flag| flag == word.trim_end_matches([']', ',', '.']))
            })?;
            Some(format!("`reveille {command}` has no flag `{flag}`"))
        }
        _ => None,
    }
}

fn is_of_a_variable(c: char) -> bool {
    c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'
}

/// Every command line in every document, against the Makefile and the program's own parser.
#[test]
fn commands_in_documents_can_be_typed() {
    let mut program = reveille::config::Cli::command();
    program.build();
    let known = Known { targets: targets(file("Makefile")), commands: commands(&program) };
    assert!(known.targets.len() >= 5 && known.commands.len() >= 4, "the Makefile and the parser were read");
    let documents: Vec<&File> = files().iter().filter(|file| file.extension() == "md").collect();
    report(check(&documents, &known));
}

/// Made-up documents with a wrong target, command and flag, in text and in blocks; prose about them is left alone.
#[test]
fn a_command_that_cannot_be_typed_is_an_offence() {
    let known = Known {
        targets: targets(&File::new("Makefile", "PG ?=\n.PHONY: up\nup: ## run\n\techo a: b\n")),
        commands: [("up".to_owned(), vec!["--listen".to_owned()])].into(),
    };
    assert_eq!(known.targets, ["up"]);
    let text = "\
`make up`, `make up ARGS=\"x\"`, `reveille up --listen x`, `reveille --version`, reveille whatever
`make down`
`reveille down`
```
$ DATABASE_URL=x target/release/reveille up --loud
make PG=18 up
```
";
    let document = File::new("a.md", text);
    assert_eq!(places(&check(&[&document], &known)), [("a.md", 2), ("a.md", 3), ("a.md", 5)]);
}
