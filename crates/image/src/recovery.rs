//! What a store says when it is opened, and the checkpoints that make that short.
//!
//! The newest checkpoint says where everything was; the tags that the log has from there on say what changed.
//! They are taken in the order of their sequence. A tag for data in the cache counts only if the data is there:
//! it has the tag's checksum, or a later block says that the tag was durable. Data that the store knows to be wrong
//! was there, so its tag counts, and reading it is an error. What was found is written down as a
//! checkpoint before anything else happens, so that no tag that was refused is ever read again.
//!
//! What a cut cannot explain is a *fault*: an image with one is refused, and nothing is written to it, so that what is left
//! stays as it is. Only a repair that was asked to accept the loss goes on. What is there twice and damaged once is
//! *mended*: the image is used, and the copy written again.
//!
//! Invariants: recovery writes nothing but a checkpoint and copies of what is whole, so one that is cut is done again with
//! the same outcome; what does not add up and is no power cut is refused.

use std::collections::BTreeSet;
use std::fmt;

use skylight_disk::shingling::Destroyed;
use skylight_disk::{LbaExtent, PbaExtent, SECTOR_BYTES, Sectors};
use skylight_layer::swd::Snapshot;
use skylight_layer::{CachedExtent, Layer, MediaUse, Medium, Swd};

use crate::error::ImageError;
use crate::format::checkpoint::{
    CACHED, ENTRIES, Head, MOVED, TORN, WRITER, decode_cached, decode_moved, decode_torn, decode_writer,
};
use crate::format::mark::Mark;
use crate::format::part::{HEAD_BYTES, PartHead};
use crate::format::superblock::{COPY, NotOne, Superblock, TEXT};
use crate::format::tag::{Kind, Tag, TagBlock};
use crate::format::{BLOCK, VERSION, checksum};
use crate::image::Options;
use crate::in_place;
use crate::interpreter::{Interpreter, Planted};
use crate::log::{Marks, TagLog};
use crate::state::{BandPlaces, State};
use crate::store::Store;

