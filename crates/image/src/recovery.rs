//! What a store says when it is opened, and the checkpoints that make that short.
//!
//! The newest checkpoint says where everything was; the tags that the log has from there on say what changed.
//! They are taken in the order of their sequence. A tag for data in the cache counts only if the data is there:
//! it has the tag's checksum, or a later block says that the tag was durable. Data that the store knows to be wrong
//! was there, so its tag counts, and reading it is an error. What was found is written down as a
//! checkpoint before anything else happens, so that no tag that was refused is ever read again.
//!
//! Invariants: recovery writes nothing but a checkpoint, so one that is cut is done again with the same outcome;
//! what does not add up and is no power cut is refused.

use std::collections::BTreeSet;

use skylight_disk::shingling::Destroyed;
use skylight_disk::{LbaExtent, PbaExtent, SECTOR_BYTES, Sectors};
use skylight_layer::swd::Snapshot;
use skylight_layer::{Found, Layer, Medium, Room, Swd};

use crate::error::ImageError;
use crate::format::checkpoint::{
    CACHED, ENTRIES, Head, MOVED, TORN, WRITER, decode_cached, decode_moved, decode_torn, decode_writer,
};
use crate::format::superblock::{COPY, NotOne, Superblock};
use crate::format::tag::{Kind, Tag, TagBlock};
use crate::format::{BLOCK, VERSION, checksum};
use crate::interpreter::{Interpreter, Planted};
use crate::log::TagLog;
use crate::state::State;
use crate::store::Store;

/// Bytes that are read or written at a time.
const CHUNK: usize = 1 << 20;
/// No image lives long enough for such a sequence number or position.
const NUMBERS_MAX: u64 = 1 << 60;

/// What is asked of a store, with the words for its errors.
pub(crate) struct Reader<'a>(pub &'a dyn Store);

