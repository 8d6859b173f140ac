//! Recovery of an image when it is opened, bounded by checkpoints.
//!
//! The newest checkpoint has the map; the tags in the log after it are the changes since. They are applied in the order of
//! their sequence numbers. A tag for data in the cache counts only if its data is on the medium: the data has the tag's
//! checksum, or a later block records that the tag was durable. Data with a checksum mismatch in the store was written, so
//! its tag counts, and reading it fails. The recovered state is written as a checkpoint before anything else, so that a
//! refused tag is never read again.
//!
//! Damage that a power cut cannot explain is a *fault*: an image with one is refused, and nothing is written to it. Only a
//! repair with permission to lose data continues. A redundant structure with one damaged copy is *mended*: the image is
//! used, and the copy written again.
//!
//! Invariants: recovery writes only a checkpoint and copies of intact structures, so that an interrupted recovery is
//! repeated with the same result; inconsistencies that a power cut cannot explain are refused.

use std::collections::BTreeSet;
use std::fmt;

use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors};
use skylight_layer::{Layer, MediaUse};

use crate::error::ImageError;
use crate::format::BLOCK;
use crate::format::checkpoint::Head;
use crate::format::log_end::Mark;
use crate::format::superblock::{Superblock, TEXT};
use crate::format::tag_log::TagBlock;
use crate::in_place_image;
use crate::interpreter::Interpreter;
use crate::log::{Marks, TagLog};
use crate::non_native_locations::State;
use crate::options::Options;
use crate::planted_bugs::{Planted, Plants};
pub use crate::replay::Recovery;
use crate::replay::Replay;
use crate::store::Store;
use crate::structure_reader::{Bounds, NUMBERS_MAX, Reader, read_checkpoint};

