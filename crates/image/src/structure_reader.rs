//! Reads the structures of an image from a store: superblocks, checkpoints, marks, the log, heads of parts.
//!
//! Invariants: nothing is written; inconsistent structures become an error or a line of a report, never a state; no address
//! beyond the drive reaches a layer.

use skylight_disk::{LbaExtent, Pba, SECTOR_BYTES};
use skylight_layer::capabilities::overwriting::Snapshot;
use skylight_layer::capabilities::zoned::ZoneRecord;
use skylight_layer::{CachedExtent, Layer, MediaUse, Overwriting};

use crate::error::ImageError;
use crate::format::checkpoint::{
    CACHED, ENTRIES, FRAGMENT, Head, MOVED, WRITER, ZONE, decode_cached, decode_fragment, decode_moved,
    decode_writer, decode_zone,
};
use crate::format::log_end::Mark;
use crate::format::part_head::{HEAD_BYTES, PartHead};
use crate::format::superblock::{COPY, NotOne, Superblock};
use crate::format::tag_log::{Kind, Tag, TagBlock};
use crate::format::{BLOCK, VERSION, checksum};
use crate::log::Marks;
use crate::non_native_locations::{BandPlaces, State};
use crate::store::Store;

/// Size of a read, bytes.
pub(crate) const CHUNK: usize = 1 << 20;
/// Limit of sequence numbers and positions, beyond the lifetime of any image.
pub(crate) const NUMBERS_MAX: u64 = 1 << 60;
/// The first version whose checkpoints record which tags were durable.
const COVERED_SINCE: u32 = 2;

/// A reader of the structures on a store.
pub(crate) struct Reader<'a>(pub &'a dyn Store);

