//! Images in place: every sector has one permanent address, and cleaning writes no data.
//!
//! In a drive's plan a block is written to the persistent cache, and later its whole band is read, staged and written. The
//! clock of the model counts each of these accesses. The host reads the same data before and after a cleaning, and a file
//! has no shingled tracks: where only the data matters, none of these accesses is needed. So a write goes directly to the
//! native addresses of its sectors, even if the plan writes to the cache; out-of-band data, staging, merging and moving a
//! band write nothing. Data is written once, and a cleaning of any size is one tag per band.
//!
//! The *layer's* addresses of sectors (in the cache, in a remapped band) are still recorded, in tags and checkpoints as in
//! a planned image (`planned_image.rs`), so that a restarted drive has the same content in its cache. No read uses them. A band
//! that the layer remaps is not moved: the layer's map and the addresses of the data are separate, and only the former
//! changes.
//!
//! Why a power cut loses nothing:
//! * A sector has one address, with the data written last, or, until a sync, older data of the time since the last sync: all
//!   that a power cut may leave. A flush syncs. No tag is needed to read, so no tag depends on data.
//! * An address is never reused for another sector, so no reuse requires a sync: the only syncs are those of flushes and
//!   checkpoints.
//! * Tags concern only the layer. A power cut may take any of those since the last sync, and then all after the first
//!   missing one are ignored: the rest is the state after an interrupted plan, from which every layer can be restored.
//!
//! An image is in place if its format allows that (version 3), its flash is not on another device, its drive has no zones, and
//! no disk underneath determines the timing. (Zones are emptied without their sectors being written: a torn write would show what a
//! sector held before the reset.) Opened with such a disk, it becomes a planned image: the drive starts with its bands where the
//! data is, and with an empty cache. A planned image becomes one in place when it is opened with an empty cache. Either
//! change is durable by a checkpoint before anything else changes.
//!
//! Invariants: host data is only at native addresses, and these never change; the map is the layer's.

use skylight_disk::{LbaExtent, Pba, PbaExtent, Sectors};
use skylight_layer::{ExtentMap, Layer, MapChange, MediaUse, Source};

use crate::error::ImageError;
use crate::format::superblock::Superblock;
use crate::format::tag_log::Kind;
use crate::host_write_data::HostData;
use crate::interpreter::Interpreter;
use crate::non_native_locations::State;
use crate::options::Options;
use crate::protected_ranges::Rooms;

/// Where a stretch of the drive lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The first byte, as the host counts.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// In the persistent cache, not at its native location.
    pub cached: bool,
    /// Whether there may be anything but zeros.
    pub allocated: bool,
}

/// The first version of the formats in which checkpoints say that an image is in place.
const IN_PLACE_SINCE: u32 = 3;

/// Whether the bytes of an image are to lie in place.
pub(crate) fn is_wanted(superblock: &Superblock, room: &MediaUse, options: &Options) -> bool {
    let moves = (room.cached > Sectors(0) || room.movable > 0) && room.zones == 0;
    let planned = options.every_access || options.planned;
    superblock.version >= IN_PLACE_SINCE && moves && !superblock.flash_apart && !planned
}

impl State {
    /// Whether every sector has one place for good.
    pub fn is_in_place(&self) -> bool {
        self.fixed.is_some()
    }

    /// Has bytes lie in place from now on, or where plans put them, if that can be; whether it is a change, which a
    /// checkpoint must make durable before any other.
    pub fn lay(&mut self, in_place: bool) -> bool {
        match (in_place, self.fixed.take()) {
            (true, None) if self.map.entries() == 0 => {
                self.fixed = Some(self.moved.clone());
                true
            }
            (false, Some(fixed)) => {
                // What the layer had in its cache lies where its bands do.
                (self.map, self.rooms, self.taken) = (ExtentMap::new(), Rooms::default(), 0);
                self.moved = fixed;
                true
            }
            (_, unchanged) => {
                self.fixed = unchanged;
                false
            }
        }
    }
}

impl Interpreter {
    /// Whether every sector has one place for good.
    pub(crate) fn is_in_place(&self) -> bool {
        self.state.is_in_place()
    }