impl Reader<'_> {
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ImageError> {
        let failed = |source| ImageError::of_store(self.0.name(), "read", source, None);
        self.0.read_at(offset, buffer).map_err(failed)
    }

    pub fn damaged(&self, what: impl Into<String>) -> ImageError {
        ImageError::Damaged { place: self.0.name(), what: what.into() }
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

    /// The superblock, and whether both copies are whole.
    pub fn superblock(&self) -> Result<(Superblock, bool), ImageError> {
        let (found, whole) = self.superblock_of_parts()?;
        if found.len_bytes() > self.0.len_bytes() {
            let (place, needed_bytes) = (self.0.name(), found.len_bytes());
            return Err(ImageError::TooSmall { place, found_bytes: self.0.len_bytes(), needed_bytes });
        }
        Ok((found, whole))
    }

    /// The same for a store that may be the first part of the image.
    pub fn superblock_of_parts(&self) -> Result<(Superblock, bool), ImageError> {
        let place = self.0.name();
        let (first, copy) = (self.superblock_at(0), self.superblock_at(COPY));
        let whole = first.is_ok() && copy.is_ok();
        let found = match (first, copy) {
            (Ok(found), _) | (Err(_), Ok(found)) => found,
            (Err(NotOne::Newer(found)), _) | (_, Err(NotOne::Newer(found))) => {
                return Err(ImageError::Newer { place, found, known: VERSION });
            }
            (Err(NotOne::Foreign), Err(NotOne::Foreign)) => return Err(ImageError::Foreign(place)),
            _ => return Err(self.damaged("both its superblocks, at 0 and at 1 MiB, do not add up")),
        };
        Ok((found, whole))
    }

    /// The newest head of a checkpoint.
    pub fn head(&self, superblock: &Superblock) -> Result<Head, ImageError> {
        let mut newest: Option<Head> = None;
        for (index, area) in superblock.checkpoints.iter().enumerate() {
            for copy in [0, BLOCK as u64] {
                let mut block = [0; BLOCK];
                self.read(area.start + copy, &mut block)?;
                let head = Head::decode(&block, superblock.salt);
                let head = head.filter(|head| head.generation as usize % 2 == index);
                newest = newest.max_by_generation(head);
            }
        }
        newest.ok_or_else(|| self.damaged("neither of its checkpoints has a head that adds up"))
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

    /// The blocks of the log behind a checkpoint, by position.
    pub fn log(&self, superblock: &Superblock, head: &Head) -> Result<Vec<TagBlock>, ImageError> {
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
        if let Some(later) = found.iter().find(|block| block.generation > head.generation) {
            let lost = later.generation;
            return Err(self.damaged(format!("its log goes on from checkpoint {lost}, which is not there")));
        }
        let behind = head.log_position..head.log_position.saturating_add(blocks);
        found.retain(|block| behind.contains(&block.position));
        found.sort_unstable_by_key(|block| block.position);
        Ok(found)
    }
}

trait Newest {
    fn max_by_generation(self, other: Self) -> Self;
}

impl Newest for Option<Head> {
    fn max_by_generation(self, other: Self) -> Self {
        match (self, other) {
            (Some(one), Some(two)) => Some(if two.generation > one.generation { two } else { one }),
            (one, two) => one.or(two),
        }
    }
}

/// What addresses a tag or an entry may have: no other ones reach a layer.
struct Bounds {
    capacity: u64,
    cache: u64,
    home: u64,
    /// Whether writes overwrite others.
    shingled: bool,
}

impl Bounds {
    fn new(superblock: &Superblock, shingled: bool) -> Self {
        let sectors = |bytes: u64| bytes / SECTOR_BYTES;
        let platter = sectors(superblock.platter.len);
        let flash = sectors(superblock.flash.len);
        let cache = if flash > 0 { flash } else { platter };
        Self { capacity: sectors(superblock.capacity), cache, home: platter, shingled }
    }

    fn hold_lba(&self, lba: LbaExtent) -> bool {
        let end = lba.start.get().checked_add(lba.len.get());
        !lba.is_empty() && end.is_some_and(|end| end <= self.capacity)
    }

    fn hold_found(&self, found: &Found) -> bool {
        let (pba, len) = (found.pba.get(), found.lba.len.get());
        let (start, room) = (found.access.start.get(), found.access.len.get());
        let inside = start <= pba && start.checked_add(room).is_some_and(|end| end <= self.cache);
        inside && pba.checked_add(len).is_some_and(|end| end <= start + room) && found.taken < NUMBERS_MAX
    }

    fn hold_tag(&self, tag: &Tag) -> bool {
        self.hold_lba(tag.lba)
            && tag.sequence < NUMBERS_MAX
            && match tag.kind {
                Kind::Cached { access, taken, .. } => {
                    self.hold_found(&Found { lba: tag.lba, pba: tag.pba, access, taken })
                }
                Kind::Home => true,
                Kind::Moved => self.hold_moved(tag.lba, tag.pba),
                Kind::Written { number, .. } => self.shingled && number < NUMBERS_MAX,
            }
    }

    fn hold_moved(&self, lba: LbaExtent, pba: skylight_disk::Pba) -> bool {
        pba.get().checked_add(lba.len.get()).is_some_and(|end| end <= self.home)
    }
}

/// How a store was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Tags that were read behind the checkpoint.
    pub tags: u64,
    /// Of those, how many had to be checked against their data.
    pub checked: u64,
    /// Of those, how many had lost it.
    pub refused: u64,
    /// Tags that were durable and are not there: the medium has lost a block of the log.
    pub lost: u64,
    /// Whether it had been switched off in order.
    pub clean: bool,
}

/// What a store says, before anything is written.
struct Understood {
    head: Head,
    state: State,
    sequence: u64,
    /// Of the block behind the last one.
    position: u64,
    /// Whether there is anything behind the checkpoint.
    behind: bool,
    recovery: Recovery,
}

fn understand(
    reader: &Reader<'_>,
    superblock: &Superblock,
    shingled: Option<Swd>,
    planted: Option<Planted>,
) -> Result<Understood, ImageError> {
    let head = reader.head(superblock)?;
    if head.sequence.max(head.log_position) >= NUMBERS_MAX {
        return Err(reader.damaged(format!("checkpoint {} has numbers that none has", head.generation)));
    }
    let bounds = Bounds::new(superblock, shingled.is_some());
    let mut state = read_checkpoint(reader, superblock, &head, &bounds, shingled)?;
    let blocks = reader.log(superblock, &head)?;
    let replay = Replay { reader, superblock, bounds: &bounds, planted };
    let (highest, mut recovery) = replay.run(&blocks, &mut state)?;
    recovery.clean = head.clean && blocks.is_empty();
    recovery.lost = lost_tags(&head, &blocks);
    state.settle(Sectors(superblock.capacity / SECTOR_BYTES));
    Ok(Understood {
        state,
        sequence: highest.max(head.sequence),
        position: blocks.last().map_or(head.log_position, |block| block.position + 1),
        behind: !blocks.is_empty(),
        head,
        recovery,
    })
}

/// How many tags behind a checkpoint were durable by the word of a later block, and are in none.
fn lost_tags(head: &Head, blocks: &[TagBlock]) -> u64 {
    let durable = blocks.iter().map(|block| block.durable).max().unwrap_or(0);
    let tags = blocks.iter().flat_map(|block| &block.tags);
    let there = tags.filter(|tag| head.sequence < tag.sequence && tag.sequence <= durable).count() as u64;
    durable.saturating_sub(head.sequence).saturating_sub(there)
}