/// The state found in a store, before anything is written.
struct Understood {
    head: Head,
    state: State,
    sequence: u64,
    /// Position after the last block.
    position: u64,
    /// Whether a new checkpoint is needed.
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
    layer: &mut dyn Layer,
    judgement: Judgement,
) -> Result<Understood, ImageError> {
    let plants = judgement.plants;
    let (mut faults, mut mended) = (Vec::new(), Vec::new());
    let heads = reader.heads(superblock)?;
    let mut marks = reader.marks(superblock)?;
    let bounds = Bounds::new(superblock, layer.overwriting().is_some(), &layer.media_use());
    let (head, both_heads, mut state) =
        newest_checkpoint(reader, superblock, &heads, (&bounds, &mut *layer), &mut faults)?;
    let (blocks, newest_named) = reader.log(superblock, &head)?;
    if newest_named > head.generation {
        faults.push(format!("its log goes on from checkpoint {newest_named}, which is not there"));
    }
    if plants.has(Planted::NoMark) {
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
    let replay = Replay { reader, superblock, bounds: &bounds, plants, durable, until, covered };
    let (highest, mut recovery) = replay.run(&blocks, (&mut state, layer))?;
    recovery.clean = head.clean && blocks.is_empty();
    if let Some(lost) = lost {
        recovery.lost = lost.count;
        if !plants.has(Planted::LostIgnored) {
            faults.push(lost.to_string());
        }
    }
    if !plants.has(Planted::NoPartGeneration) {
        faults.extend(reader.stray_part(superblock, head.generation)?);
    }
    if let Some(zoned) = layer.zoned() {
        state.reconcile_zones(zoned.layout());
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

/// The newest readable checkpoint, whether both its heads are intact, and its content.
fn newest_checkpoint(
    reader: &Reader<'_>,
    superblock: &Superblock,
    heads: &[(Head, bool)],
    (bounds, layer): (&Bounds, &mut dyn Layer),
    faults: &mut Vec<String>,
) -> Result<(Head, bool, State), ImageError> {
    let mut refused = None;
    for &(head, both) in heads {
        let read = match head.sequence.max(head.log_position).max(head.covered) >= NUMBERS_MAX {
            true => {
                Err(reader.damaged(format!("checkpoint {}: sequence number out of range", head.generation)))
            }
            false => read_checkpoint(reader, superblock, &head, bounds, layer),
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

/// Tags after a checkpoint that were durable but are missing from the log.
struct Lost {
    count: u64,
    first: u64,
    last: u64,
    since: u32,
}

/// The highest durable sequence number according to the head of the checkpoint, each block, and the mark.
fn durable_sequence(head: &Head, blocks: &[TagBlock], mark: Mark) -> u64 {
    let said = blocks.iter().map(|block| block.durable).chain([head.sequence, mark.durable]);
    said.max().unwrap_or(0)
}

impl Lost {
    /// The missing tags that a checkpoint does not cover.
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

/// Which loss of durable changes is accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Accept {
    /// None.
    #[default]
    Nothing,
    /// All intact tags count, including those after missing ones.
    Lost,
    /// No tag after the first missing one counts: the image is as it was before that, where all tags are inconsistent.
    AllSince,
}

/// How recovery treats faults.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Judgement {
    /// Whether an image with faults is used as far as it is readable.
    pub accept: Accept,
    /// For tests of the tests.
    pub plants: Plants,
}

/// A recovered image.
pub(crate) struct Recovered {
    pub interpreter: Interpreter,
    pub recovery: Recovery,
    /// Damage that was repaired, a line each.
    pub mended: Vec<String>,
}

/// Restores a layer and an interpreter from a store. Writes nothing, except a new checkpoint if the log has changes since
/// the last one.
///
/// # Errors
/// When the image has a fault that is not accepted, or the store fails.
pub(crate) fn recover(
    store: Box<dyn Store>,
    superblock: Superblock,
    layer: &mut dyn Layer,
    (judgement, options): (Judgement, &Options),
) -> Result<Recovered, ImageError> {
    let mut found = understand(&Reader(store.as_ref()), &superblock, layer, judgement)?;
    let reader = Reader(store.as_ref());
    if let Some(first) = found.faults.first().filter(|_| judgement.accept == Accept::Nothing) {
        return Err(reader.faulty(first));
    }
    let in_place = in_place_image::is_wanted(&superblock, &layer.media_use(), options);
    let laid_anew = found.state.lay(in_place);
    take_up(&found.state, layer).map_err(|what| reader.damaged(what))?;
    let unsettled = found.unsettled || laid_anew || !found.faults.is_empty();
    let log = TagLog::new(&superblock, found.position, found.head.generation, found.marks, unsettled);
    let mut interpreter = Interpreter::new(store, superblock, log, found.state, found.sequence);
    interpreter.plants = judgement.plants;
    interpreter.zones = layer.zoned().map(|zoned| *zoned.layout());
    interpreter.reserved.ahead = options.ahead.unwrap_or(interpreter.reserved.ahead);
    interpreter.reserve_what_can_be(layer);
    // Where bytes lie is in both checkpoints, so that what a repair falls back on finds them too.
    for _ in 0..u32::from(unsettled) + u32::from(laid_anew) {
        interpreter.record_recovery(layer)?;
    }
    Ok(Recovered { interpreter, recovery: found.recovery, mended: found.mended })
}

/// Makes a layer take up a state.
fn take_up(state: &State, layer: &mut dyn Layer) -> Result<(), String> {
    state.restore(layer)?;
    state.restore_zones(layer)
}

/// The line about a damaged copy of the superblock.
pub(crate) fn bad_superblock(at: u64) -> String {
    let place = if at == 0 { "at 0" } else { "at 1 MiB" };
    format!("one of its two superblocks, {place}, was damaged")
}

/// Replaces the damaged copy of a superblock and its text by the intact one.
pub(crate) fn mend_superblock(
    store: &mut dyn Store,
    superblock: &Superblock,
    bad: u64,
) -> Result<(), ImageError> {
    let place = store.name();
    let failed = |source| ImageError::io(&place, "mend its superblock", source);
    let mut text = superblock.text.clone().into_bytes();
    text.resize(text.len().next_multiple_of(BLOCK), 0);
    store.write_at(bad + TEXT, &text).and_then(|()| store.sync()).map_err(failed)?;
    store.write_at(bad, &superblock.encode()).and_then(|()| store.sync()).map_err(failed)
}

/// An interpreter over an unchanged store, for reading only. Restores the layer.
pub(crate) fn look_into(
    store: Box<dyn Store>,
    superblock: Superblock,
    layer: &mut dyn Layer,
) -> Result<Interpreter, ImageError> {
    let reader = Reader(store.as_ref());
    let found = understand(&reader, &superblock, layer, Judgement::default())?;
    if let Some(first) = found.faults.first() {
        return Err(reader.faulty(first));
    }
    take_up(&found.state, layer).map_err(|what| reader.damaged(what))?;
    let log = TagLog::new(&superblock, found.position, found.head.generation, found.marks, found.unsettled);
    let mut interpreter = Interpreter::new(store, superblock, log, found.state, found.sequence);
    interpreter.zones = layer.zoned().map(|zoned| *zoned.layout());
    Ok(interpreter)
}

/// The state found in a store, for a report.
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

/// Describes a store without changing it; restores the layer.
pub(crate) fn look(
    reader: &Reader<'_>,
    superblock: &Superblock,
    layer: &mut dyn Layer,
) -> Result<Looked, ImageError> {
    let mut found = understand(reader, superblock, layer, Judgement::default())?;
    let cached_extents = found.state.found(LbaExtent::new(Lba(0), layer.capacity())).count() as u64;
    // What lies where the drive never puts it.
    found.faults.extend(take_up(&found.state, layer).err());
    Ok(Looked {
        recovery: found.recovery,
        generation: found.head.generation,
        cached_extents,
        moved_bands: found.state.moved.len() as u64,
        faults: found.faults,
        mended: found.mended,
    })
}

/// Checks that the layer has the media of the image's drive.
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
