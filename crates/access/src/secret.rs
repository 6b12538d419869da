//! The text of a token: random, recognizable, and stored only as its hash.
//!
//! `rvl_`, 43 random characters, and a checksum of 6, so that a scanner for leaked secrets can tell a token from other
//! text without asking the server.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// What every token begins with.
const PREFIX: &str = "rvl_";
/// Random characters: 43 of 62 are 256 bits.
const RANDOM: usize = 43;
/// Characters of the checksum.
const CHECKSUM: usize = 6;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The text of a token. Its debug output hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// The SHA-256 of a secret. A secret of 256 random bits needs no slow hash.
#[derive(Clone, Copy, Eq)]
pub struct Hash([u8; 32]);

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// If the operating system has no random numbers.
    pub fn random() -> Result<Secret, getrandom::Error> {
        let mut text = String::with_capacity(PREFIX.len() + RANDOM + CHECKSUM);
        text.push_str(PREFIX);
        while text.len() < PREFIX.len() + RANDOM {
            let mut bytes = [0; 64];
            getrandom::fill(&mut bytes)?;
            // Values above the largest multiple of 62 would make some characters more likely.
            let fair = bytes.iter().map(|byte| usize::from(byte >> 2)).filter(|index| *index < ALPHABET.len());
            let missing = PREFIX.len() + RANDOM - text.len();
            text.extend(fair.take(missing).map(|index| char::from(ALPHABET[index])));
        }
        let checksum = checksum(&text);
        text.push_str(&checksum);
        Ok(Secret(text))
    }

    /// Reads a token. `None`: it is none, as its form and its checksum show.
    pub fn parse(text: &str) -> Option<Secret> {
        let well_formed = text.len() == PREFIX.len() + RANDOM + CHECKSUM
            && text.starts_with(PREFIX)
            && text.bytes().skip(PREFIX.len()).all(|byte| byte.is_ascii_alphanumeric());
        if !well_formed {
            return None;
        }
        let (random, given) = text.split_at(PREFIX.len() + RANDOM);
        (checksum(random) == given).then(|| Secret(text.to_owned()))
    }

    /// Whether `text` looks like a token of this kind.
    pub fn is_token(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// The text, to be shown once.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Its hash.
    pub fn hash(&self) -> Hash {
        Hash::of(self.0.as_bytes())
    }
}

impl Hash {
    /// The hash of any secret.
    pub fn of(secret: &[u8]) -> Hash {
        Hash(Sha256::digest(secret).into())
    }

    /// A stored hash. `None`: it has another length.
    pub fn stored(bytes: &[u8]) -> Option<Hash> {
        bytes.try_into().ok().map(Hash)
    }

    /// The bytes to store.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::hash::Hash for Hash {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// In constant time.
impl PartialEq for Hash {
    fn eq(&self, other: &Hash) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

fn checksum(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let mut number = u64::from_be_bytes(digest[..8].try_into().expect("eight bytes"));
    let mut checksum = String::with_capacity(CHECKSUM);
    for _ in 0..CHECKSUM {
        checksum.push(char::from(ALPHABET[(number % 62) as usize]));
        number /= 62;
    }
    checksum
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new token is read back, differs from the next, and has the same hash again.
    #[test]
    fn a_token_is_read_back() {
        let secret = Secret::random().expect("random numbers");
        assert_eq!(Secret::parse(secret.reveal()), Some(secret.clone()));
        assert_ne!(Secret::random().expect("random numbers"), secret);
        assert_eq!(secret.hash(), Hash::stored(secret.hash().as_bytes()).expect("32 bytes"));
        assert!(!format!("{secret:?} {:?}", secret.hash()).contains(&secret.reveal()[4..]));
    }

    /// One changed character fails the checksum; other texts are no tokens.
    #[test]
    fn a_mistyped_token_is_recognized() {
        let secret = Secret::random().expect("random numbers");
        let text = secret.reveal();
        for at in PREFIX.len()..text.len() {
            let other = if &text[at..=at] == "a" { "b" } else { "a" };
            assert_eq!(Secret::parse(&format!("{}{other}{}", &text[..at], &text[at + 1..])), None, "{at}");
        }
        for wrong in ["", "rvl_", &text[1..], &format!("{text}0"), &text.replace("rvl_", "RVL_"), &"é".repeat(30)] {
            assert_eq!(Secret::parse(wrong), None, "{wrong}");
        }
    }
}
