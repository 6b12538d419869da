//! The name in a client certificate.
//!
//! The certificate has been verified: its bytes are those that an authority has signed. Its name is the common name of
//! its subject; without one, its first URI (SPIFFE) or DNS name.

use std::sync::Arc;

use tokio_rustls::rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// The longest name: it is shown in audit rows and logs.
const NAME_MAX: usize = 256;

/// The object identifier of a common name, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

const SET: u8 = 0x31;
const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// String types that are UTF-8 or a part of it.
const STRINGS: &[u8] = &[0x0c, 0x13, 0x16];

/// The name of a certificate; `None` if it has none that can be shown.
pub(super) fn name(certificate: &CertificateDer<'static>) -> Option<Arc<str>> {
    let parsed = EndEntityCert::try_from(certificate).ok()?;
    let common = common_name(parsed.subject());
    let other = || parsed.valid_uri_names().next().or_else(|| parsed.valid_dns_names().next()).map(str::to_owned);
    let name = common.or_else(other)?;
    let fits = !name.is_empty() && name.len() <= NAME_MAX && !name.chars().any(char::is_control);
    fits.then(|| name.into())
}

/// The last common name of a subject, without its outer sequence.
fn common_name(mut subject: &[u8]) -> Option<String> {
    let mut found = None;
    while let Some((SET, mut set, rest)) = element(subject) {
        while let Some((SEQUENCE, attribute, others)) = element(set) {
            if let Some((OBJECT_IDENTIFIER, COMMON_NAME, value)) = element(attribute)
                && let Some((kind, text, _)) = element(value)
                && STRINGS.contains(&kind)
            {
                found = String::from_utf8(text.to_vec()).ok();
            }
            set = others;
        }
        subject = rest;
    }
    found
}

/// The tag and the contents of the first DER element, and what follows it.
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

    fn attribute(oid: &[u8], kind: u8, text: &[u8]) -> Vec<u8> {
        let tagged = |tag: u8, contents: Vec<u8>| [vec![tag, contents.len() as u8], contents].concat();
        let pair = [tagged(OBJECT_IDENTIFIER, oid.to_vec()), tagged(kind, text.to_vec())].concat();
        tagged(SET, tagged(SEQUENCE, pair))
    }

    /// Of several attributes the common name counts, and of several of those the last.
    #[test]
    fn the_common_name_is_found() {
        let organisation = attribute(&[0x55, 0x04, 0x0a], 0x0c, b"Example");
        let subject = [organisation.clone(), attribute(COMMON_NAME, 0x13, b"ann")].concat();
        assert_eq!(common_name(&subject).as_deref(), Some("ann"));
        let twice = [attribute(COMMON_NAME, 0x0c, b"ann"), attribute(COMMON_NAME, 0x0c, "zoë".as_bytes())].concat();
        assert_eq!(common_name(&twice).as_deref(), Some("zoë"));
        assert_eq!(common_name(&organisation), None);
        assert_eq!(common_name(&attribute(COMMON_NAME, 0x1e, b"\0a")), None, "another alphabet");
    }

    proptest! {
        /// Any bytes are read without a panic.
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            common_name(&bytes);
        }
    }
}