impl Reader<'_> {
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ImageError> {
        let failed = |source| ImageError::of_store(self.0.name(), "read", source, None);
        self.0.read_at(offset, buffer).map_err(failed)
    }

    pub fn damaged(&self, what: impl Into<String>) -> ImageError {
        ImageError::Damaged { place: self.0.name(), what: what.into() }
    }

    /// The error of a fault that a repair can accept.
    pub fn faulty(&self, fault: &str) -> ImageError {
        self.damaged(format!("{fault} (skylight image repair --accept-loss goes on without what is lost)"))
    }

    /// One of the two superblocks.
    fn superblock_at(&self, offset: u64) -> Result<Superblock, NotOne> {
        let mut block = [0; BLOCK];
        let inside = offset + BLOCK as u64 <= self.0.len_bytes();
        if !inside || self.0.read_at(offset, &mut block).is_err() {
            return Err(NotOne::Foreign);
        }
        Superblock::decode(&block, |at, text| self.0.read_at(offset + at, text).map_err(|_| NotOne::Damaged))
    }

    /// The superblock, and the offset of a damaged copy.
    pub fn superblock(&self) -> Result<(Superblock, Option<u64>), ImageError> {
        let (found, bad) = self.superblock_of_parts()?;
        self.check_size(found.len_bytes())?;
        Ok((found, bad))
    }

    /// Checks that the store has at least this size.
    pub fn check_size(&self, needed_bytes: u64) -> Result<(), ImageError> {
        let (place, found_bytes) = (self.0.name(), self.0.len_bytes());
        if found_bytes < needed_bytes {
            return Err(ImageError::TooSmall { place, found_bytes, needed_bytes });
        }
        Ok(())
    }

    /// The same for a store that may be the first part of the image.
    pub fn superblock_of_parts(&self) -> Result<(Superblock, Option<u64>), ImageError> {
        let place = self.0.name();
        let (first, copy) = (self.superblock_at(0), self.superblock_at(COPY));
        let found = match (first, copy) {
            // Nothing of the host's is in it, also if the copy is there: the first one comes last.
            (Err(NotOne::HalfMade), _) => return Err(ImageError::HalfMade(place)),
            (Ok(found), Ok(copy)) if found == copy => (found, None),
            // They are written once and never changed, so neither can be an older state of the other.
            (Ok(_), Ok(_)) => {
                return Err(self.damaged("its two superblocks, at 0 and at 1 MiB, are of different images"));
            }
            (Ok(found), Err(_)) => (found, Some(COPY)),
            (Err(_), Ok(found)) => (found, Some(0)),
            (Err(NotOne::Newer(found)), _) | (_, Err(NotOne::Newer(found))) => {
                return Err(ImageError::Newer { place, found, known: VERSION });
            }
            (Err(NotOne::Foreign), Err(NotOne::Foreign)) => return Err(ImageError::Foreign(place)),
            _ => return Err(self.damaged("both its superblocks, at 0 and at 1 MiB, do not add up")),
        };
        Ok(found)
    }

    /// The newest head of each checkpoint area, newest first, and whether both its copies are intact.
    pub fn heads(&self, superblock: &Superblock) -> Result<Vec<(Head, bool)>, ImageError> {
        let mut heads = Vec::new();
        for (index, area) in superblock.checkpoints.iter().enumerate() {
            let mut blocks = [0; 2 * BLOCK];
            self.read(area.start, &mut blocks)?;
            let copies = blocks.chunks_exact(BLOCK).filter_map(|block| {
                let head = Head::decode(block.try_into().ok()?, superblock.salt)?;
                (head.generation as usize % 2 == index).then_some(head)
            });
            let copies: Vec<Head> = copies.collect();
            let Some(&newest) = copies.iter().max_by_key(|head| head.generation) else { continue };
            heads.push((newest, copies.len() == 2 && copies[0] == copies[1]));
        }
        if heads.is_empty() {
            return Err(self.damaged("neither of its checkpoints has a head that adds up"));
        }
        heads.sort_unstable_by_key(|(head, _)| std::cmp::Reverse(head.generation));
        if superblock.version < COVERED_SINCE {
            heads.iter_mut().for_each(|(head, _)| head.covered = head.sequence);
        }
        Ok(heads)
    }

    /// The marks of the log's end.
    pub fn marks(&self, superblock: &Superblock) -> Result<Marks, ImageError> {
        let Some(slots) = superblock.mark_slots() else { return Ok(Marks::default()) };
        let mut marks = Marks { slots: Some(slots), ..Marks::default() };
        for (index, &slot) in slots.iter().enumerate() {
            let mut block = [0; BLOCK];
            self.read(slot, &mut block)?;
            let mark = Mark::decode(&block, superblock.salt);
            let mark = mark.filter(|mark| mark.durable.max(mark.log_end) < NUMBERS_MAX);
            marks.bad += usize::from(mark.is_none());
            if mark > marks.newest {
                (marks.newest, marks.next) = (mark, 1 - index);
            }
        }
        Ok(marks)
    }

    /// A line about a part that belongs to another checkpoint than the newest.
    pub fn stray_part(&self, superblock: &Superblock, generation: u32) -> Result<Option<String>, ImageError> {
        for (number, part) in self.0.parts().iter().enumerate().filter(|(_, part)| part.headed) {
            let head = read_part_head(self.0, superblock, number)?;
            if !head.goes_with(generation) {
                let (of, name) = (head.generation, &part.name);
                return Ok(Some(format!(
                    "{name} is of checkpoint {of} and the rest of checkpoint {generation}: one of them is an older copy"
                )));
            }
        }
        Ok(None)
    }

    /// The entries of a checkpoint.
    pub fn entries(&self, superblock: &Superblock, head: &Head) -> Result<Vec<u8>, ImageError> {
        let area = superblock.checkpoints[head.generation as usize % 2];
        let fits = head.entries_bytes().filter(|&bytes| bytes <= area.len.saturating_sub(ENTRIES));
        let wrong = || self.damaged(format!("the entries of checkpoint {} do not add up", head.generation));
        let mut entries = vec![0; fits.ok_or_else(wrong)? as usize];
        self.read(area.start + ENTRIES, &mut entries)?;
        if checksum(superblock.salt, &entries) == head.entries_crc { Ok(entries) } else { Err(wrong()) }
    }

    /// The blocks of the log after a checkpoint, by position, and the newest checkpoint that any block names.
    pub fn log(&self, superblock: &Superblock, head: &Head) -> Result<(Vec<TagBlock>, u32), ImageError> {
        let (ring, blocks) = (superblock.log, superblock.log_blocks());
        let mut found = Vec::new();
        let mut buffer = vec![0; CHUNK];
        let mut at = 0;
        while at < ring.len {
            let here = (ring.len - at).min(CHUNK as u64) as usize;
            self.read(ring.start + at, &mut buffer[..here])?;
            for (index, bytes) in buffer[..here].chunks_exact(BLOCK).enumerate() {
                let Ok(bytes) = bytes.try_into() else { continue };
                let slot = at / BLOCK as u64 + index as u64;
                let block = TagBlock::decode(bytes, superblock.salt);
                found.extend(block.filter(|block| block.position % blocks == slot));
            }
            at += here as u64;
        }
        let newest = found.iter().map(|block| block.generation).max().unwrap_or(0);
        let behind = head.log_position..head.log_position.saturating_add(blocks);
        // A checkpoint has the tags of the generation before it: more of them are from a past that a cut has ended.
        let current = |block: &TagBlock| {
            let of_checkpoint = |tag: &Tag| tag.sequence <= head.sequence;
            block.generation >= head.generation || block.tags.iter().all(of_checkpoint)
        };
        found.retain(|block| behind.contains(&block.position) && current(block));
        found.sort_unstable_by_key(|block| block.position);
        Ok((found, newest))
    }
}

