//! The little of DER that public keys in PEM files need.

const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;
const BIT_STRING: u8 = 0x03;

/// 1.2.840.113549.1.1.1
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// 1.3.101.112
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// A public key as its algorithm encodes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PublicKey<'a> {
    /// An `RSAPublicKey` in DER.
    Rsa(&'a [u8]),
    /// 32 bytes.
    Ed25519(&'a [u8]),
}

/// Reads a `SubjectPublicKeyInfo`. `None`: it is none, or of another algorithm.
pub(super) fn public_key(info: &[u8]) -> Option<PublicKey<'_>> {
    let (SEQUENCE, info, []) = element(info)? else { return None };
    let (SEQUENCE, algorithm, rest) = element(info)? else { return None };
    let (OBJECT_IDENTIFIER, name, _) = element(algorithm)? else { return None };
    // The first byte of a bit string is the number of unused bits.
    let (BIT_STRING, [0, key @ ..], []) = element(rest)? else { return None };
    match name {
        RSA => Some(PublicKey::Rsa(key)),
        ED25519 => Some(PublicKey::Ed25519(key)),
        _ => None,
    }
}

/// The tag and the contents of the first element, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => rest.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
        0x82 => rest.split_first_chunk().map(|(length, rest)| (usize::from(u16::from_be_bytes(*length)), rest))?,
        _ => return None,
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((tag, contents, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The example of RFC 8410, and the same with one byte less.
    #[test]
    fn a_key_is_read() {
        let mut info = vec![0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
        info.extend([7; 32]);
        assert_eq!(public_key(&info), Some(PublicKey::Ed25519(&[7; 32])));
        assert_eq!(public_key(&info[..43]), None);
        info[6] = 0x2a;
        assert_eq!(public_key(&info), None, "another algorithm");
    }

    proptest! {
        /// Any bytes are read without a panic.
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            public_key(&bytes);
        }
    }
}
