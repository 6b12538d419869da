//! Encryption of payloads with a list of keys: the first encrypts, all decrypt, so that keys can be replaced without
//! downtime.
//!
//! A stored payload contains the id of its key, and is bound to its message: queue, partition, transaction id and
//! message id are authenticated with it. A ciphertext that was changed, or copied to another message, does not decrypt.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | `RVQ1` |
//! | 4 | the id of the key |
//! | 24 | the nonce |
//! | the rest | the payload by XAES-256-GCM, and its tag of 16 bytes |
//!
//! Payloads of the first format (a nonce of 12 bytes, then AES-256-GCM without associated data and key id) are read,
//! and not written any more.

mod failures;
mod xaes;

use std::fmt;

use aes_gcm::aead::rand_core::RngCore;
use aes_gcm::aead::{Aead, KeyInit, OsRng};
use aes_gcm::{Aes256Gcm, Key, Nonce};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::{Error, Result};
pub(crate) use failures::EncryptionFailures;
use xaes::{Master, NONCE};

/// How a payload of this format begins.
const MAGIC: [u8; 4] = *b"RVQ1";
/// Bytes of the nonce of the first format.
const FIRST_NONCE: usize = 12;
/// The prefix of a key in the hash of its id, so that the id is of no use elsewhere.
const ID_DOMAIN: &[u8] = b"reveille queue key id";

/// The id of a key: 32 bits of a hash. It reveals nothing of the key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyId([u8; 4]);

impl KeyId {
    /// The id of a key.
    pub fn of(key: &[u8; 32]) -> KeyId {
        let digest = Sha256::new().chain_update(ID_DOMAIN).chain_update(key).finalize();
        KeyId([digest[0], digest[1], digest[2], digest[3]])
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// The message that a payload belongs to. All fields are authenticated with the payload.
#[derive(Clone, Copy)]
pub(crate) struct Label<'a> {
    pub(crate) queue: &'a str,
    pub(crate) partition: &'a str,
    pub(crate) transaction_id: &'a str,
    pub(crate) id: Uuid,
}

impl Label<'_> {
    /// As bytes. Each text is preceded by its length, so that different labels have different bytes.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.id.as_bytes().to_vec();
        for text in [self.queue, self.partition, self.transaction_id] {
            bytes.extend((text.len() as u64).to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes
    }
}

/// Why a payload could not be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unopened {
    /// This process does not have its key; `None`: the first format does not name the key.
    MissingKey(Option<KeyId>),
    /// It does not decrypt with its key: it was changed, or belongs to another message. No process can decrypt it.
    Damaged,
}

impl Unopened {
    pub(crate) fn of(self, queue: &str) -> Error {
        let queue = queue.to_owned();
        match self {
            Unopened::MissingKey(key) => Error::WrongKey { queue, key },
            Unopened::Damaged => Error::Damaged { queue },
        }
    }
}

struct OneKey {
    id: KeyId,
    master: Master,
    /// For payloads of the first format.
    plain: Aes256Gcm,
}

/// Encrypts and decrypts, if it has a key.
pub(crate) struct Encryption {
    keys: Vec<OneKey>,
    pub(crate) failures: EncryptionFailures,
}

impl Encryption {
    /// With keys of 32 bytes: the first encrypts, all decrypt.
    pub(crate) fn new(keys: &[[u8; 32]]) -> Encryption {
        let one = |key: &[u8; 32]| OneKey {
            id: KeyId::of(key),
            master: Master::new(key),
            plain: Aes256Gcm::new(&Key::<Aes256Gcm>::from(*key)),
        };
        Encryption { keys: keys.iter().map(one).collect(), failures: EncryptionFailures::default() }
    }

    /// The ids of the keys, the one that encrypts first.
    pub(crate) fn ids(&self) -> Vec<KeyId> {
        self.keys.iter().map(|key| key.id).collect()
    }

