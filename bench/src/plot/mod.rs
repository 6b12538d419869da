//! Draws the results of runs as SVG.
//!
//! From results to drawings everything is pure, and the same results lead to the same bytes: a changed plot in a commit
//! is a changed figure. The writer is our own, a page of code: what a chart needs beyond that, themes and places of texts,
//! is what plotting libraries do not offer for SVG (`plotters` writes colours into every element; `charming` needs a
//! JavaScript engine to write a file).

mod axis;
mod charts;
mod dots;
mod growth;
mod panels;
mod results;
mod svg;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use results::Results;

use crate::Result;

/// What is drawn, and where to.
#[derive(Args)]
pub(crate) struct PlotRun {
    /// Files with the JSON lines of runs; stdin if none is given. A result that is in several files is that of the last.
    #[arg(value_name = "FILES")]
    files: Vec<PathBuf>,
    /// The folder of the SVG files. It is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Draws all charts that have results. The names of the files go to stderr.
pub(crate) fn run(PlotRun { files, out }: &PlotRun) -> Result<()> {
    let mut results = Results::default();
    if files.is_empty() {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        results.read("stdin", &text)?;
    }
    for file in files {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        results.read(&file.display().to_string(), &text)?;
    }
    let plots = charts::plots(&results);
    if plots.is_empty() {
        return Err("no result that can be drawn: give files with the output of `wake`, `durable`, `queue`, `flow` \
                    or `growth`"
            .into());
    }
    std::fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    for plot in plots {
        let path = out.join(plot.file);
        write(&path, &plot.svg).map_err(|error| format!("{}: {error}", path.display()))?;
        eprintln!("{}", path.display());
    }
    Ok(())
}

/// Writes a file, whole or not at all.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("svg.new");
    std::fs::write(&new, text)?;
    std::fs::rename(&new, path)
}
