//! The zones of a buffered host's address space, and which zone of the drive each one is in.
//!
//! From the drive's first zone with a write pointer on lie the zones of the log, a spare one, and the home zones; conventional
//! zones are left out, so that every policy meets the same zones. A home zone that is rewritten changes places with the spare.
//!
//! Invariant: no two home zones, nor the spare, share a zone of the drive.

use std::collections::BTreeSet;

use skylight_disk::{Lba, LbaExtent, Sectors};
use skylight_layer::hbuffer::policy::{HomeZone, HomeZones};
use skylight_layer::{ZoneCondition, ZoneLayout, Zoned};

#[derive(Clone, Copy, Debug)]
struct Home {
    place: u32,
    condition: ZoneCondition,
    written: Sectors,
    valid: Sectors,
    buffered: Sectors,
    non_sequential: bool,
    cleaning: bool,
}

/// See the module page.
#[derive(Debug)]
pub struct Homes {
    layout: ZoneLayout,
    homes: Vec<Home>,
    spare: u32,
    /// Those of which the buffer has data.
    dirty: BTreeSet<u32>,
    oldest: Option<u32>,
    /// Those that were reported non-sequential, and how many the drive had then.
    flagged: BTreeSet<u32>,
    flags: u32,
}

impl Homes {
    /// Empty home zones beside a log of so many zones; `None` if the drive has too few zones.
    pub fn new(layout: &ZoneLayout, log_zones: u32) -> Option<Self> {
        // A last zone that is shorter cannot change places.
        let is_short = layout.extent_of(layout.zones - 1).len < layout.zone;
        let spare = layout.conventional.checked_add(log_zones).filter(|_| log_zones > 1)?;
        let places = spare.checked_add(1)?..layout.zones - u32::from(is_short);
        let homes: Vec<Home> = places
            .map(|place| Home {
                place,
                condition: ZoneCondition::Empty,
                written: Sectors(0),
                valid: Sectors(0),
                buffered: Sectors(0),
                non_sequential: false,
                cleaning: false,
            })
            .collect();
        (!homes.is_empty()).then_some(Self {
            layout: *layout,
            homes,
            spare,
            dirty: BTreeSet::new(),
            oldest: None,
            flagged: BTreeSet::new(),
            flags: 0,
        })
    }

    /// Sectors of the host's address space.
    pub fn capacity(&self) -> Sectors {
        Sectors(self.homes.len() as u64 * self.layout.capacity.get())
    }

    /// The zone of the drive that is a zone of the log, from 0 on.
    pub fn log_zone(&self, zone: u32) -> u32 {
        self.layout.conventional + zone
    }

    /// The home zone of a host sector, and how far into it the sector lies.
    pub fn place_of(&self, lba: Lba) -> (u32, Sectors) {
        let capacity = self.layout.capacity.get();
        ((lba.get() / capacity) as u32, Sectors(lba.get() % capacity))
    }

    /// The sectors of the drive for host sectors within a home zone.
    pub fn native(&self, part: LbaExtent) -> LbaExtent {
        let (zone, offset) = self.place_of(part.start);
        LbaExtent::new(self.layout.start_of(self.homes[zone as usize].place) + offset, part.len)
    }

    /// The first sector of the spare zone.
    pub fn spare(&self) -> Lba {
        self.layout.start_of(self.spare)
    }

    /// Sectors of a home zone up to the last that the drive has.
    pub fn valid(&self, zone: u32) -> Sectors {
        self.homes[zone as usize].valid
    }

    /// The zone of the drive that has a home zone.
    pub fn place(&self, zone: u32) -> u32 {
        self.homes[zone as usize].place
    }

    /// Notes a write to a home zone.
    pub fn wrote(&mut self, zone: u32, part: LbaExtent) {
        let offset = self.place_of(part.start).1;
        let home = &mut self.homes[zone as usize];
        home.valid = home.valid.max(offset + part.len);
    }

    /// Notes that so many more sectors of a home zone are in the buffer.
    pub fn buffered(&mut self, zone: u32, more: Sectors) {
        self.homes[zone as usize].buffered += more;
        self.dirty.insert(zone);
    }

    /// Notes that so many sectors of a home zone have left the buffer.
    pub fn cleaned(&mut self, zone: u32, fewer: Sectors) {
        let home = &mut self.homes[zone as usize];
        home.cleaning = false;
        home.buffered = home.buffered - fewer;
        if home.buffered.get() == 0 {
            self.dirty.remove(&zone);
        }
    }

    /// Marks a zone that is being cleaned: its writes go to the buffer.
    pub fn begin_cleaning(&mut self, zone: u32) {
        self.homes[zone as usize].cleaning = true;
    }

    /// A home zone was rewritten into the spare zone. Gives the zone of the drive that is spare now, to be reset.
    pub fn change_places(&mut self, zone: u32, valid: Sectors) -> u32 {
        let home = &mut self.homes[zone as usize];
        std::mem::swap(&mut home.place, &mut self.spare);
        home.valid = valid;
        self.spare
    }

    /// Takes over what the drive reports of a zone.
    pub fn refresh(&mut self, zone: u32, drive: &dyn Zoned) {
        let home = &mut self.homes[zone as usize];
        let reported = drive.descriptor(home.place);
        home.condition = reported.condition;
        home.written = reported.write_pointer.map_or(reported.len, |pointer| pointer - reported.start);
        home.non_sequential = reported.non_sequential;
        home.valid = home.valid.max(home.written);
        if home.non_sequential {
            self.flagged.insert(zone);
        } else {
            self.flagged.remove(&zone);
        }
    }

    /// Takes over which zones the drive has cleaned by itself, when it has `flags` non-sequential zones.
    pub fn refresh_flagged(&mut self, drive: &dyn Zoned, flags: u32) {
        if flags < self.flags {
            for zone in std::mem::take(&mut self.flagged) {
                self.refresh(zone, drive);
            }
        }
        self.flags = flags;
    }

    /// Zones of which the buffer has data.
    pub fn dirty_zones(&self) -> u32 {
        self.dirty.len() as u32
    }

    /// Notes the home zone of the oldest data in the buffer.
    pub fn set_oldest(&mut self, zone: Option<u32>) {
        self.oldest = zone;
    }
}

impl HomeZones for Homes {
    fn count(&self) -> u32 {
        self.homes.len() as u32
    }

    fn zone(&self, zone: u32) -> HomeZone {
        let Home { condition, written, buffered, non_sequential, cleaning, .. } = self.homes[zone as usize];
        let capacity = self.layout.capacity;
        let extent = LbaExtent::new(Lba(u64::from(zone) * capacity.get()), capacity);
        HomeZone { extent, condition, written, non_sequential, buffered, cleaning }
    }

    fn zone_of(&self, lba: Lba) -> u32 {
        self.place_of(lba).0
    }

    fn next_dirty(&self, from: u32) -> Option<u32> {
        self.dirty.range(from..).next().copied()
    }

    fn oldest(&self) -> Option<u32> {
        self.oldest
    }
}