/// The head of a part of an image, by the number of the part.
///
/// # Errors
/// When it is damaged, or belongs to another part or image.
pub(crate) fn read_part_head(
    store: &dyn Store,
    superblock: &Superblock,
    number: usize,
) -> Result<PartHead, ImageError> {
    let parts = store.parts();
    let Some(part) = parts.get(number) else {
        return Err(Reader(store).damaged(format!("it has no part {number}")));
    };
    let (place, image) = (part.name.clone(), parts[0].name.clone());
    let mut head = [0; HEAD_BYTES];
    let read = store.read_head(number, &mut head);
    read.map_err(|source| ImageError::io(&place, "read its head", source))?;
    let what = match PartHead::decode(&head) {
        None => "its head does not add up".to_owned(),
        Some(head) if head.identity != superblock.identity => "it is of another image".to_owned(),
        Some(head) if head.number as usize != number => {
            format!("it is part {} and lies where part {number} belongs", head.number)
        }
        Some(head) if head.len != part.len => {
            format!("it is {} bytes long and was made for {}", part.len, head.len)
        }
        Some(head) => return Ok(head),
    };
    Err(ImageError::WrongPart { place, image, what })
}

/// The valid addresses of tags and entries; no others reach a layer.
pub(crate) struct Bounds {
    capacity: u64,
    cache: u64,
    home: u64,
    /// Whether writes overwrite others.
    overwrites: bool,
    /// Zones that have records.
    zones: u64,
}

impl Bounds {
    pub fn new(superblock: &Superblock, overwrites: bool, room: &MediaUse) -> Self {
        let sectors = |bytes: u64| bytes / SECTOR_BYTES;
        let platter = sectors(superblock.platter.len);
        let flash = sectors(superblock.flash.len);
        let cache = if flash > 0 { flash } else { platter };
        Self { capacity: sectors(superblock.capacity), cache, home: platter, overwrites, zones: room.zones }
    }

    fn hold_lba(&self, lba: LbaExtent) -> bool {
        let end = lba.start.get().checked_add(lba.len.get());
        !lba.is_empty() && end.is_some_and(|end| end <= self.capacity)
    }

    fn hold_found(&self, found: &CachedExtent) -> bool {
        let (pba, len) = (found.pba.get(), found.lba.len.get());
        let (start, room) = (found.access.start.get(), found.access.len.get());
        let inside = start <= pba && start.checked_add(room).is_some_and(|end| end <= self.cache);
        inside && pba.checked_add(len).is_some_and(|end| end <= start + room) && found.taken < NUMBERS_MAX
    }

