//! The tags of the log behind a checkpoint, applied in their order.
//!
//! Invariant: a tag counts if it was durable or its data is there, and none counts behind one that is missing where a
//! later one makes no sense without it.

use skylight_disk::{PbaExtent, SECTOR_BYTES, Sectors, Time};
use skylight_layer::capabilities::overwriting::Stamp;
use skylight_layer::{Layer, Medium};

use crate::error::ImageError;
use crate::format::superblock::Superblock;
use crate::format::tag_log::{Kind, Tag, TagBlock};
use crate::non_native_locations::State;
use crate::planted_bugs::{Planted, Plants};
use crate::structure_reader::{Bounds, CHUNK, Reader};

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

/// The tags of a log on their way to a state.
pub(crate) struct Replay<'a> {
    pub reader: &'a Reader<'a>,
    pub superblock: &'a Superblock,
    pub bounds: &'a Bounds,
    pub plants: Plants,
    /// The highest sequence number that was durable: its data is not asked again whether it is there.
    pub durable: u64,
    /// The first sequence number that does not count.
    pub until: u64,
    /// The highest sequence number that is in the checkpoint.
    pub covered: u64,
}

impl Replay<'_> {
    /// Applies the tags; the highest sequence number among them.
    pub fn run(
        &self,
        blocks: &[TagBlock],
        (state, layer): (&mut State, &mut dyn Layer),
    ) -> Result<(u64, Recovery), ImageError> {
        let mut tags: Vec<&Tag> = blocks.iter().flat_map(|block| &block.tags).collect();
        if !self.plants.has(Planted::NoSequence) {
            tags.sort_unstable_by_key(|tag| tag.sequence);
        }
        let mut recovery = Recovery { tags: tags.len() as u64, ..Recovery::default() };
        let whole = state.is_in_place().then(|| match self.plants.has(Planted::GapIgnored) {
            true => u64::MAX,
            false => self.first_gap(&tags),
        });
        // The last number so far that does not count: of a tag that is missing, or that was refused.
        let (mut last_out, mut last) = (0, self.durable.max(self.covered));
        for tag in &tags {
            if !self.bounds.hold_tag(tag) {
                return Err(self.reader.damaged(format!("tag {} lies beyond the drive", tag.sequence)));
            }
            if tag.sequence.saturating_sub(1) > last {
                last_out = tag.sequence - 1;
            }
            last = last.max(tag.sequence);
            // Of an image in place they are about the layer, and count as far as none is missing.
            if let Some(gap) = whole.filter(|_| tag.sequence < self.until) {
                match tag.sequence < gap {
                    true => state.apply(tag),
                    false => recovery.refused += 1,
                }
                continue;
            }
            let known = tag.sequence <= self.durable || self.plants.has(Planted::TagWithoutData);
            recovery.checked += u64::from(!known);
            if tag.sequence >= self.until {
                continue;
            }
            if (known || self.has_data(tag)?) && self.goes_on(tag, last_out, (state, layer))? {
                state.apply(tag);
                redo(tag, layer);
            } else {
                recovery.refused += 1;
                last_out = tag.sequence;
            }
        }
        Ok((tags.iter().map(|tag| tag.sequence).max().unwrap_or(0), recovery))
    }

    /// Whether a tag of a drive with zones counts: those before it of its plan all do, and that of a zone goes on from the
    /// zone's state and has its data. `last_out` is the last tag that does not count.
    fn goes_on(
        &self,
        tag: &Tag,
        last_out: u64,
        (state, layer): (&State, &dyn Layer),
    ) -> Result<bool, ImageError> {
        let follows_all = |follows: u32| tag.sequence.saturating_sub(follows.into()) > last_out;
        let (data_crc, record, before, follows) = match tag.kind {
            _ if tag.sequence <= self.durable => return Ok(true),
            Kind::Zone { data_crc, record, before, follows } => (data_crc, record, before, follows),
            Kind::Home { follows } => return Ok(follows_all(follows) || self.plants.has(Planted::ZoneAlone)),
            _ => return Ok(true),
        };
        // An empty zone is empty whatever it was before.
        let goes_on = record.written == Sectors(0)
            || state.zones.of(record.zone).written == before && follows_all(follows);
        if !goes_on && !self.plants.has(Planted::ZoneAlone) {
            return Ok(false);
        }
        let mut pieces = Vec::new();
        state.visit_home(layer, tag.lba, &mut |piece| pieces.push(piece));
        let home = if self.superblock.platter.len > 0 { Medium::Platter } else { Medium::Flash };
        Ok(self.has_bytes((home, &pieces), data_crc)? || self.plants.has(Planted::ZoneWithoutData))
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
        self.has_bytes((cache, &[PbaExtent::new(tag.pba, tag.lba.len)]), data_crc)
    }

    /// Whether the bytes of extents, one after the other, have this checksum.
    fn has_bytes(&self, (medium, extents): (Medium, &[PbaExtent]), crc: u32) -> Result<bool, ImageError> {
        let sum = extents
            .iter()
            .try_fold(0, |sum, &extent| data_checksum(self.reader, self.superblock, (medium, extent), sum));
        match sum {
            // The data came, and something else than a cut has changed it: older data would hide that.
            Err(ImageError::Checksum { .. }) => Ok(true),
            other => Ok(other? == crc),
        }
    }
}

/// Has a layer whose writes overwrite others do a write again.
fn redo(tag: &Tag, layer: &mut dyn Layer) {
    if let (Kind::Written { number, at_ns }, Some(overwriting)) = (tag.kind, layer.overwriting()) {
        overwriting.redo(tag.lba, Stamp { write: number, at: Time(at_ns) });
    }
}

/// The checksum of what lies in an extent, going on from that of what comes before.
fn data_checksum(
    reader: &Reader<'_>,
    superblock: &Superblock,
    (medium, extent): (Medium, PbaExtent),
    mut crc: u32,
) -> Result<u32, ImageError> {
    let part = match medium {
        Medium::Platter => superblock.platter,
        Medium::Flash => superblock.flash,
    };
    let (mut at, end) = (extent.start.get() * SECTOR_BYTES, extent.end().get() * SECTOR_BYTES);
    let mut buffer = vec![0; CHUNK.min((end - at) as usize)];
    while at < end {
        let here = ((end - at) as usize).min(CHUNK);
        reader.read(part.start + at, &mut buffer[..here])?;
        crc = crc32c::crc32c_append(crc, &buffer[..here]);
        at += here as u64;
    }
    Ok(crc)
}
