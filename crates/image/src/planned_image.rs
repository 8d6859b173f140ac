//! Planned images: data is where the plan puts it, and cleaning moves it.
//!
//! Images are planned where the disk underneath determines the timing (`--timing native`), because it must get the accesses
//! of the drive; also if their flash is stored separately, or their version is older. All others are in place
//! (`in_place_image.rs`).
//!
//! Cleaning writes the data that reads return at that time; the map changes later, and layers restart a cleaning when
//! anything in its band has changed. Where only the data matters, data that is at its address already is not written again.
//!
//! Invariants: a cached copy is valid until the tag of its band is durable, and that tag is written after the band's data
//! is durable; an address that a change frees is overwritten only after a sync that made the change durable.
//!
//! Imports both ways with `interpreter`: this is a part of `Interpreter`, which hands it the accesses of a plan.

use std::ops::Range;

use skylight_disk::{Direction, Lba, LbaExtent, Pba, PbaExtent, SECTOR_BYTES, Sectors};
use skylight_layer::{Layer, MapChange, Medium, Purpose, Source};

use crate::error::ImageError;
use crate::format::tag_log::{Kind, Tag};
use crate::host_write_data::HostData;
use crate::interpreter::Interpreter;
use crate::planted_bugs::Planted;
use crate::protected_ranges::Room;

/// Most bytes that are moved at a time.
const CHUNK: u64 = 1 << 20;
/// Bytes of zeros that are worth a hole.
const HOLE: usize = 64 << 10;

/// An access of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub medium: Medium,
    pub direction: Direction,
    pub extent: PbaExtent,
    pub purpose: Purpose,
    pub source: Source,
}

impl Interpreter {
    /// Does an access of a plan, as far as it has bytes.
    pub(crate) fn planned_access(
        &mut self,
        access: Access,
        layer: &dyn Layer,
        host: &mut HostData<'_>,
    ) -> Result<(), ImageError> {
        match access.source {
            Source::Host(lba) => self.write_to_place(lba.into(), (access.medium, access.extent), layer, host),
            Source::ToCache => {
                if access.purpose == Purpose::CleanStage {
                    // A tag of what moves may survive a cut that takes those before it, with the records of its zone.
                    self.flush_now()?;
                }
                self.claim(self.cache_medium(), access.extent, layer)?;
                self.note_room(access.extent);
                Ok(())
            }
            Source::Merged(lba) => self.merge(lba.into(), access.extent, layer),
            Source::Medium | Source::Internal if self.held.is_some() => self.touch(access, layer),
            Source::Medium | Source::Internal => Ok(()),
        }
    }

    /// Does an access that has no bytes, so that a disk underneath takes its time for it. What a cleaning reads is
    /// held until it is written; what the host reads, it reads for itself.
    fn touch(&mut self, access: Access, layer: &dyn Layer) -> Result<(), ImageError> {
        let Access { medium, direction, extent, purpose, .. } = access;
        let writes = direction == Direction::Write;
        if matches!(purpose, Purpose::Host | Purpose::Cache) {
            return Ok(());
        }
        let mut done = Sectors(0);
        while done < extent.len {
            let here = (extent.len - done).min(Sectors(CHUNK / SECTOR_BYTES));
            let mut buffer = vec![0; here.bytes() as usize];
            if writes {
                self.write((medium, extent.start + done), &buffer, layer)?;
            } else {
                // What is wrong is read again when it is moved.
                let wrong = self.read_to_move(medium, extent.start + done, &mut buffer)?;
                if let Some(held) = self.held.as_mut().filter(|_| wrong.is_empty()) {
                    held.add((medium, extent.start + done), buffer);
                }
            }
            done += here;
        }
        Ok(())
    }

    /// An access to the cache takes its room: the commits that follow belong to it.
    pub(crate) fn note_room(&mut self, access: PbaExtent) {
        self.state.rooms.add(Room { access, taken: self.state.taken });
        self.state.taken += access.len.get();
    }

    /// The access that wrote an extent of the cache, and what accesses before it had taken.
    pub(crate) fn room_of(&self, lba: LbaExtent, pba: Pba) -> (PbaExtent, u64) {
        match self.state.rooms.of(pba) {
            Some(room) => (room.access, room.taken),
            None => (PbaExtent::new(pba, lba.len), self.state.taken),
        }
    }

    /// The host's data at its place.
    fn write_to_place(
        &mut self,
        lba: Lba,
        (medium, extent): (Medium, PbaExtent),
        layer: &dyn Layer,
        host: &mut HostData<'_>,
    ) -> Result<(), ImageError> {
        let mut done = Sectors(0);
        while done < extent.len {
            let (piece, data) = host.take(lba + done, extent.len - done)?;
            self.write((medium, extent.start + done), data, layer)?;
            done += piece.len;
        }
        self.flush.since.untagged = true;
        Ok(())
    }

