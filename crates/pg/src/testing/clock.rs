//! Processes with a wrong clock.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::skip;
use crate::embedded::random_hex;

/// The source of the library.
const SOURCE: &[u8] = include_bytes!("clock.c");

/// A preloaded library that shifts the wall clock of a process. Removed when dropped.
#[derive(Debug)]
pub struct WrongClock(PathBuf);

impl WrongClock {
    /// Compiles the library with the C compiler that Rust links with. `None`, with a line that the test is skipped, if
    /// there is no compiler or no `LD_PRELOAD`.
    pub async fn compile() -> Option<WrongClock> {
        let unique = random_hex(8).unwrap_or_else(|error| panic!("{error}"));
        let clock = WrongClock(std::env::temp_dir().join(format!("wrong-clock-{unique}.so")));
        match cfg!(target_os = "linux") && clock.compiled().await.unwrap_or(false) {
            true => Some(clock),
            false => skip("a C compiler on Linux"),
        }
    }

    async fn compiled(&self) -> std::io::Result<bool> {
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-x", "c", "-", "-o"]).arg(&self.0);
        let mut compiling = compiler.stdin(Stdio::piped()).spawn()?;
        let mut source = compiling.stdin.take().expect("stdin is piped");
        source.write_all(SOURCE).await?;
        drop(source);
        Ok(compiling.wait().await?.success())
    }

    /// The environment of a process whose clock is `seconds` fast, or slow if negative.
    pub fn shifted_by(&self, seconds: i64) -> [(&'static str, OsString); 2] {
        [("LD_PRELOAD", self.0.clone().into()), ("CLOCK_SKEW", seconds.to_string().into())]
    }
}

impl Drop for WrongClock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    /// A program with the library reads the shifted time. Runs `date`.
    #[tokio::test]
    async fn a_wrong_clock_is_wrong() {
        const HOUR: i64 = 3_600;
        let Some(clock) = WrongClock::compile().await else { return };
        let mut date = Command::new("date");
        date.arg("+%s").envs(clock.shifted_by(HOUR));
        let said = String::from_utf8(date.output().await.expect("date runs").stdout).expect("digits");
        let said: i64 = said.trim().parse().expect("seconds");
        let here = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64;
        assert!((said - here - HOUR).abs() < 60, "{said} is not an hour after {here}");
    }
}