    pub fn hold_tag(&self, tag: &Tag) -> bool {
        // The record of a zone may come without data.
        let is_bare = matches!(tag.kind, Kind::Zone { .. }) && tag.lba.is_empty();
        (is_bare || self.hold_lba(tag.lba))
            && tag.sequence < NUMBERS_MAX
            && match tag.kind {
                Kind::Cached { access, taken, .. } => {
                    self.hold_found(&CachedExtent { lba: tag.lba, pba: tag.pba, access, taken })
                }
                Kind::Home { .. } => true,
                Kind::Moved => self.hold_moved(tag.lba, tag.pba),
                Kind::Written { number, .. } => self.overwrites && number < NUMBERS_MAX,
                Kind::Zone { record, .. } => self.hold_record(&record),
            }
    }

    /// How long a zone is, its layer knows.
    fn hold_record(&self, record: &ZoneRecord) -> bool {
        u64::from(record.zone) < self.zones && record.written.get() <= self.capacity
    }

    fn hold_moved(&self, lba: LbaExtent, pba: Pba) -> bool {
        pba.get().checked_add(lba.len.get()).is_some_and(|end| end <= self.home)
    }
}

/// The content of a checkpoint; restores the snapshot of a layer whose writes overwrite others.
pub(crate) fn read_checkpoint(
    reader: &Reader<'_>,
    superblock: &Superblock,
    head: &Head,
    bounds: &Bounds,
    layer: &mut dyn Layer,
) -> Result<State, ImageError> {
    let entries = reader.entries(superblock, head)?;
    let (cached, rest) = entries.split_at(head.cached as usize * CACHED);
    let (moved, rest) = rest.split_at(head.moved as usize * MOVED);
    let (rest, zones) = rest.split_at(rest.len() - head.zones as usize * ZONE);
    let (rest, fixed) = rest.split_at(rest.len() - head.fixed as usize * MOVED);
    let mut state = State::default();
    let wrong = || reader.damaged(format!("checkpoint {} has an entry beyond the drive", head.generation));
    for entry in cached.chunks_exact(CACHED) {
        let found = decode_cached(entry);
        if !bounds.hold_lba(found.lba) || !bounds.hold_found(&found) {
            return Err(wrong());
        }
        state.rooms.add_known(found.access, found.taken);
        state.map.insert(found.lba, found.pba);
        state.taken = state.taken.max(found.taken + found.access.len.get());
    }
    let bands = |entries: &[u8]| -> Result<BandPlaces, ImageError> {
        let placed = entries.chunks_exact(MOVED).map(decode_moved).map(|(lba, pba)| {
            let inside = bounds.hold_lba(lba) && bounds.hold_moved(lba, pba);
            inside.then_some((lba.start.get(), (lba.len, pba))).ok_or_else(wrong)
        });
        placed.collect()
    };
    state.moved = bands(moved)?;
    state.fixed = if head.in_place { Some(bands(fixed)?) } else { None };
    for entry in zones.chunks_exact(ZONE) {
        let record = decode_zone(entry).filter(|record| bounds.hold_record(record)).ok_or_else(wrong)?;
        state.zones.set(record);
    }
    if !take_up_overwritten(rest, head, layer.overwriting()) {
        return Err(wrong());
    }
    Ok(state)
}

/// Restores the snapshot in a drive whose writes overwrite others; returns whether the snapshot is valid.
fn take_up_overwritten(entries: &[u8], head: &Head, overwriting: Option<&mut dyn Overwriting>) -> bool {
    let Some(overwriting) = overwriting else {
        return entries.is_empty();
    };
    let (fragments, writers) = entries.split_at(head.fragments as usize * FRAGMENT);
    let fragments = fragments.chunks_exact(FRAGMENT).map(decode_fragment).collect();
    let stamps = writers.chunks_exact(WRITER).map(decode_writer).collect();
    let snapshot = Snapshot { fragments, stamps, writes: head.writes };
    head.writes < NUMBERS_MAX && overwriting.restore_snapshot(&snapshot)
}