/// Bytes that are read or written at a time.
const CHUNK: usize = 1 << 20;
/// No image lives long enough for such a sequence number or position.
const NUMBERS_MAX: u64 = 1 << 60;
/// The first version whose checkpoints say which tags they have for sure.
const COVERED_SINCE: u32 = 2;

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

    /// The superblock, and where the copy of it lies that is damaged, if one is.
    pub fn superblock(&self) -> Result<(Superblock, Option<u64>), ImageError> {
        let (found, bad) = self.superblock_of_parts()?;
        if found.len_bytes() > self.0.len_bytes() {
            let (place, needed_bytes) = (self.0.name(), found.len_bytes());
            return Err(ImageError::TooSmall { place, found_bytes: self.0.len_bytes(), needed_bytes });
        }
        Ok((found, bad))
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

    /// The newest head of each checkpoint area, newest first, and whether both copies of it are there.
    fn heads(&self, superblock: &Superblock) -> Result<Vec<(Head, bool)>, ImageError> {
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
    fn marks(&self, superblock: &Superblock) -> Result<Marks, ImageError> {
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

    /// Which part goes with another checkpoint than the newest, in words.
    fn stray_part(&self, superblock: &Superblock, generation: u32) -> Result<Option<String>, ImageError> {
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

    /// The blocks of the log behind a checkpoint, by position, and the newest checkpoint that any block names.
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
/// When it does not add up, or is that of another part or image.
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
    read.map_err(|source| ImageError::Io { place: place.clone(), action: "read its head", source })?;
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

    fn hold_found(&self, found: &CachedExtent) -> bool {
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
                    self.hold_found(&CachedExtent { lba: tag.lba, pba: tag.pba, access, taken })
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
    /// Tags that were durable and are not there: the medium has lost a block of the log. Of an image in use that is so
    /// only if the loss was accepted.
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
    /// Whether there is anything that a checkpoint has to settle.
    unsettled: bool,
    marks: Marks,
    recovery: Recovery,
    /// What is wrong and no power cut, a line each.
    faults: Vec<String>,
    /// What is there twice and damaged once, a line each.
    mended: Vec<String>,
}

fn understand(
    reader: &Reader<'_>,
    superblock: &Superblock,
    shingled: Option<&Swd>,
    judgement: Judgement,
) -> Result<Understood, ImageError> {
    let planted = judgement.planted;
    let (mut faults, mut mended) = (Vec::new(), Vec::new());
    let heads = reader.heads(superblock)?;
    let mut marks = reader.marks(superblock)?;
    let bounds = Bounds::new(superblock, shingled.is_some());
    let (head, both_heads, mut state) =
        newest_checkpoint(reader, superblock, &heads, &bounds, shingled, &mut faults)?;
    let (blocks, newest_named) = reader.log(superblock, &head)?;
    if newest_named > head.generation {
        faults.push(format!("its log goes on from checkpoint {newest_named}, which is not there"));
    }
    if planted == Some(Planted::NoMark) {
        marks.newest = None;
    }
    let mark = marks.newest.unwrap_or_default();
    if mark.generation > head.generation {
        let (durable, found) = (mark.generation, head.generation);
        faults.push(format!("checkpoint {durable} was durable, and the newest that is there is {found}"));
    }
    // Before these are durable a cut may leave one of them alone.
    if mark.generation == head.generation && marks.newest.is_some() && !both_heads {
        mended.push(format!("one of the two heads of checkpoint {} was damaged", head.generation));
    }
    match marks.bad {
        0 => {}
        1 => mended.push("one of the two marks of its log's end was damaged".to_owned()),
        _ => mended.push("both marks of its log's end were damaged".to_owned()),
    }
    let durable = durable_sequence(&head, &blocks, mark);
    let lost = Lost::of(&head, &blocks, durable);
    let first_lost = lost.as_ref().map(|lost| lost.first).filter(|_| judgement.accept == Accept::AllSince);
    let until = first_lost.unwrap_or(u64::MAX);
    let covered = head.covered;
    let replay = Replay { reader, superblock, bounds: &bounds, planted, durable, until, covered };
    let (highest, mut recovery) = replay.run(&blocks, &mut state)?;
    recovery.clean = head.clean && blocks.is_empty();
    if let Some(lost) = lost {
        recovery.lost = lost.count;
        if planted != Some(Planted::LostIgnored) {
            faults.push(lost.to_string());
        }
    }
    if planted != Some(Planted::NoPartGeneration) {
        faults.extend(reader.stray_part(superblock, head.generation)?);
    }
    state.settle(Sectors(superblock.capacity / SECTOR_BYTES));
    let position = blocks.last().map_or(head.log_position, |block| block.position + 1);
    Ok(Understood {
        state,
        sequence: highest.max(head.sequence).max(mark.durable),
        position: position.max(mark.log_end),
        // In several parts, each time of use has a generation of its own.
        unsettled: !blocks.is_empty() || !both_heads || marks.bad > 0 || reader.0.parts().len() > 1,
        head,
        marks,
        recovery,
        faults,
        mended,
    })
}

/// The newest checkpoint that can be read, whether both its heads are there, and what it says.
fn newest_checkpoint(
    reader: &Reader<'_>,
    superblock: &Superblock,
    heads: &[(Head, bool)],
    bounds: &Bounds,
    shingled: Option<&Swd>,
    faults: &mut Vec<String>,
) -> Result<(Head, bool, State), ImageError> {
    let mut refused = None;
    for &(head, both) in heads {
        let disk = shingled.map(Swd::blank);
        let read = match head.sequence.max(head.log_position).max(head.covered) >= NUMBERS_MAX {
            true => Err(reader.damaged(format!("checkpoint {} has numbers that none has", head.generation))),
            false => read_checkpoint(reader, superblock, &head, bounds, disk),
        };
        match read {
            Ok(state) => return Ok((head, both, state)),
            Err(ImageError::Damaged { place, what }) => {
                faults.push(what.clone());
                refused.get_or_insert(ImageError::Damaged { place, what });
            }
            Err(error) => return Err(error),
        }
    }
    Err(refused.unwrap_or_else(|| reader.damaged("it has no checkpoint")))
}

/// Tags behind a checkpoint that were durable, and are in no block of the log.
struct Lost {
    count: u64,
    first: u64,
    last: u64,
    since: u32,
}

/// The highest sequence number that was durable, by the head of the checkpoint, by each block, and by the mark.
fn durable_sequence(head: &Head, blocks: &[TagBlock], mark: Mark) -> u64 {
    let said = blocks.iter().map(|block| block.durable).chain([head.sequence, mark.durable]);
    said.max().unwrap_or(0)
}

impl Lost {
    /// The tags that are missing of those that a checkpoint does not cover.
    fn of(head: &Head, blocks: &[TagBlock], durable: u64) -> Option<Self> {
        let expected = head.covered + 1..=durable;
        let tags = blocks.iter().flat_map(|block| &block.tags).map(|tag| tag.sequence);
        let there: BTreeSet<u64> = tags.filter(|sequence| expected.contains(sequence)).collect();
        let count = durable.saturating_sub(head.covered).saturating_sub(there.len() as u64);
        // At most as many steps as there are tags.
        let first = expected.clone().find(|sequence| !there.contains(sequence))?;
        let last = expected.rev().find(|sequence| !there.contains(sequence))?;
        Some(Self { count, first, last, since: head.generation })
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, first, last, since } = self;
        write!(
            to,
            "{count} tags of its log that were durable are not there: of numbers {first} to {last}, since checkpoint {since}"
        )
    }
}

/// Which loss of what was durable is accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Accept {
    /// None.
    #[default]
    Nothing,
    /// All tags that are there count, also those behind the lost ones.
    Lost,
    /// No tag behind the first lost one counts: the image is as it was before that, where all of them do not add up.
    AllSince,
}

/// What recovery is to do with an image.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Judgement {
    /// Whether an image with faults is used as far as it can be read.
    pub accept: Accept,
    /// For tests of the tests.
    pub planted: Option<Planted>,
}

/// An image that was recovered.
pub(crate) struct Recovered {
    pub interpreter: Interpreter,
    pub recovery: Recovery,
    /// What was damaged and is whole now, a line each.
    pub mended: Vec<String>,
}

/// Makes a layer and an interpreter take up what a store says. Nothing is written before that, unless there is something
/// behind the checkpoint: then there is a new one.
///
/// # Errors
/// When the image has a fault that is not accepted, or the store fails.
pub(crate) fn recover(
    store: Box<dyn Store>,
    superblock: Superblock,
    layer: &mut dyn Layer,
    (judgement, options): (Judgement, &Options),
) -> Result<Recovered, ImageError> {
    let blank = layer.raw_shingled().map(|disk| disk.blank());
    let mut found = understand(&Reader(store.as_ref()), &superblock, blank.as_ref(), judgement)?;
    let reader = Reader(store.as_ref());
    if let Some(first) = found.faults.first().filter(|_| judgement.accept == Accept::Nothing) {
        return Err(reader.faulty(first));
    }
    let in_place = in_place::is_wanted(&superblock, &layer.media_use(), options);
    let laid_anew = found.state.lay(in_place);
    found.state.restore(layer).map_err(|what| reader.damaged(what))?;
    let unsettled = found.unsettled || laid_anew || !found.faults.is_empty();
    let log = TagLog::new(&superblock, found.position, found.head.generation, found.marks, unsettled);
    let mut interpreter = Interpreter::new(store, superblock, log, found.state, found.sequence);
    interpreter.planted = judgement.planted;
    interpreter.ahead = options.ahead.unwrap_or(interpreter.ahead);
    interpreter.reserve_what_can_be();
    if unsettled {
        interpreter.record_recovery()?;
    }
    Ok(Recovered { interpreter, recovery: found.recovery, mended: found.mended })
}

/// That a copy of the superblock is damaged, in words.
pub(crate) fn bad_superblock(at: u64) -> String {
    let place = if at == 0 { "at 0" } else { "at 1 MiB" };
    format!("one of its two superblocks, {place}, was damaged")
}

/// Writes a superblock and its text over the copy that is damaged, as they are in the whole one.
pub(crate) fn mend_superblock(
    store: &mut dyn Store,
    superblock: &Superblock,
    bad: u64,
) -> Result<(), ImageError> {
    let place = store.name();
    let failed = |source| ImageError::Io { place: place.clone(), action: "mend its superblock", source };
    let mut text = superblock.text.clone().into_bytes();
    text.resize(text.len().next_multiple_of(BLOCK), 0);
    store.write_at(bad + TEXT, &text).and_then(|()| store.sync()).map_err(failed)?;
    store.write_at(bad, &superblock.encode()).and_then(|()| store.sync()).map_err(failed)
}

/// An interpreter over a store as it is found, for looking: nothing is written. The layer takes up what was found.
pub(crate) fn look_into(
    store: Box<dyn Store>,
    superblock: Superblock,
    layer: &mut dyn Layer,
) -> Result<Interpreter, ImageError> {
    let reader = Reader(store.as_ref());
    let blank = layer.raw_shingled().map(|disk| disk.blank());
    let mut found = understand(&reader, &superblock, blank.as_ref(), Judgement::default())?;
    if let Some(first) = found.faults.first() {
        return Err(reader.faulty(first));
    }
    found.state.restore(layer).map_err(|what| reader.damaged(what))?;
    let log = TagLog::new(&superblock, found.position, found.head.generation, found.marks, found.unsettled);
    Ok(Interpreter::new(store, superblock, log, found.state, found.sequence))
}

/// What a store says, for people.
pub(crate) struct Looked {
    pub recovery: Recovery,
    pub generation: u32,
    pub cached_extents: u64,
    pub moved_bands: u64,
    /// What is wrong and no power cut, a line each.
    pub faults: Vec<String>,
    /// What is there twice and damaged once, a line each.
    pub mended: Vec<String>,
}

/// Looks at a store and writes nothing; the layer takes up what was found.
pub(crate) fn look(
    reader: &Reader<'_>,
    superblock: &Superblock,
    layer: &mut dyn Layer,
) -> Result<Looked, ImageError> {
    let blank = layer.raw_shingled().map(|disk| disk.blank());
    let mut found = understand(reader, superblock, blank.as_ref(), Judgement::default())?;
    let cached_extents =
        found.state.found(LbaExtent::new(skylight_disk::Lba(0), layer.capacity())).count() as u64;
    // What lies where the drive never puts it.
    found.faults.extend(found.state.restore(layer).err());
    Ok(Looked {
        recovery: found.recovery,
        generation: found.head.generation,
        cached_extents,
        moved_bands: found.state.moved.len() as u64,
        faults: found.faults,
        mended: found.mended,
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
    let (rest, fixed) = rest.split_at(rest.len() - head.fixed as usize * MOVED);
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
    let bands = |entries: &[u8]| -> Result<BandPlaces, ImageError> {
        let placed = entries.chunks_exact(MOVED).map(decode_moved).map(|(lba, pba)| {
            let inside = bounds.hold_lba(lba) && bounds.hold_moved(lba, pba);
            inside.then_some((lba.start.get(), (lba.len, pba))).ok_or_else(wrong)
        });
        placed.collect()
    };
    state.moved = bands(moved)?;
    state.fixed = if head.in_place { Some(bands(fixed)?) } else { None };
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
    /// The highest sequence number that was durable: its data is not asked again whether it is there.
    durable: u64,
    /// The first sequence number that does not count.
    until: u64,
    /// The highest sequence number that is in the checkpoint.
    covered: u64,
}

impl Replay<'_> {
    /// Applies the tags; the highest sequence number among them.
    fn run(&self, blocks: &[TagBlock], state: &mut State) -> Result<(u64, Recovery), ImageError> {
        let durable = self.durable;
        let mut tags: Vec<&Tag> = blocks.iter().flat_map(|block| &block.tags).collect();
        if self.planted != Some(Planted::NoSequence) {
            tags.sort_unstable_by_key(|tag| tag.sequence);
        }
        let mut recovery = Recovery { tags: tags.len() as u64, ..Recovery::default() };
        let whole = state.is_in_place().then(|| match self.planted {
            Some(Planted::GapIgnored) => u64::MAX,
            _ => self.first_gap(&tags),
        });
        for tag in &tags {
            if !self.bounds.hold_tag(tag) {
                return Err(self.reader.damaged(format!("tag {} lies beyond the drive", tag.sequence)));
            }
            // Of an image in place they are about the layer, and count as far as none is missing.
            if let Some(gap) = whole.filter(|_| tag.sequence < self.until) {
                match tag.sequence < gap {
                    true => state.apply(tag),
                    false => recovery.refused += 1,
                }
                continue;
            }
            let known = tag.sequence <= durable || self.planted == Some(Planted::TagWithoutData);
            recovery.checked += u64::from(!known);
            if tag.sequence >= self.until {
                continue;
            }
            if known || self.has_data(tag)? {
                state.apply(tag);
            } else {
                recovery.refused += 1;
            }
        }
        Ok((tags.iter().map(|tag| tag.sequence).max().unwrap_or(0), recovery))
    }

    /// The first sequence number behind the checkpoint of which there is no tag, of tags in their order.
    fn first_gap(&self, tags: &[&Tag]) -> u64 {
        let behind = tags.iter().map(|tag| tag.sequence).filter(|&sequence| sequence > self.covered);
        behind.fold(self.covered + 1, |next, sequence| if sequence == next { next + 1 } else { next })
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
    pub(crate) fn settle(&mut self, capacity: Sectors) {
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
    room: &MediaUse,
) -> Result<(), ImageError> {
    let fits = room.platter.bytes() <= superblock.platter.len && room.flash.bytes() <= superblock.flash.len;
    if fits && capacity.bytes() == superblock.capacity {
        return Ok(());
    }
    let what = "its parts are not those of the drive in its profile".to_owned();
    Err(ImageError::Damaged { place, what })
}
