//! Encryption of payloads: AES-256-GCM, one key per process, a random nonce per message.

use aes_gcm::aead::{Aead, AeadCore, KeyInit, OsRng};
use aes_gcm::{Aes256Gcm, Key, Nonce};
use serde_json::value::RawValue;

use crate::error::{Error, Result};

/// Bytes of a nonce, which stand before what is encrypted with it.
const NONCE: usize = 12;

/// Encrypts and decrypts, if it has a key.
pub(crate) struct Seal(Option<Aes256Gcm>);

impl Seal {
    /// With a key of 32 bytes.
    pub(crate) fn new(key: Option<&[u8; 32]>) -> Seal {
        Seal(key.map(|key| Aes256Gcm::new(&Key::<Aes256Gcm>::from(*key))))
    }

    /// A payload as it is stored.
    ///
    /// # Errors
    /// [`Error::NoKey`]: never plaintext where encryption was asked for.
    pub(crate) fn close(&self, encrypted: bool, queue: &str, payload: &str) -> Result<Vec<u8>> {
        if !encrypted {
            return Ok(payload.as_bytes().to_vec());
        }
        let no_key = || Error::NoKey { queue: queue.to_owned() };
        let cipher = self.0.as_ref().ok_or_else(no_key)?;
        let nonce = Aes256Gcm::generate_nonce(&mut OsRng);
        let mut stored = nonce.to_vec();
        stored.extend(cipher.encrypt(&nonce, payload.as_bytes()).map_err(|_| no_key())?);
        Ok(stored)
    }

    /// A payload as it was pushed. `None`: it is encrypted with another key, or was changed.
    pub(crate) fn open(&self, encrypted: bool, stored: Vec<u8>) -> Option<Box<RawValue>> {
        if encrypted { self.decrypt(&stored) } else { RawValue::from_string(String::from_utf8(stored).ok()?).ok() }
    }

    /// As [`open`](Self::open), of one that is encrypted.
    pub(crate) fn decrypt(&self, stored: &[u8]) -> Option<Box<RawValue>> {
        let (nonce, sealed) = stored.split_first_chunk::<NONCE>()?;
        let plain = self.0.as_ref()?.decrypt(&Nonce::from(*nonce), sealed).ok()?;
        RawValue::from_string(String::from_utf8(plain).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another key, no key and a changed byte open nothing; without a key nothing is sealed.
    #[test]
    fn what_was_sealed_is_opened_with_the_same_key_only() {
        let (one, other, none) = (Seal::new(Some(&[1; 32])), Seal::new(Some(&[2; 32])), Seal::new(None));
        let stored = one.close(true, "q", "{\"a\": 1}").expect("a key");
        assert!(!stored.windows(3).any(|piece| piece == b"\"a\""), "encrypted");
        assert_eq!(one.decrypt(&stored).expect("the key").get(), "{\"a\": 1}");
        assert!(other.decrypt(&stored).is_none());
        assert!(none.decrypt(&stored).is_none());
        let mut changed = stored.clone();
        *changed.last_mut().expect("bytes") ^= 1;
        assert!(one.decrypt(&changed).is_none());
        assert!(matches!(none.close(true, "q", "1"), Err(Error::NoKey { .. })));
        assert_eq!(none.open(false, none.close(false, "q", "1").expect("no key needed")).expect("plain").get(), "1");
    }
}