    /// Does a change of the map.
    pub(crate) fn planned_commit(
        &mut self,
        change: MapChange,
        layer: &dyn Layer,
        host: &mut HostData<'_>,
    ) -> Result<(), ImageError> {
        match change {
            MapChange::Cached { lba, pba } => self.commit_cached((lba, pba.into()), layer, host),
            MapChange::Relocated { lba, pba } => self.commit_relocated((lba, pba.into()), layer),
            MapChange::Native { lba } => {
                self.begin_tag()?;
                self.give_back(lba, PbaExtent::default());
                let follows = self.follows();
                let tag = self.tag(lba, Pba(0), Kind::Home { follows });
                self.band_tag(tag, self.flush.is_untagged());
                Ok(())
            }
            MapChange::Remapped { lba, pba } => {
                let pba = pba.into();
                self.begin_tag()?;
                self.give_back(lba, PbaExtent::new(pba, lba.len));
                let Self { state, flush, .. } = self;
                state.visit_home(layer, lba, &mut |piece| flush.since.freed.add(piece));
                let tag = self.tag(lba, pba, Kind::Moved);
                self.band_tag(tag, self.flush.is_dirty());
                Ok(())
            }
        }
    }

    fn commit_cached(
        &mut self,
        (lba, pba): (LbaExtent, Pba),
        layer: &dyn Layer,
        host: &mut HostData<'_>,
    ) -> Result<(), ImageError> {
        let mut crc = 0;
        let mut done = Sectors(0);
        while done < lba.len {
            let (piece, data) = host.take(lba.start + done, lba.len - done)?;
            self.write((self.cache_medium(), pba + done), data, layer)?;
            crc = crc32c::crc32c_append(crc, data);
            done += piece.len;
        }
        self.begin_tag()?;
        self.give_back(lba, PbaExtent::default());
        self.tag_cached((lba, pba), crc);
        Ok(())
    }

    /// What reads return of an extent goes to another place in the cache. The old one is not written over before a sync has
    /// made the new one durable, as for any place that a change of the map frees.
    fn commit_relocated(
        &mut self,
        (lba, pba): (LbaExtent, Pba),
        layer: &dyn Layer,
    ) -> Result<(), ImageError> {
        let mut pieces = Vec::new();
        self.pieces(lba, layer, &mut |medium, from| pieces.push((medium, from)));
        let (data, bad) = self.read_pieces(&pieces)?;
        let cache = self.cache_medium();
        if !self.plants.has(Planted::MoveWithoutData) {
            self.write((cache, pba), &data, layer)?;
        }
        self.spoil(cache, pba, &bad)?;
        self.begin_tag()?;
        self.give_back(lba, PbaExtent::default());
        self.tag_cached((lba, pba), crc32c::crc32c(&data));
        Ok(())
    }

    /// Logs that an extent is in the cache, at a place whose data has a checksum.
    fn tag_cached(&mut self, (lba, pba): (LbaExtent, Pba), crc: u32) {
        if self.zones.is_some() {
            // A recovery that refuses this tag for its data refuses what follows it in its plan, too.
            self.flush.since.vouched.add(PbaExtent::new(pba, lba.len));
        }
        let (access, taken) = self.room_of(lba, pba);
        let tag = self.tag(lba, pba, Kind::Cached { data_crc: crc, access, taken });
        self.state.apply(&tag);
        self.log.append(tag);
    }

    /// A tag for a band: at once, or when what it vouches for is durable.
    pub(crate) fn band_tag(&mut self, tag: Tag, waits: bool) {
        self.state.apply(&tag);
        if waits && !self.plants.has(Planted::BandTagFirst) {
            self.flush.since.waiting.push_back(tag);
        } else {
            self.log.append(tag);
        }
    }

    /// What the cache has of an extent is dead, but for what lies in `kept`. With it goes all that was written by
    /// the same access: the checksum of a tag is that of its whole extent, also when a part of it is dead.
    fn give_back(&mut self, lba: LbaExtent, kept: PbaExtent) {
        for mapped in self.state.map.overlapping(lba) {
            let mut rest = PbaExtent::new(mapped.pba, mapped.lba.len);
            while !rest.is_empty() {
                let room = self.state.rooms.of(rest.start).map_or(rest, |room| room.access);
                let here = rest.len.min(room.end() - rest.start);
                if rest.start < kept.start || kept.end() < rest.start + here {
                    self.flush.since.freed.add(room);
                }
                rest = PbaExtent::new(rest.start + here, rest.len - here);
            }
        }
    }

