//! Zones of a served drive: pages of a report, and how many there are in each condition.
//!
//! Source: ZBC-2 (INCITS 550), REPORT ZONES, for what a report has of a zone.

use serde_json::{Value, json};
use skylight_disk::SECTOR_BYTES;
use skylight_layer::Zoned;
use skylight_layer::capabilities::zoned::{ZoneCondition, ZoneDescriptor, ZoneLayout};

/// The write pointer of a zone that has none, as clients see it.
const NO_POINTER: u64 = u64::MAX;

/// Successive zones at one moment.
#[derive(Clone, Debug)]
pub struct ZonePage {
    /// The layout of the drive.
    pub layout: ZoneLayout,
    /// The zones, in order.
    pub zones: Vec<ZoneDescriptor>,
}

impl ZonePage {
    /// The zones from a number on, `most` at most.
    pub fn of(zoned: &dyn Zoned, first: u32, most: usize) -> Self {
        let layout = *zoned.layout();
        let zones = (first..layout.zones).take(most).map(|zone| zoned.descriptor(zone)).collect();
        Self { layout, zones }
    }

    /// The layout and the columns by their names in Python (`skylight/zoned/zones.py`).
    pub fn to_json(&self) -> Value {
        let ZoneLayout { model, zone, zones, conventional, max_open, max_active, .. } = self.layout;
        let column = |get: &dyn Fn(&ZoneDescriptor) -> Value| self.zones.iter().map(get).collect::<Value>();
        let bytes = |get: fn(&ZoneDescriptor) -> u64| column(&|zone| (get(zone) * SECTOR_BYTES).into());
        let pointer =
            |zone: &ZoneDescriptor| zone.write_pointer.map_or(NO_POINTER, |at| at.get() * SECTOR_BYTES);
        json!({
            "layout": {
                "model": model.name(),
                "zone_bytes": zone.bytes(),
                "zones": zones,
                "conventional_zones": conventional,
                "max_open": max_open,
                "max_active": max_active,
                "recommended_non_sequential": self.layout.recommended_non_sequential,
            },
            "columns": {
                "start_bytes": bytes(|zone| zone.start.get()),
                "size_bytes": bytes(|zone| zone.len.get()),
                "capacity_bytes": bytes(|zone| zone.capacity.get()),
                "write_pointer_bytes": column(&|zone| pointer(zone).into()),
                "kind": column(&|zone| (zone.kind as u8).into()),
                "condition": column(&|zone| (zone.condition as u8).into()),
                "reset_recommended": column(&|zone| zone.reset_recommended.into()),
                "non_sequential": column(&|zone| zone.non_sequential.into()),
            },
        })
    }
}

/// How many zones there are in each condition, for the status.
pub(super) fn counts_json(zoned: &dyn Zoned) -> Value {
    let counts = zoned.counts();
    let of = |condition| counts.of(condition);
    json!({
        "model": zoned.layout().model.name(),
        "zones": zoned.layout().zones,
        "not_write_pointer": of(ZoneCondition::NotWritePointer),
        "empty": of(ZoneCondition::Empty),
        "implicit_open": of(ZoneCondition::ImplicitOpen),
        "explicit_open": of(ZoneCondition::ExplicitOpen),
        "closed": of(ZoneCondition::Closed),
        "full": of(ZoneCondition::Full),
        "read_only": of(ZoneCondition::ReadOnly),
        "offline": of(ZoneCondition::Offline),
        "non_sequential": counts.non_sequential,
        "reset_recommended": counts.reset_recommended,
    })
}