    /// Does an access of a plan.
    pub(crate) fn access_in_place(
        &mut self,
        (extent, source): (PbaExtent, Source),
        layer: &dyn Layer,
        host: &mut HostData<'_>,
    ) -> Result<(), ImageError> {
        match source {
            Source::Host(lba) => self.write_home(LbaExtent::new(lba.into(), extent.len), layer, host),
            // The commits that follow bring its bytes.
            Source::ToCache => {
                self.note_room(extent);
                Ok(())
            }
            Source::Merged(_) => {
                // The drive writes it; the image has it there.
                self.counters.media_bytes += extent.len.bytes();
                Ok(())
            }
            Source::Medium | Source::Internal => Ok(()),
        }
    }

    /// Does a change of the layer's map.
    pub(crate) fn commit_in_place(
        &mut self,
        change: MapChange,
        layer: &dyn Layer,
        host: &mut HostData<'_>,
    ) -> Result<(), ImageError> {
        let (pba, kind) = match change {
            MapChange::Cached { lba, pba } => {
                self.write_home(lba, layer, host)?;
                let pba = pba.into();
                let (access, taken) = self.room_of(lba, pba);
                (pba, Kind::Cached { data_crc: 0, access, taken })
            }
            // The layer's address changes, and no other.
            MapChange::Relocated { lba, pba } => {
                let (access, taken) = self.room_of(lba, pba.into());
                (pba.into(), Kind::Cached { data_crc: 0, access, taken })
            }
            MapChange::Native { .. } => (Pba(0), Kind::Home { follows: 0 }),
            MapChange::Remapped { pba, .. } => (pba.into(), Kind::Moved),
        };
        self.begin_tag()?;
        let tag = self.tag(change.extent(), pba, kind);
        self.state.apply(&tag);
        self.log.append(tag);
        Ok(())
    }

    /// Writes the host's data of an extent where it lies for good.
    fn write_home(
        &mut self,
        lba: LbaExtent,
        layer: &dyn Layer,
        host: &mut HostData<'_>,
    ) -> Result<(), ImageError> {
        let (home, mut places) = (self.home_medium(), std::mem::take(&mut self.places));
        let mut written = Ok(());
        let mut done = Sectors(0);
        while done < lba.len && written.is_ok() {
            let (piece, mut data) = match host.take(lba.start + done, lba.len - done) {
                Ok(taken) => taken,
                Err(error) => {
                    written = Err(error);
                    break;
                }
            };
            places.clear();
            self.state.visit_home(layer, piece, &mut |place| places.push(place));
            for place in &places {
                let (here, behind) = data.split_at(place.len.bytes() as usize);
                written = written.and_then(|()| self.write((home, place.start), here, layer));
                data = behind;
            }
            done += piece.len;
        }
        self.places = places;
        written
    }

    /// Where an extent lies, piece by piece: bytes, whether the layer has them in its cache, and whether there may be
    /// anything but zeros. At most so many pieces and one, since a look at each may cost a call to the system.
    ///
    /// # Errors
    /// When the store fails.
    pub fn visit_places(
        &self,
        extent: LbaExtent,
        layer: &dyn Layer,
        most: usize,
        visit: &mut dyn FnMut(Place),
    ) -> Result<(), ImageError> {
        let (mut located, mut lying) = (Vec::new(), Vec::new());
        if !extent.is_empty() {
            layer.locate(extent, &mut located);
        }
        let (mut at, mut visited) = (extent.start, 0);
        for piece in located {
            at = self.visit_gap(at, extent.end(), visit);
            lying.clear();
            match self.is_in_place() {
                true => {
                    let of = LbaExtent::new(at, piece.extent.len);
                    self.pieces(of, layer, &mut |medium, place| lying.push((medium, place)));
                }
                false => lying.push((piece.medium, piece.extent)),
            }
            for &(medium, place) in &lying {
                let mut done = 0;
                while done < place.len.bytes() {
                    if visited > most {
                        return Ok(());
                    }
                    let (allocated, len) = self.allocated(medium, place, done)?;
                    let offset = Sectors(at.get()).bytes();
                    visit(Place { offset: offset + done, len, cached: piece.cached, allocated });
                    (done, visited) = (done + len, visited + 1);
                }
                at += place.len;
            }
        }
        self.visit_gap(at, extent.end(), visit);
        Ok(())
    }
}
