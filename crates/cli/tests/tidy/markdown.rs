//! Links in Markdown lead somewhere, and paths named in it exist.

use crate::repository::{File, Offence, files, places, report, resolve};

/// Endings by which a word in backticks is taken for the name of a file.
const FILE_ENDINGS: &[&str] = &[".rs", ".sql", ".sh", ".md", ".toml"];

fn check(files: &[File]) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in files.iter().filter(|file| file.extension() == "md") {
        for (at, line) in prose(file) {
            for target in links(line) {
                if let Some(what) = broken(files, file, target) {
                    offences.push(file.offence(at, what));
                }
            }
            for word in quoted(line) {
                if is_path(files, word) && !exists(files, word) {
                    offences.push(file.offence(at, format!("`{word}` is not there: correct the path")));
                }
            }
        }
    }
    offences
}

/// Lines outside of code blocks.
pub(crate) fn prose(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    file.lines().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !fence && !in_code
    })
}

/// What a line has between backticks.
pub(crate) fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The targets of a line's links, without those in backticks.
fn links(line: &str) -> Vec<&str> {
    let outside = line.split('`').step_by(2);
    outside.flat_map(|text| text.split("](").skip(1)).filter_map(|rest| rest.split(')').next()).collect()
}

/// What is wrong with a link; `None` if it leads somewhere, or out of the repository.
fn broken(files: &[File], from: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let path = if path.is_empty() { from.path.clone() } else { resolve(from.folder(), path) };
    if !exists(files, &path) {
        return Some(format!("the link to `{target}` leads nowhere: correct it"));
    }
    let anchor = anchor?;
    let there = files.iter().find(|file| file.path == path)?;
    let known = prose(there).filter(|(_, line)| line.starts_with('#')).any(|(_, heading)| slug(heading) == anchor);
    (!known).then(|| format!("`{path}` has no heading `#{anchor}`: correct the link"))
}

/// The anchor of a heading, as the usual renderers make it.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Whether a word is meant as a path of this repository: it begins with one of its folders, or names a file.
fn is_path(files: &[File], word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '*');
    if word.is_empty() || !word.chars().all(plain) || word.starts_with(['/', '*', '-']) {
        return false;
    }
    match word.split_once('/') {
        Some((first, _)) => files.iter().any(|file| file.path.starts_with(&format!("{first}/"))),
        None => FILE_ENDINGS.iter().any(|ending| word.ends_with(ending) && word.len() > ending.len()),
    }
}

/// Whether a file or folder is there; a bare name counts wherever it is, and a star stands for anything.
fn exists(files: &[File], path: &str) -> bool {
    let path = path.trim_end_matches('/');
    let is = |candidate: &str| matches(path, candidate);
    if path.is_empty() {
        return true;
    }
    let folder = |file: &File| file.path.match_indices('/').any(|(at, _)| is(&file.path[..at]));
    files.iter().any(|file| is(&file.path) || folder(file) || !path.contains('/') && is(file.name()))
}

/// Whether a pattern with stars fits; a star does not cross a slash.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.take_while(|end| !text[..*end].contains('/')).any(|end| matches(rest, &text[end..]))
        }),
    }
}

/// Every link and path in every Markdown file.
#[test]
fn links_and_paths_lead_somewhere() {
    report(check(files()));
}

/// Made-up documents with a dead link, a dead anchor, and names of files that are gone; what is no path is left alone.
#[test]
fn a_dead_link_is_an_offence() {
    let text = "\
# A title: with `code`
[good](docs/b.md#two-words), [site](https://example.org/x), [here](#a-title-with-code)
[gone](docs/c.md)
[no heading](docs/b.md#three)
`docs/b.md`, `docs/*.md`, `b.md`, `docs/`, `and/or`, `GET /health`
`docs/gone.md` and `gone.rs`
```
[in code](docs/c.md)
```
";
    let made = [File::new("a.md", text), File::new("docs/b.md", "## Two words\n")];
    assert_eq!(places(&check(&made)), [("a.md", 3), ("a.md", 4), ("a.md", 6), ("a.md", 6)]);
}

/// Stars fit within one folder.
#[test]
fn a_star_stays_in_its_folder() {
    assert!(matches("crates/*/src/*.rs", "crates/pg/src/lib.rs"));
    assert!(!matches("crates/*.rs", "crates/pg/src/lib.rs"));
    assert!(!matches("docs/*.md", "docs/a.txt"));
}
