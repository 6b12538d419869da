//! The exit codes of the program, and their meaning. `docs/command-line.md` lists them; released codes do not change.

/// Done.
pub const OK: u8 = 0;
/// The command failed, or its answer is no.
pub const FAILED: u8 = 1;
/// The command line, a setting or the input is wrong; nothing was done.
pub const USAGE: u8 = 2;
/// There is nothing of that name.
pub const NOT_FOUND: u8 = 3;
/// No server was reached, or it is temporarily unavailable: trying again later may help.
pub const UNREACHABLE: u8 = 4;
/// The server refused the token, or there was none.
pub const REFUSED: u8 = 5;
/// Ended by Ctrl-C before the end: 128 and the number of SIGINT, as shells count.
pub const INTERRUPTED: u8 = 130;

/// Every code of a command that speaks to a server, with its meaning.
pub const CODES: &[(u8, &str)] = &[
    (OK, "done"),
    (FAILED, "failed, or the answer is no"),
    (USAGE, "invalid command line, setting or input, or a confirmation is missing; nothing was done"),
    (NOT_FOUND, "there is nothing of that name"),
    (UNREACHABLE, "no server was reached, or it is temporarily unavailable"),
    (REFUSED, "the server refused the token, or there was none"),
    (INTERRUPTED, "ended by Ctrl-C"),
];