/// Reads where everything lies and has the layer take it up. The store is as it was, unless there was something
/// behind the checkpoint: then there is a new one.
pub(crate) fn recover(
    store: Box<dyn Store>,
    superblock: Superblock,
    layer: &mut dyn Layer,
    planted: Option<Planted>,
) -> Result<(Interpreter, Recovery), ImageError> {
    let blank = layer.raw_shingled().map(|disk| disk.blank());
    let mut found = understand(&Reader(store.as_ref()), &superblock, blank, planted)?;
    let damaged = |what| Reader(store.as_ref()).damaged(what);
    found.state.restore(layer).map_err(damaged)?;
    let log = TagLog::new(superblock.salt, superblock.log, found.position, found.head.generation);
    let mut interpreter = Interpreter::new(store, superblock, log, found.state, found.sequence);
    interpreter.planted = planted;
    if found.behind {
        interpreter.checkpoint_all()?;
    }
    Ok((interpreter, found.recovery))
}

/// An interpreter over a store as it is found, for looking: nothing is written. The layer takes up what was found.
pub(crate) fn look_into(
    store: Box<dyn Store>,
    superblock: Superblock,
    layer: &mut dyn Layer,
) -> Result<Interpreter, ImageError> {
    let reader = Reader(store.as_ref());
    let blank = layer.raw_shingled().map(|disk| disk.blank());
    let mut found = understand(&reader, &superblock, blank, None)?;
    found.state.restore(layer).map_err(|what| reader.damaged(what))?;
    let log = TagLog::new(superblock.salt, superblock.log, found.position, found.head.generation);
    Ok(Interpreter::new(store, superblock, log, found.state, found.sequence))
}

/// What a store says, for people.
pub(crate) struct Looked {
    pub recovery: Recovery,
    pub generation: u32,
    pub cached_extents: u64,
    pub moved_bands: u64,
    /// What lies where the drive never puts it, in words.
    pub misplaced: Option<String>,
}

/// Looks at a store and writes nothing; the layer takes up what was found.
pub(crate) fn look(
    reader: &Reader<'_>,
    superblock: &Superblock,
    layer: &mut dyn Layer,
) -> Result<Looked, ImageError> {
    let blank = layer.raw_shingled().map(|disk| disk.blank());
    let mut found = understand(reader, superblock, blank, None)?;
    let cached_extents =
        found.state.found(LbaExtent::new(skylight_disk::Lba(0), layer.capacity())).count() as u64;
    let misplaced = found.state.restore(layer).err();
    Ok(Looked {
        recovery: found.recovery,
        generation: found.head.generation,
        cached_extents,
        moved_bands: found.state.moved.len() as u64,
        misplaced,
    })
}

fn read_checkpoint(
    reader: &Reader<'_>,
    superblock: &Superblock,
    head: &Head,
    bounds: &Bounds,
    shingled: Option<Swd>,
) -> Result<State, ImageError> {
    let entries = reader.entries(superblock, head)?;
    let (cached, rest) = entries.split_at(head.cached as usize * CACHED);
    let (moved, rest) = rest.split_at(head.moved as usize * MOVED);
    let mut state = State { shingled, ..State::default() };
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
    for entry in moved.chunks_exact(MOVED) {
        let (lba, pba) = decode_moved(entry);
        if !bounds.hold_lba(lba) || !bounds.hold_moved(lba, pba) {
            return Err(wrong());
        }
        state.moved.insert(lba.start.get(), (lba.len, pba));
    }
    if !take_up_overwritten(rest, head, bounds, state.shingled.as_mut()) {
        return Err(wrong());
    }
    Ok(state)
}

/// Has a raw shingled disk take up what a checkpoint says of it; whether it may have been so.
fn take_up_overwritten(entries: &[u8], head: &Head, bounds: &Bounds, disk: Option<&mut Swd>) -> bool {
    let Some(disk) = disk else {
        return entries.is_empty();
    };
    let (torn, writers) = entries.split_at(head.torn as usize * TORN);
    let fragments: Vec<Destroyed> = torn.chunks_exact(TORN).map(decode_torn).collect();
    let stamps: Vec<_> = writers.chunks_exact(WRITER).map(decode_writer).collect();
    let placed = |extent: &PbaExtent| {
        let end = extent.start.get().checked_add(extent.len.get());
        !extent.is_empty() && end.is_some_and(|end| end <= bounds.home)
    };
    let right = head.writes < NUMBERS_MAX
        && fragments.iter().all(|fragment| disk.may_hold(fragment))
        && fragments.windows(2).all(|pair| pair[0].extent.end() <= pair[1].extent.start)
        && stamps.iter().all(|(extent, _)| placed(extent))
        && stamps.windows(2).all(|pair| pair[0].0.end() <= pair[1].0.start);
    if right {
        disk.restore(&Snapshot { fragments, stamps, writes: head.writes });
    }
    right
}

