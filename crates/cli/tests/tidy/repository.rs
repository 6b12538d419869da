//! The files of this repository, and how a rule says that one of them breaks it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Hidden folders that belong to the repository; all others are somebody's tools.
const HIDDEN: [&str; 2] = [".ci", ".config"];
/// Folders that are made, not written.
const MADE: [&str; 2] = ["target", "node_modules"];

/// A file, with its path from the root of the repository.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    /// How its name ends, without the dot; empty if there is none.
    pub(crate) fn extension(&self) -> &str {
        Path::new(&self.path).extension().and_then(|it| it.to_str()).unwrap_or_default()
    }

    /// Its name without folders.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Its name without folders and extension.
    pub(crate) fn stem(&self) -> &str {
        Path::new(&self.path).file_stem().and_then(|it| it.to_str()).unwrap_or_default()
    }

    /// Its folder; empty for the root.
    pub(crate) fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Whether it is Rust that only tests run.
    pub(crate) fn is_test(&self) -> bool {
        self.extension() == "rs"
            && (self.path.contains("/tests/") || self.stem() == "tests" || self.stem().ends_with("_tests"))
    }

    /// Its lines, counted from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// An offence at one of its lines.
    pub(crate) fn offence(&self, line: usize, what: impl fmt::Display) -> Offence {
        Offence { path: self.path.clone(), line, what: what.to_string() }
    }
}

/// A place where a rule is broken, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Offence {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) what: String,
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("this crate is two folders below the root").to_owned()
}

/// Every file of the repository, read once, in order of paths.
pub(crate) fn files() -> &'static [File] {
    static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
        let mut files = Vec::new();
        collect(&root(), "", &mut files);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files
    });
    &FILES
}

/// The file at `path`.
pub(crate) fn file(path: &str) -> &'static File {
    files().iter().find(|file| file.path == path).unwrap_or_else(|| panic!("{path} is missing"))
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<File>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let entry = entry.expect("an entry of a readable folder");
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        let kind = entry.file_type().expect("the type of an entry");
        if kind.is_dir() {
            let foreign = name.starts_with('.') && !HIDDEN.contains(&name.as_str());
            if !foreign && !MADE.contains(&name.as_str()) {
                collect(&entry.path(), &path, files);
            }
        } else if name == ".git" {
            // In a worktree a file, which names the folder of the repository.
        } else if let Ok(bytes) = fs::read(entry.path()) {
            // A file that went away meanwhile is somebody's temporary one.
            files.push(File { path, text: String::from_utf8_lossy(&bytes).into_owned() });
        }
    }
}

/// A relative path from a folder, without `.` and `..`.
pub(crate) fn resolve(folder: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Fails with every offence, one per line.
pub(crate) fn report(offences: Vec<Offence>) {
    let list: Vec<String> = offences.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "{} offences:\n{}", list.len(), list.join("\n"));
}

/// The lines of `offences`, for tests of the rules.
pub(crate) fn places(offences: &[Offence]) -> Vec<(&str, usize)> {
    offences.iter().map(|offence| (offence.path.as_str(), offence.line)).collect()
}
