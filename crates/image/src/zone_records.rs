//! The records of the zones of a drive: what an image has logged of them.
//!
//! Invariant: a zone that is as on a new drive takes no space.

use std::collections::BTreeMap;

use skylight_layer::capabilities::zoned::ZoneRecord;

/// The records of all zones that are not as on a new drive, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct ZoneRecords(BTreeMap<u32, ZoneRecord>);

impl ZoneRecords {
    /// The record of a zone.
    pub fn of(&self, zone: u32) -> ZoneRecord {
        self.0.get(&zone).copied().unwrap_or(ZoneRecord::empty(zone))
    }

    /// A zone has another record.
    pub fn set(&mut self, record: ZoneRecord) {
        if record == ZoneRecord::empty(record.zone) {
            self.0.remove(&record.zone);
        } else {
            self.0.insert(record.zone, record);
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = &ZoneRecord> {
        self.0.values()
    }
}