/// The tags of a log on their way to a state.
struct Replay<'a> {
    reader: &'a Reader<'a>,
    superblock: &'a Superblock,
    bounds: &'a Bounds,
    planted: Option<Planted>,
}

impl Replay<'_> {
    /// Applies the tags; the highest sequence number among them.
    fn run(&self, blocks: &[TagBlock], state: &mut State) -> Result<(u64, Recovery), ImageError> {
        let durable = blocks.iter().map(|block| block.durable).max().unwrap_or(0);
        let mut tags: Vec<&Tag> = blocks.iter().flat_map(|block| &block.tags).collect();
        if self.planted != Some(Planted::NoSequence) {
            tags.sort_unstable_by_key(|tag| tag.sequence);
        }
        let mut recovery = Recovery { tags: tags.len() as u64, ..Recovery::default() };
        for tag in &tags {
            if !self.bounds.hold_tag(tag) {
                return Err(self.reader.damaged(format!("tag {} lies beyond the drive", tag.sequence)));
            }
            let known = tag.sequence <= durable || self.planted == Some(Planted::TagWithoutData);
            recovery.checked += u64::from(!known);
            if known || self.has_data(tag)? {
                state.apply(tag);
            } else {
                recovery.refused += 1;
            }
        }
        Ok((tags.iter().map(|tag| tag.sequence).max().unwrap_or(0), recovery))
    }

    /// Whether the data of a tag is where it says.
    fn has_data(&self, tag: &Tag) -> Result<bool, ImageError> {
        let Kind::Cached { data_crc, .. } = tag.kind else {
            return Ok(true);
        };
        let cache = if self.superblock.flash.len > 0 { Medium::Flash } else { Medium::Platter };
        let extent = PbaExtent::new(tag.pba, tag.lba.len);
        match data_checksum(self.reader, self.superblock, cache, extent) {
            // The data came, and something else than a cut has changed it: older data would hide that.
            Err(ImageError::Checksum { .. }) => Ok(true),
            other => Ok(other? == data_crc),
        }
    }
}

/// The checksum of what lies in an extent.
fn data_checksum(
    reader: &Reader<'_>,
    superblock: &Superblock,
    medium: Medium,
    extent: PbaExtent,
) -> Result<u32, ImageError> {
    let part = match medium {
        Medium::Platter => superblock.platter,
        Medium::Flash => superblock.flash,
    };
    let (mut at, end) = (extent.start.get() * SECTOR_BYTES, extent.end().get() * SECTOR_BYTES);
    let mut buffer = vec![0; CHUNK.min((end - at) as usize)];
    let mut crc = 0;
    while at < end {
        let here = ((end - at) as usize).min(CHUNK);
        reader.read(part.start + at, &mut buffer[..here])?;
        crc = crc32c::crc32c_append(crc, &buffer[..here]);
        at += here as u64;
    }
    Ok(crc)
}

impl State {
    /// Forgets accesses of which nothing is live, and counts from the newest that has something.
    fn settle(&mut self, capacity: Sectors) {
        let mut live = BTreeSet::new();
        let mut taken = 0;
        for found in self.found(LbaExtent::new(skylight_disk::Lba(0), capacity)) {
            live.insert(found.access.start.get());
            taken = taken.max(found.taken + found.access.len.get());
        }
        self.rooms.keep(&live);
        self.taken = taken;
    }
}

impl crate::ranges::Rooms {
    /// An access that may be known already from another extent of it.
    fn add_known(&mut self, access: PbaExtent, taken: u64) {
        let known = self.of(access.start).is_some_and(|room| room.access == access && room.taken == taken);
        if !known {
            self.add(crate::ranges::Room { access, taken });
        }
    }
}

/// An image's drive must be that of its layer.
pub(crate) fn check_room(
    place: String,
    superblock: &Superblock,
    capacity: Sectors,
    room: &Room,
) -> Result<(), ImageError> {
    let fits = room.platter.bytes() <= superblock.platter.len && room.flash.bytes() <= superblock.flash.len;
    if fits && capacity.bytes() == superblock.capacity {
        return Ok(());
    }
    let what = "its parts are not those of the drive in its profile".to_owned();
    Err(ImageError::Damaged { place, what })
}