    /// Whether messages of an encrypted queue can be stored.
    ///
    /// # Errors
    /// [`Error::NoKey`].
    pub(crate) fn check(&self, queue: &str) -> Result<()> {
        if self.keys.is_empty() { Err(Error::NoKey { queue: queue.to_owned() }) } else { Ok(()) }
    }

    /// A payload as it is stored.
    ///
    /// # Errors
    /// [`Error::NoKey`]: never plaintext where encryption was asked for.
    pub(crate) fn close(&self, encrypted: bool, label: &Label<'_>, payload: &str) -> Result<Vec<u8>> {
        if !encrypted {
            return Ok(payload.as_bytes().to_vec());
        }
        let no_key = || {
            self.failures.no_key(label.queue);
            Error::NoKey { queue: label.queue.to_owned() }
        };
        let key = self.keys.first().ok_or_else(no_key)?;
        let mut nonce = [0; NONCE];
        OsRng.fill_bytes(&mut nonce);
        let sealed = key.master.encrypt(&nonce, payload.as_bytes(), &label.bytes()).ok_or_else(no_key)?;
        let mut stored = Vec::with_capacity(MAGIC.len() + key.id.0.len() + NONCE + sealed.len());
        stored.extend(MAGIC);
        stored.extend(key.id.0);
        stored.extend(nonce);
        stored.extend(sealed);
        Ok(stored)
    }

    /// A payload as it was pushed. `None` inside: it is not encrypted and is no JSON.
    pub(crate) fn open(
        &self,
        encrypted: bool,
        label: &Label<'_>,
        stored: Vec<u8>,
    ) -> Result<Option<Box<RawValue>>, Unopened> {
        if encrypted { self.decrypt(label, &stored).map(Some) } else { Ok(json(stored)) }
    }

    /// As [`open`](Self::open), of one that is encrypted.
    pub(crate) fn decrypt(&self, label: &Label<'_>, stored: &[u8]) -> Result<Box<RawValue>, Unopened> {
        let mut unopened = Unopened::MissingKey(None);
        if let Some((id, nonce, sealed)) = parts(stored) {
            unopened = Unopened::MissingKey(Some(id));
            for key in self.keys.iter().filter(|key| key.id == id) {
                unopened = Unopened::Damaged;
                if let Some(plain) = key.master.decrypt(nonce, sealed, &label.bytes()) {
                    return json(plain).ok_or(Unopened::Damaged);
                }
            }
        }
        // One nonce of the first format in 2^32 begins like this format.
        self.keys.iter().find_map(|key| first_format(&key.plain, stored)).ok_or(unopened)
    }
}

/// The key id, the nonce and the ciphertext. `None`: another format.
fn parts(stored: &[u8]) -> Option<(KeyId, &[u8; NONCE], &[u8])> {
    let (id, rest) = stored.strip_prefix(&MAGIC)?.split_first_chunk()?;
    let (nonce, sealed) = rest.split_first_chunk()?;
    Some((KeyId(*id), nonce, sealed))
}

fn first_format(key: &Aes256Gcm, stored: &[u8]) -> Option<Box<RawValue>> {
    let (nonce, sealed) = stored.split_first_chunk::<FIRST_NONCE>()?;
    json(key.decrypt(&Nonce::from(*nonce), sealed).ok()?)
}

