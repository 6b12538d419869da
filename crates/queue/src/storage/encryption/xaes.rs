//! XAES-256-GCM, as <https://c2sp.org/XAES-256-GCM> defines it: AES-256-GCM with a key per message.
//!
//! A nonce of AES-GCM has 96 bits. Random ones repeat too soon: a key is good for 2^32 messages. Here a nonce has 192
//! bits: its first half derives a key from the master key, its second half is the nonce of AES-GCM under that key. So a
//! key is good for 2^80 messages.

use aes_gcm::aead::{Aead, Payload};
use aes_gcm::aes::Aes256;
use aes_gcm::aes::cipher::{BlockEncrypt, KeyInit};
use aes_gcm::{Aes256Gcm, Key, Nonce};

/// Bytes of a nonce.
pub(super) const NONCE: usize = 24;
/// Bytes of the half of it that derives the key.
const SALT: usize = 12;
/// Bytes of a block of AES.
const BLOCK: usize = 16;

/// A master key, ready to derive keys.
pub(super) struct Master {
    cipher: Aes256,
    /// The subkey of CMAC for whole blocks.
    subkey: [u8; BLOCK],
}

impl Master {
    pub(super) fn new(key: &[u8; 32]) -> Master {
        let cipher = Aes256::new(&(*key).into());
        let mut zero = [0; BLOCK].into();
        cipher.encrypt_block(&mut zero);
        // Doubling in GF(2^128): without a branch, because the bit depends on the key.
        let bits = u128::from_be_bytes(zero.into());
        let doubled = (bits << 1) ^ ((bits >> 127) * 0b1000_0111);
        Master { cipher, subkey: doubled.to_be_bytes() }
    }

    /// Encrypts, and authenticates `associated` with it. `None`: the text is longer than AES-GCM can encrypt (64 GB).
    pub(super) fn encrypt(&self, nonce: &[u8; NONCE], text: &[u8], associated: &[u8]) -> Option<Vec<u8>> {
        let (cipher, nonce) = self.derived(nonce);
        cipher.encrypt(&nonce, Payload { msg: text, aad: associated }).ok()
    }

    /// Decrypts. `None`: another key, another nonce, other associated data, or a byte was changed.
    pub(super) fn decrypt(&self, nonce: &[u8; NONCE], sealed: &[u8], associated: &[u8]) -> Option<Vec<u8>> {
        let (cipher, nonce) = self.derived(nonce);
        cipher.decrypt(&nonce, Payload { msg: sealed, aad: associated }).ok()
    }

    /// The key of a message: two blocks of CMAC in counter mode, NIST SP 800-108r1, with the label `X` and the salt as
    /// context.
    fn derived(&self, nonce: &[u8; NONCE]) -> (Aes256Gcm, Nonce<aes_gcm::aead::consts::U12>) {
        let mut key = [0; 2 * BLOCK];
        for (counter, half) in (1..).zip(key.chunks_exact_mut(BLOCK)) {
            let mut block = [0, counter, b'X', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            block[BLOCK - SALT..].copy_from_slice(&nonce[..SALT]);
            block.iter_mut().zip(self.subkey).for_each(|(byte, subkey)| *byte ^= subkey);
            let mut block = block.into();
            self.cipher.encrypt_block(&mut block);
            half.copy_from_slice(&block);
        }
        let mut rest = [0; NONCE - SALT];
        rest.copy_from_slice(&nonce[SALT..]);
        (Aes256Gcm::new(&Key::<Aes256Gcm>::from(key)), Nonce::from(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The two examples of the specification: the highest bit of the subkey before doubling is set in one, and not in
    /// the other.
    #[test]
    fn the_examples_of_the_specification_hold() {
        let nonce = b"ABCDEFGHIJKLMNOPQRSTUVWX";
        let text = b"XAES-256-GCM";
        for (key, associated, expected) in [
            ([1; 32], "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"),
            ([3; 32], "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"),
        ] {
            let master = Master::new(&key);
            let sealed = master.encrypt(nonce, text, associated.as_bytes()).expect("a short text");
            let shown: String = sealed.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(shown, expected);
            assert_eq!(master.decrypt(nonce, &sealed, associated.as_bytes()).expect("the same key"), text);
        }
    }
}