    /// What reads see from a host sector on is written to a place of the platters. What lies there already stays, but
    /// for a disk that takes its time for it.
    fn merge(&mut self, lba: Lba, to: PbaExtent, layer: &dyn Layer) -> Result<(), ImageError> {
        let (home, every_access) = (self.home_medium(), self.held.is_some());
        let (mut pieces, mut runs): (Vec<(Medium, PbaExtent)>, Vec<PbaExtent>) = (Vec::new(), Vec::new());
        let mut at = to.start;
        self.pieces(LbaExtent::new(lba, to.len), layer, &mut |medium, from| {
            if every_access || (medium, from.start) != (home, at) {
                pieces.push((medium, from));
                match runs.last_mut() {
                    Some(run) if run.end() == at => run.len += from.len,
                    _ => runs.push(PbaExtent::new(at, from.len)),
                }
            }
            at += from.len;
        });
        // All is read before anything is written: what is held is forgotten where it is written over.
        let (buffer, bad) = self.read_pieces(&pieces)?;
        let mut from = 0;
        for run in runs {
            let bytes = from..from + run.len.bytes() as usize;
            let mut at = run.start;
            for part in buffer[bytes.clone()].chunks(CHUNK as usize) {
                match every_access {
                    true => self.write((home, at), part, layer)?,
                    false => self.write_sparse((home, at), part, layer)?,
                }
                at += Sectors(part.len() as u64 / SECTOR_BYTES);
            }
            let here = bad.iter().filter(|wrong| bytes.contains(&wrong.start));
            let here: Vec<_> = here.map(|wrong| wrong.start - from..wrong.end - from).collect();
            self.spoil(home, run.start, &here)?;
            from = bytes.end;
        }
        self.flush.since.untagged = true;
        Ok(())
    }

    /// The bytes of pieces of the media, one after the other, and which of them are known to be wrong.
    fn read_pieces(
        &self,
        pieces: &[(Medium, PbaExtent)],
    ) -> Result<(Vec<u8>, Vec<Range<usize>>), ImageError> {
        let len: u64 = pieces.iter().map(|(_, piece)| piece.len.bytes()).sum();
        let (mut buffer, mut bad, mut into) = (vec![0; len as usize], Vec::new(), 0);
        for &(medium, piece) in pieces {
            let (mut at, end) = (piece.start, into + piece.len.bytes() as usize);
            while into < end {
                let part = &mut buffer[into..end.min(into + CHUNK as usize)];
                if !self.held.as_ref().is_some_and(|held| held.read((medium, at), part)) {
                    let wrong = self.read_to_move(medium, at, part)?;
                    bad.extend(wrong.into_iter().map(|run| into + run.start..into + run.end));
                }
                at += Sectors(part.len() as u64 / SECTOR_BYTES);
                into += part.len();
            }
        }
        Ok((buffer, bad))
    }

    /// Writes to a medium, zeros as holes where the store can have them: what is moved stays as small as it was.
    fn write_sparse(&mut self, to: (Medium, Pba), data: &[u8], layer: &dyn Layer) -> Result<(), ImageError> {
        if !self.store.can_discard() {
            return self.write(to, data, layer);
        }
        let is_zero = |part: &&[u8]| part.iter().all(|&byte| byte == 0);
        let (medium, mut at) = to;
        let mut rest = data;
        while !rest.is_empty() {
            let zeros = rest.chunks(HOLE).take_while(is_zero).map(<[u8]>::len).sum::<usize>();
            let len = match zeros {
                0 => rest.chunks(HOLE).take_while(|part| !is_zero(part)).map(<[u8]>::len).sum(),
                zeros => zeros,
            };
            let (here, behind) = rest.split_at(len);
            if zeros == 0 {
                self.write((medium, at), here, layer)?;
            } else {
                let offset = self.ready((medium, at), len as u64, layer)?;
                let discarded = self.store.discard(offset, len as u64);
                discarded.map_err(|error| self.failed("discard", error))?;
            }
            at += Sectors(len as u64 / SECTOR_BYTES);
            rest = behind;
        }
        Ok(())
    }

    /// Before something is written: a sync, if a recovery may still need what is there. A part that gets another
    /// use waits for all that was given back, not for its own sectors alone: what is taken away must not be durable
    /// without what was given for it.
    pub(crate) fn claim(
        &mut self,
        medium: Medium,
        extent: PbaExtent,
        layer: &dyn Layer,
    ) -> Result<(), ImageError> {
        let needed = medium == self.cache_medium()
            && self.flush.any_freed(|freed| !freed.is_empty())
            && (self.flush.any_freed(|freed| freed.touches(extent)) || layer.starts_slot(extent.start));
        let home = medium == self.home_medium();
        if home && self.flush.is_vouched(extent) {
            return self.flush_and_say_so();
        }
        let needed = needed || home && self.flush.is_given_up(extent);
        if needed && !self.plants.has(Planted::ReuseAtOnce) { self.flush_now() } else { Ok(()) }
    }
}