fn json(plain: Vec<u8>) -> Option<Box<RawValue>> {
    RawValue::from_string(String::from_utf8(plain).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Label<'static> = Label { queue: "q", partition: "p", transaction_id: "t", id: Uuid::nil() };

    fn encryption(keys: &[u8]) -> Encryption {
        Encryption::new(&keys.iter().map(|key| [*key; 32]).collect::<Vec<_>>())
    }

    fn opened(encryption: &Encryption, label: &Label<'_>, stored: &[u8]) -> Result<String, Unopened> {
        encryption.decrypt(label, stored).map(|payload| payload.get().to_owned())
    }

    /// A payload decrypts with any list that contains its key; otherwise the error names the missing key; without keys
    /// nothing is encrypted.
    #[test]
    fn a_payload_decrypts_with_any_list_that_has_its_key() {
        let stored = encryption(&[1, 9]).close(true, &HERE, "{\"a\": 1}").expect("a key");
        assert!(!stored.windows(3).any(|piece| piece == b"\"a\""), "encrypted");
        for keys in [&[1][..], &[2, 1], &[1, 2]] {
            assert_eq!(opened(&encryption(keys), &HERE, &stored).expect("the key"), "{\"a\": 1}");
        }
        let missing = Unopened::MissingKey(Some(KeyId::of(&[1; 32])));
        for keys in [&[][..], &[2], &[9]] {
            assert_eq!(opened(&encryption(keys), &HERE, &stored), Err(missing));
        }
        assert!(matches!(encryption(&[]).close(true, &HERE, "1"), Err(Error::NoKey { .. })));
        let plain = encryption(&[]).close(false, &HERE, "1").expect("no key needed");
        assert_eq!(encryption(&[]).open(false, &HERE, plain).expect("plain").expect("JSON").get(), "1");
    }

    /// A ciphertext decrypts for its own message only: every part of the label counts, and every byte.
    #[test]
    fn a_payload_decrypts_for_its_own_message_only() {
        let encryption = encryption(&[1]);
        let stored = encryption.close(true, &HERE, "1").expect("a key");
        for label in [
            Label { queue: "other", ..HERE },
            Label { partition: "other", ..HERE },
            Label { transaction_id: "other", ..HERE },
            Label { id: Uuid::max(), ..HERE },
            Label { queue: "qp", partition: "", ..HERE },
        ] {
            assert_eq!(opened(&encryption, &label, &stored), Err(Unopened::Damaged));
        }
        for at in MAGIC.len() + 4..stored.len() {
            let mut changed = stored.clone();
            changed[at] ^= 1;
            assert_eq!(opened(&encryption, &HERE, &changed), Err(Unopened::Damaged), "byte {at}");
        }
        for length in 0..stored.len() {
            assert!(opened(&encryption, &HERE, &stored[..length]).is_err(), "{length} bytes");
        }
    }

    /// Payloads of the first format decrypt with any of the keys; the error does not name a missing key.
    #[test]
    fn payloads_of_the_first_format_are_read() {
        let cipher = Aes256Gcm::new(&Key::<Aes256Gcm>::from([1; 32]));
        let nonce = [7; FIRST_NONCE];
        let mut stored = nonce.to_vec();
        stored.extend(cipher.encrypt(&Nonce::from(nonce), &b"[1]"[..]).expect("a short text"));
        assert_eq!(opened(&encryption(&[2, 1]), &HERE, &stored).expect("the key"), "[1]");
        assert_eq!(opened(&encryption(&[2]), &HERE, &stored), Err(Unopened::MissingKey(None)));
    }

    /// Equal payloads of one message have different nonces, and are encrypted with the first key.
    #[test]
    fn nonces_differ_and_the_first_key_encrypts() {
        let encryption = encryption(&[1, 2]);
        let stored = || encryption.close(true, &HERE, "1").expect("a key");
        let (one, other) = (stored(), stored());
        assert_ne!(one, other);
        assert_eq!(parts(&one).expect("the format").0, KeyId::of(&[1; 32]));
    }

    /// Ids of different keys differ, and have eight hexadecimal characters.
    #[test]
    fn the_id_of_a_key_is_short_and_stable() {
        assert_ne!(KeyId::of(&[1; 32]), KeyId::of(&[2; 32]));
        assert_eq!(KeyId::of(&[1; 32]).to_string().len(), 8);
        assert_eq!(KeyId::of(&[1; 32]), KeyId::of(&[1; 32]));
    }
}
