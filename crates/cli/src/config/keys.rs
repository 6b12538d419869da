//! Keys of encrypted queues, from a variable or a file.
//!
//! No error quotes the input: it may be a key with a typing mistake.

use std::{convert::Infallible, fmt, fs::File, io::Read, path::Path, str::FromStr};

use reveille_queue::KeyId;

/// Maximum number of keys. A payload of the first format is tried with each; a rotation needs two.
const KEYS_MAX: usize = 16;
/// Maximum size of a key file: each key with a long comment.
const FILE_MAX: u64 = 64 * 1024;

/// Keys that cannot be printed by accident. Any text is accepted, because the command line parser quotes what it
/// rejects; it is validated when it is used.
#[derive(Clone)]
pub(super) struct SecretKeys(String);

impl SecretKeys {
    pub(super) fn bytes(&self) -> Result<Vec<[u8; 32]>, String> {
        parse(self.0.split(',').map(str::trim))
    }
}

impl FromStr for SecretKeys {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.trim().to_owned()))
    }
}

impl fmt::Debug for SecretKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKeys(…)")
    }
}

/// The keys of a file: one per line; empty lines and lines that begin with `#` are ignored.
pub(super) fn keys_of(file: &Path) -> Result<Vec<[u8; 32]>, String> {
    let unreadable = |error: std::io::Error| format!("cannot read {}: {error}", file.display());
    let opened = File::open(file).map_err(unreadable)?;
    warn_if_readable_by_all(file, &opened);
    let mut text = String::new();
    opened.take(FILE_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_MAX {
        return Err(format!("{} is longer than {FILE_MAX} bytes", file.display()));
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    parse(lines)
}

#[cfg(unix)]
fn warn_if_readable_by_all(file: &Path, opened: &File) {
    use std::os::unix::fs::MetadataExt;
    if opened.metadata().is_ok_and(|metadata| metadata.mode() & 0o004 != 0) {
        tracing::warn!(file = %file.display(), "the key file is readable by every user of this machine: chmod 600");
    }
}

#[cfg(not(unix))]
fn warn_if_readable_by_all(_: &Path, _: &File) {}

fn parse<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<[u8; 32]>, String> {
    let mut keys: Vec<[u8; 32]> = Vec::new();
    for (number, text) in (1..).zip(texts) {
        let key = digits(text).ok_or_else(|| {
            format!("key {number} must be 64 hexadecimal characters; `openssl rand -hex 32` creates such a key")
        })?;
        if let Some(other) = keys.iter().position(|other| KeyId::of(other) == KeyId::of(&key)) {
            return Err(format!("key {number} equals key {}: remove one", other + 1));
        }
        if number > KEYS_MAX {
            return Err(format!("too many keys: at most {KEYS_MAX} are allowed"));
        }
        keys.push(key);
    }
    if keys.is_empty() { Err("contains no key".to_owned()) } else { Ok(keys) }
}

fn digits(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let digit = |digit: u8| (digit as char).to_digit(16).unwrap_or_default() as u8;
    let mut key = [0; 32];
    for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
        *byte = digit(pair[0]) << 4 | digit(pair[1]);
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> SecretKeys {
        text.parse().expect("any text is accepted")
    }

    /// A key is 64 hexadecimal characters; several are separated by commas and keep their order; anything else is
    /// rejected without being quoted.
    #[test]
    fn keys_are_hexadecimal_and_never_shown() {
        let (one, other) = ("00ff".repeat(16), "ab".repeat(32));
        let bytes = keys(&format!(" {one}, {other}\n")).bytes().expect("two keys");
        assert_eq!((bytes.len(), bytes[0][1], bytes[1][0]), (2, 0xff, 0xab));
        let many = (0..=KEYS_MAX).map(|key| format!("{key:064x}")).collect::<Vec<_>>().join(",");
        let twice = format!("{one},{}", one.to_uppercase());
        for text in ["", "secret", &one[1..], &"xy".repeat(32), &"é".repeat(32), &format!("{one},"), &twice, &many] {
            let error = keys(text).bytes().expect_err(text);
            assert!(!error.contains("secret") && !error.contains("ff"), "{error}");
        }
        assert!(!format!("{:?}", keys(&one)).contains("ff"));
    }

    /// A file has a key per line; comments and empty lines are ignored; a missing, empty or invalid file is rejected by
    /// name.
    #[test]
    fn a_file_of_keys_has_one_per_line() {
        let file = std::env::temp_dir().join(format!("reveille-keys-{}", std::process::id()));
        let write = |text: &str| std::fs::write(&file, text).expect("written");
        write(&format!("# new\n{}\n\n# old\n{}\n", "ab".repeat(32), "cd".repeat(32)));
        let read = keys_of(&file).expect("two keys");
        assert_eq!((read.len(), read[0][0], read[1][0]), (2, 0xab, 0xcd));
        for text in ["", "# nothing\n", "hunter2\n", &"#".repeat(FILE_MAX as usize + 1)] {
            write(text);
            let error = keys_of(&file).expect_err("no keys");
            assert!(!error.contains("hunter2"), "{error}");
        }
        std::fs::remove_file(&file).expect("removed");
        assert!(keys_of(&file).expect_err("no file").contains("cannot read"));
    }
}
