//! Images in place: every sector has one place for good, and cleaning costs the image nothing.
//!
//! A drive's plan writes a block to the persistent cache, and later reads, stages and writes the whole band of it. The
//! clock charges for each of these accesses. The bytes that a host reads are the same before and after a cleaning, and a
//! file has no shingles: where only the bytes count, none of this has to happen. So a write goes straight to the native
//! location of its sectors, whatever the plan says of the cache; out-of-band data, staging, merging and moving a band
//! write nothing. What changed is written once, and a cleaning of any size is one tag for each band.
//!
//! Where the *layer* has a sector (in the cache, in a band that was remapped) is still known: tags and checkpoints say
//! it as in a planned image (`planned.rs`), so a drive that is started again has its cache as full as it was. No read
//! looks there. A band that the layer remaps stays where it lies: the layer's map and the places of the bytes are two
//! things, and only the first changes.
//!
//! Why a power cut loses nothing:
//! * A sector lies at one place. It holds what was written there last, or, until a sync, something older that was there
//!   since the last sync: all that a cut may leave. A flush syncs. No tag is needed to read, so none has to wait for data.
//! * Nothing else is ever at that place, so nothing waits for a sync before it is reused: the only syncs are those of
//!   flushes and of checkpoints.
//! * Tags are about the layer alone. A cut may take any of those since the last sync, and then all behind the first that
//!   is missing are ignored: what is left is what a plan that was cut short leaves, which every layer takes up.
//!
//! An image is in place if its format allows (version 3), it has no flash on another device (whose bytes belong there),
//! and no disk underneath sets the time. Opened with a disk that does, it becomes a planned one: the drive finds its
//! bands where the bytes are, and its cache empty. A planned image becomes one in place when it is opened with nothing in
//! its cache. Either change is durable with a checkpoint before anything else changes.
//!
//! Invariants: bytes of the host lie nowhere but at native locations, and these never change; the map is the layer's.

use skylight_disk::{LbaExtent, Pba, PbaExtent, Sectors};
use skylight_layer::{ExtentMap, Layer, MapChange, MediaUse, Source};

use crate::error::ImageError;
use crate::format::superblock::Superblock;
use crate::format::tag::Kind;
use crate::host::HostData;
use crate::interpreter::{Interpreter, no_bytes};
use crate::options::Options;
use crate::ranges::Rooms;
use crate::state::State;

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
    let moves = room.cached > Sectors(0) || room.movable > 0;
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
            Source::HostToCache => {
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
            MapChange::Native { .. } => (Pba(0), Kind::Home),
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
            let Some((piece, mut data)) = host.take(lba.len - done) else {
                written = Err(no_bytes());
                break;
            };
            debug_assert_eq!(piece.start, lba.start + done, "plans name the host's data in its order");
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
        Ok(())
    }
}
