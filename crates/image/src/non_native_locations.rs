//! Where everything lies that is not where a new drive has it.
//!
//! In a planned image that is where the bytes are; in an image in place (`in_place_image.rs`) it is where the layer has them,
//! and the bytes lie at native locations.
//!
//! Invariants: no sector twice; every extent in the cache lies in the room of the access that wrote it; a moved
//! band lies at one place.

use std::collections::{BTreeMap, BTreeSet};

use skylight_disk::{Lba, LbaExtent, Pba, PbaExtent, Sectors};
use skylight_layer::{CachedExtent, ExtentMap, Layer, Recovered};

use crate::format::tag_log::{Kind, Tag};
use crate::protected_ranges::{Room, Rooms};
use crate::zone_records::ZoneRecords;

/// Where bands lie, by their first host sectors: the length of each and its place.
pub(crate) type BandPlaces = BTreeMap<u64, (Sectors, Pba)>;

/// See the module page.
#[derive(Default)]
pub(crate) struct State {
    pub map: ExtentMap,
    pub rooms: Rooms,
    /// Bands that the layer has elsewhere than on a new drive.
    pub moved: BandPlaces,
    /// In an image in place, the bands whose bytes lie elsewhere than on a new drive, for good; the rest is then what
    /// the layer has, and not where bytes are. None in a planned image, where the two are one.
    pub fixed: Option<BandPlaces>,
    /// Sectors that accesses to the cache have taken.
    pub taken: u64,
    /// Zones that are not as on a new drive.
    pub zones: ZoneRecords,
}

impl State {
    /// Applies what a tag says.
    pub fn apply(&mut self, tag: &Tag) {
        match tag.kind {
            Kind::Cached { access, taken, .. } => {
                if self.rooms.of(tag.pba) != Some(Room { access, taken }) {
                    self.rooms.add(Room { access, taken });
                }
                self.map.insert(tag.lba, tag.pba);
                self.taken = self.taken.max(taken + access.len.get());
            }
            Kind::Home { .. } => self.map.remove(tag.lba),
            Kind::Moved => {
                self.map.remove(tag.lba);
                self.moved.insert(tag.lba.start.get(), (tag.lba.len, tag.pba));
            }
            // What a write overwrote is the layer's to know.
            Kind::Written { .. } => {}
            Kind::Zone { record, .. } => self.zones.set(record),
        }
    }

    /// What lies in the cache of an extent, by host address, each part with the access that wrote it.
    pub fn found(&self, of: LbaExtent) -> impl Iterator<Item = CachedExtent> + '_ {
        self.map.overlapping(of).flat_map(move |mapped| {
            let mut at = Sectors(0);
            std::iter::from_fn(move || {
                if at == mapped.lba.len {
                    return None;
                }
                let pba = mapped.pba + at;
                let room = self
                    .rooms
                    .of(pba)
                    .unwrap_or(Room { access: PbaExtent::new(pba, mapped.lba.len - at), taken: self.taken });
                let len = (mapped.lba.len - at).min(room.access.end() - pba);
                let lba = LbaExtent::new(mapped.lba.start + at, len);
                at += len;
                Some(CachedExtent { lba, pba, access: room.access, taken: room.taken })
            })
        })
    }

    /// Makes a layer take up all of it.
    pub fn restore(&self, layer: &mut dyn Layer) -> Result<(), String> {
        let mut cached: Vec<CachedExtent> = self.found(LbaExtent::new(Lba(0), layer.capacity())).collect();
        let (room, moved) = (layer.media_use(), placed(&self.moved));
        let fixed = self.fixed.as_ref().map(placed).unwrap_or_default();
        let is_moved = !moved.is_empty() || !fixed.is_empty();
        if room.cached == Sectors(0) && !cached.is_empty() || room.movable == 0 && is_moved {
            return Err("it has sectors elsewhere than its drive ever puts them".to_owned());
        }
        cached.sort_unstable_by_key(|found| found.pba);
        if let Some(pair) = cached.windows(2).find(|pair| pair[0].pba + pair[0].lba.len > pair[1].pba) {
            let [one, other] = [pair[0].lba.start, pair[1].lba.start];
            return Err(format!("sectors from {one} and from {other} on lie at one place of the cache"));
        }
        cached.sort_unstable_by_key(CachedExtent::order);
        let mut take_up = |cached: &[CachedExtent], moved: &[(LbaExtent, Pba)]| {
            layer.restore(&Recovered { cached, moved }).map_err(|error| error.to_string())
        };
        // Whether bytes can lie where they are said to, the layer knows too: bands lie apart, as its own do.
        if !fixed.is_empty() {
            take_up(&[], &fixed)?;
        }
        take_up(&cached, &moved)
    }

    /// Forgets accesses of which nothing is live, and counts from the newest that has something.
    pub fn settle(&mut self, capacity: Sectors) {
        let mut live = BTreeSet::new();
        let mut taken = 0;
        for found in self.found(LbaExtent::new(Lba(0), capacity)) {
            live.insert(found.access.start.get());
            taken = taken.max(found.taken + found.access.len.get());
        }
        self.rooms.keep(&live);
        self.taken = taken;
    }

    /// Where the bytes of an extent lie that is not in the cache, piece by piece.
    pub fn visit_home(&self, layer: &dyn Layer, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent)) {
        visit_bands(self.fixed.as_ref().unwrap_or(&self.moved), layer, extent, visit);
    }

    /// Where the layer has an extent, piece by piece, and whether in the cache.
    pub fn visit_layer(&self, layer: &dyn Layer, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent, bool)) {
        let mut at = extent.start;
        for mapped in self.map.overlapping(extent) {
            let gap = LbaExtent::new(at, mapped.lba.start - at);
            visit_bands(&self.moved, layer, gap, &mut |piece| visit(piece, false));
            visit(PbaExtent::new(mapped.pba, mapped.lba.len), true);
            at = mapped.lba.end();
        }
        let rest = LbaExtent::new(at, extent.end() - at);
        visit_bands(&self.moved, layer, rest, &mut |piece| visit(piece, false));
    }
}

fn placed(bands: &BandPlaces) -> Vec<(LbaExtent, Pba)> {
    bands.iter().map(|(&start, &(len, pba))| (LbaExtent::new(Lba(start), len), pba)).collect()
}

/// Where an extent lies by the places of bands, piece by piece.
fn visit_bands(bands: &BandPlaces, layer: &dyn Layer, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent)) {
    let mut at = extent.start;
    while at < extent.end() {
        let before = bands.range(..=at.get()).next_back();
        let inside = before.filter(|&(&start, &(len, _))| start + len.get() > at.get());
        let end = match inside {
            Some((&start, &(len, pba))) => {
                let end = extent.end().min(Lba(start) + len);
                visit(PbaExtent::new(pba + (at - Lba(start)), end - at));
                end
            }
            None => {
                let next = bands.range(at.get()..).next().map_or(extent.end(), |(&start, _)| Lba(start));
                let end = next.min(extent.end());
                layer.initial_locations(LbaExtent::new(at, end - at), visit);
                end
            }
        };
        at = end;
    }
}
