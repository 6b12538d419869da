//! The ids of partitions and queues as clients see them.
//!
//! In the database they are numbers. A client sees UUIDs that contain the number and a hash of the schema, so that an
//! id of another schema is recognized, and does not name a wrong partition.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The variant of a UUID: two bits of its second half.
const VARIANT: u64 = 0b10 << 62;

/// The id of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(Uuid);

impl PartitionId {
    /// As a UUID.
    pub fn as_uuid(&self) -> Uuid {
        self.0
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for PartitionId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(PartitionId(text.parse()?))
    }
}

/// Makes the ids of one schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ids {
    schema: u64,
}

impl Ids {
    pub(crate) fn of(schema: &str) -> Ids {
        let digest = Sha256::digest(schema);
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        // Version 8: its contents are up to the application.
        Ids { schema: u64::from_be_bytes(first) & !0xf000 | 0x8000 }
    }

    pub(crate) fn uuid(self, number: i64) -> Uuid {
        Uuid::from_u64_pair(self.schema, number as u64 | VARIANT)
    }

    pub(crate) fn partition(self, number: i64) -> PartitionId {
        PartitionId(self.uuid(number))
    }

    /// The number of a partition. `None`: the id is of another schema, or of no partition.
    pub(crate) fn number(self, id: PartitionId) -> Option<i64> {
        let (schema, number) = id.0.as_u64_pair();
        (schema == self.schema && number & (0b11 << 62) == VARIANT).then_some((number & !VARIANT) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An id must be a UUID that comes back as its number, and one of another schema must not.
    #[test]
    fn an_id_is_a_uuid_of_its_schema() {
        let (ours, others) = (Ids::of("reveille"), Ids::of("other"));
        for number in [0, 1, 42, i64::from(u32::MAX), 1 << 61] {
            let id = ours.partition(number);
            assert_eq!(id.to_string().parse(), Ok(id));
            assert_eq!((id.as_uuid().get_version_num(), ours.number(id)), (8, Some(number)));
            assert_eq!(others.number(id), None);
        }
        assert_eq!(ours.number(PartitionId(Uuid::new_v4())), None);
    }
}
