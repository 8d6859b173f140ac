//! A consistency check of the whole state of a fully-associative drive, and the use of its bands: a part of the layer
//! that only its tests compile (feature `audit`).
//!
//! Slow: it examines every slot of every written zone and every exception.

use std::collections::BTreeMap;

use skylight_disk::{LbaExtent, Sectors};

use super::FullyAssociative;
use super::slots::Zone;

/// The use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Band(u32),
    Free,
    Log,
    Merged,
}

/// The use of the bands of a zone that belong to no logical band.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneUse {
    /// Free bands.
    pub free: u32,
    /// Logs, which contain exceptions.
    pub logs: u32,
    /// 1 for a merged band that is not committed yet.
    pub merged: u32,
}

impl FullyAssociative {
    /// The number of zones.
    pub fn zones(&self) -> usize {
        self.zones.len()
    }

    /// The use of the bands of a zone that belong to no logical band.
    pub fn zone_use(&self, zone: usize) -> ZoneUse {
        let merged = self.cleaning.filter(|cleaning| cleaning.at.zone == zone).and_then(|c| c.merged());
        let merged = u32::from(merged.is_some());
        match &self.zones[zone] {
            Some(zone) => ZoneUse { free: zone.free.len() as u32, logs: zone.logs.len() as u32, merged },
            None => ZoneUse { free: self.spec.free_bands, logs: 0, merged },
        }
    }

    /// Checks the invariants of the module documentation.
    ///
    /// # Errors
    /// The first violation, with its location.
    pub fn audit(&self) -> Result<(), String> {
        let mut sectors = 0;
        for (number, zone) in self.zones.iter().enumerate() {
            let extent = self.layout.zone_extent(number);
            match zone {
                Some(zone) => sectors += self.audit_zone(number, zone)?,
                None if self.exceptions.overlapping(extent).next().is_some() => {
                    return Err(format!("zone {number} has exceptions but was never written"));
                }
                None => {}
            }
        }
        if sectors != self.exceptions.sectors() {
            let found = self.exceptions.sectors();
            return Err(format!("logs have {sectors} live sectors, but the map has {found}"));
        }
        Ok(())
    }

    /// Checks a zone. Returns its live sectors.
    fn audit_zone(&self, number: usize, zone: &Zone) -> Result<u64, String> {
        self.audit_slots(number, zone)?;
        audit_open(zone).map_err(|fault| format!("zone {number}: {fault}"))?;
        let live = self.live(number, self.layout.zone_extent(number));
        for log in &zone.logs {
            let found = live.get(&log.slot).copied().unwrap_or(0);
            if found != u64::from(log.live) || found == 0 || u64::from(log.written) > self.spec.band.get() {
                return Err(format!("zone {number}: the map has {found} sectors in {log:?}"));
            }
        }
        if live.len() != zone.logs.len() {
            return Err(format!("zone {number}: not all slots with exceptions are logs: {:?}", live.keys()));
        }
        for stream in &zone.streams {
            let written = Sectors(zone.written(stream.slot).into());
            let lba = self.layout.of(self.layout.zone_extent(number).start).lba.start;
            let start = lba + Sectors(u64::from(stream.band) * self.spec.band.get());
            let mut at = self.layout.slot_start(number, stream.slot);
            for mapped in self.exceptions.overlapping(LbaExtent::new(start, written)) {
                if mapped.pba != at {
                    return Err(format!("zone {number}: {mapped:?} of {stream:?} is not at {at}"));
                }
                at += mapped.lba.len;
            }
            if live.get(&stream.slot) != Some(&written.get()) {
                return Err(format!("zone {number}: {stream:?} is not entirely live"));
            }
        }
        Ok(live.values().sum())
    }

    /// Checks that every slot has exactly one role.
    fn audit_slots(&self, number: usize, zone: &Zone) -> Result<(), String> {
        let native = |band| zone.remapped(band).unwrap_or_else(|| self.layout.native(number, band));
        let bands = (0..self.layout.bands(number)).map(|band| (native(band), Role::Band(band)));
        let free = zone.free.iter().map(|&slot| (slot, Role::Free));
        let logs = zone.logs.iter().map(|log| (log.slot, Role::Log));
        let cleaning = self.cleaning.filter(|cleaning| cleaning.at.zone == number);
        let merged = cleaning.and_then(|cleaning| cleaning.merged()).map(|slot| (slot, Role::Merged));
        let mut roles: Vec<Option<Role>> = vec![None; self.layout.slots(number) as usize];
        for (slot, role) in bands.chain(free).chain(logs).chain(merged) {
            if let Some(other) = roles[slot as usize].replace(role) {
                return Err(format!("zone {number}: slot {slot} is both {other:?} and {role:?}"));
            }
        }
        match roles.iter().position(Option::is_none) {
            Some(slot) => Err(format!("zone {number}: slot {slot} has no role")),
            None => Ok(()),
        }
    }

    /// By slot: the number of sectors to which the map points.
    fn live(&self, number: usize, extent: LbaExtent) -> BTreeMap<u32, u64> {
        let mut live = BTreeMap::new();
        for mapped in self.exceptions.overlapping(extent) {
            for sector in 0..mapped.lba.len.get() {
                let (slot, _) = self.layout.slot_of(number, mapped.pba + Sectors(sector));
                *live.entry(slot).or_insert(0) += 1;
            }
        }
        live
    }
}

/// Checks that open logs are distinct, and that logs are in the order of their opening.
fn audit_open(zone: &Zone) -> Result<(), String> {
    let streams = zone.streams.iter().map(|stream| stream.slot);
    let mut open: Vec<u32> = streams.chain(zone.spares.iter().copied()).chain(zone.current()).collect();
    let count = open.len();
    if let Some(slot) = open.iter().find(|&&slot| zone.log(slot).is_none()) {
        return Err(format!("slot {slot} is open for appending but is not a log"));
    }
    open.sort_unstable();
    open.dedup();
    if open.len() != count {
        return Err(format!("some of slots {open:?} are open for appending twice"));
    }
    if !zone.logs.iter().is_sorted_by_key(|log| log.opened) {
        return Err("logs are out of order".to_owned());
    }
    if zone.spares.iter().any(|&slot| !zone.has_space(slot)) {
        return Err("a spare log has no space".to_owned());
    }
    Ok(())
}
