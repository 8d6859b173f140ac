//! Planned images: bytes lie where the plan puts them, and cleaning moves them.
//!
//! So it is where the disk underneath sets the time (`--timing native`): it must see the accesses that a drive makes.
//! An image whose flash lies apart, and one of an older version, are planned too. All others are in place
//! (`in_place.rs`).
//!
//! What cleaning writes is what reads return when the map changes: its bytes move with the commit. Where only the bytes
//! count, a band that is rewritten in place gets what the cache has of it, and the rest stays as it lies. A band that is
//! written elsewhere moves as a whole.
//!
//! Invariants: a cached copy counts until the tag of its band is durable, and that tag waits until the band's data is;
//! what a change gives back is written over only after a sync that made the change durable.

use skylight_disk::{Direction, LbaExtent, Pba, PbaExtent, SECTOR_BYTES, Sectors};
use skylight_layer::{Layer, MapChange, Medium, Purpose, Source};

use crate::error::ImageError;
use crate::format::tag::{Kind, Tag};
use crate::host::HostData;
use crate::interpreter::{Interpreter, Planted, no_bytes};
use crate::ranges::Room;

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
            Source::Host(_) => self.write_to_place((access.medium, access.extent), layer, host),
            Source::HostToCache => self.takes_room(access.extent, layer),
            Source::Merged(_) => {
                self.forget_cleaned(access.extent);
                self.cleaned.push(access.extent);
                Ok(())
            }
            Source::Medium | Source::Internal if self.every_access => self.touch(access, layer),
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
                if self.read_to_move(medium, extent.start + done, &mut buffer)?.is_empty() {
                    self.held.add((medium, extent.start + done), buffer);
                }
            }
            done += here;
        }
        Ok(())
    }

    /// The commits that follow belong to this access to the cache.
    fn takes_room(&mut self, access: PbaExtent, layer: &dyn Layer) -> Result<(), ImageError> {
        self.claim(self.cache_medium, access, layer)?;
        self.note_room(access);
        if self.cache_medium == self.home_medium {
            self.forget_cleaned(access);
        }
        Ok(())
    }

    /// An access to the cache takes its room.
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

    /// Something else is written where a cleaning had written that was given up.
    pub(crate) fn forget_cleaned(&mut self, extent: PbaExtent) {
        self.cleaned.retain(|old| old.end() <= extent.start || extent.end() <= old.start);
    }

    /// The host's data at its place.
    fn write_to_place(
        &mut self,
        (medium, extent): (Medium, PbaExtent),
        layer: &dyn Layer,
        host: &mut HostData<'_>,
    ) -> Result<(), ImageError> {
        self.forget_cleaned(extent);
        let mut done = Sectors(0);
        while done < extent.len {
            let (piece, data) = host.take(extent.len - done).ok_or_else(no_bytes)?;
            self.write((medium, extent.start + done), data, layer)?;
            done += piece.len;
        }
        self.untagged = true;
        Ok(())
    }

    /// Does a change of the map, and the moves that it stands for.
    pub(crate) fn planned_commit(
        &mut self,
        change: MapChange,
        layer: &dyn Layer,
        host: &mut HostData<'_>,
    ) -> Result<(), ImageError> {
        match change {
            MapChange::Cached { lba, pba } => self.commit_cached((lba, pba), layer, host),
            MapChange::Native { lba } => {
                // Where it lies now: at the place that it had on a new drive, cleaning may have written another band.
                let (first, mut home) = (LbaExtent::new(lba.start, Sectors(1)), PbaExtent::default());
                self.state.visit_home(layer, first, &mut |piece| home = piece);
                let whole = PbaExtent::new(home.start, lba.len);
                if self.cleaned.contains(&whole) {
                    self.forget_cleaned(whole);
                    // The same bytes come to lie where the cache has nothing: a disk takes its time for them too.
                    match self.every_access {
                        true => self.rewrite(lba, whole.start, layer)?,
                        false => self.merge_in_place(lba, layer)?,
                    }
                }
                self.begin_tag()?;
                self.give_back(lba, PbaExtent::default());
                let tag = self.tag(lba, Pba(0), Kind::Home);
                self.band_tag(tag, self.is_untagged());
                Ok(())
            }
            MapChange::Remapped { lba, pba } => {
                self.merge_elsewhere(lba, pba, layer)?;
                self.begin_tag()?;
                let new = PbaExtent::new(pba, lba.len);
                let mut before = Vec::new();
                self.state.visit_home(layer, lba, &mut |piece| before.push(piece));
                self.give_back(lba, new);
                before.into_iter().for_each(|piece| self.freed.add(piece));
                let tag = self.tag(lba, pba, Kind::Moved);
                self.band_tag(tag, self.is_dirty());
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
            let (piece, data) = host.take(lba.len - done).ok_or_else(no_bytes)?;
            debug_assert_eq!(piece.start, lba.start + done, "commits follow the host's data");
            self.write((self.cache_medium, pba + done), data, layer)?;
            crc = crc32c::crc32c_append(crc, data);
            done += piece.len;
        }
        self.begin_tag()?;
        self.give_back(lba, PbaExtent::default());
        let (access, taken) = self.room_of(lba, pba);
        let tag = self.tag(lba, pba, Kind::Cached { data_crc: crc, access, taken });
        self.state.apply(&tag);
        self.log.append(tag);
        Ok(())
    }

    /// A tag for a band: at once, or when what it vouches for is durable.
    fn band_tag(&mut self, tag: Tag, waits: bool) {
        self.state.apply(&tag);
        if waits && self.planted != Some(Planted::BandTagFirst) {
            self.waiting.push_back(tag);
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
                    self.freed.add(room);
                }
                rest = PbaExtent::new(rest.start + here, rest.len - here);
            }
        }
    }

    /// What reads see of an extent is written to a place, all of it.
    fn rewrite(&mut self, lba: LbaExtent, to: Pba, layer: &dyn Layer) -> Result<(), ImageError> {
        let mut pieces = Vec::new();
        self.pieces(lba, layer, &mut |medium, piece| pieces.push((medium, piece)));
        let mut buffer = vec![0; lba.len.bytes() as usize];
        let mut rest = buffer.as_mut_slice();
        let (mut bad, mut into) = (Vec::new(), 0);
        // All is read before anything is written, since what is held is forgotten where it is written over.
        for (medium, piece) in pieces {
            let (here, behind) = rest.split_at_mut(piece.len.bytes() as usize);
            let mut at = piece.start;
            for part in here.chunks_mut(CHUNK as usize) {
                if !self.held.read((medium, at), part) {
                    let wrong = self.read_to_move(medium, at, part)?;
                    bad.extend(wrong.into_iter().map(|run| into + run.start..into + run.end));
                }
                at += Sectors(part.len() as u64 / SECTOR_BYTES);
                into += part.len();
            }
            rest = behind;
        }
        let mut at = to;
        for part in buffer.chunks(CHUNK as usize) {
            self.write((self.home_medium, at), part, layer)?;
            at += Sectors(part.len() as u64 / SECTOR_BYTES);
        }
        self.spoil(self.home_medium, to, &bad)?;
        self.untagged = true;
        Ok(())
    }

    /// What the cache has of a band goes to its place.
    fn merge_in_place(&mut self, lba: LbaExtent, layer: &dyn Layer) -> Result<(), ImageError> {
        let cached: Vec<_> = self.state.map.overlapping(lba).collect();
        for mapped in cached {
            let mut homes = Vec::new();
            layer.initial_locations(mapped.lba, &mut |piece| homes.push(piece));
            let mut from = mapped.pba;
            for home in homes {
                self.copy((self.cache_medium, from), (self.home_medium, home), layer)?;
                from += home.len;
            }
        }
        self.untagged = true;
        Ok(())
    }

    /// What a cleaning has said that it writes of a band at its new place.
    fn merge_elsewhere(&mut self, lba: LbaExtent, pba: Pba, layer: &dyn Layer) -> Result<(), ImageError> {
        let new = PbaExtent::new(pba, lba.len);
        let inside = |part: &PbaExtent| new.start <= part.start && part.end() <= new.end();
        let parts: Vec<PbaExtent> = self.cleaned.iter().copied().filter(inside).collect();
        self.forget_cleaned(new);
        for part in parts {
            let part_lba = LbaExtent::new(lba.start + (part.start - pba), part.len);
            if self.every_access {
                self.rewrite(part_lba, part.start, layer)?;
                continue;
            }
            let mut pieces = Vec::new();
            self.pieces(part_lba, layer, &mut |medium, piece| pieces.push((medium, piece)));
            let mut to = part.start;
            for (medium, piece) in pieces {
                self.copy((medium, piece.start), (self.home_medium, PbaExtent::new(to, piece.len)), layer)?;
                to += piece.len;
            }
            self.untagged = true;
        }
        Ok(())
    }

    fn copy(
        &mut self,
        (from_medium, from): (Medium, Pba),
        (to_medium, to): (Medium, PbaExtent),
        layer: &dyn Layer,
    ) -> Result<(), ImageError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut done = Sectors(0);
        while done < to.len {
            let here = (to.len - done).min(Sectors(CHUNK / SECTOR_BYTES));
            buffer.resize(here.bytes() as usize, 0);
            let bad = self.read_to_move(from_medium, from + done, &mut buffer)?;
            self.write_sparse((to_medium, to.start + done), &buffer, layer)?;
            self.spoil(to_medium, to.start + done, &bad)?;
            done += here;
        }
        self.buffer = buffer;
        Ok(())
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
        let needed = medium == self.cache_medium
            && self.any_freed(|freed| !freed.is_empty())
            && (self.any_freed(|freed| freed.touches(extent)) || layer.starts_slot(extent.start));
        if needed && self.planted != Some(Planted::ReuseAtOnce) { self.flush_now() } else { Ok(()) }
    }
}
