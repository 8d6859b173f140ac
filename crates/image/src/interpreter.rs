//! Executes plans on a store: where data is written, when it is durable, and what a recovery finds.
//!
//! There are two placements of data. In an image *in place* each sector has one permanent address, and neither the cache
//! nor cleaning moves it (`in_place_image.rs`). In a *planned* image data is written where the plan puts it (`planned_image.rs`): data
//! of a host write to the address in the commit of the map, with a *tag* in the log that has this address and a checksum
//! of the data; writes to native addresses, and merged bands, go there directly. The tag of a band records that the band
//! is complete at its address, so it is written after the band's data is durable: [`Interpreter::flush`] syncs, appends
//! these tags, and syncs again (`flush.rs`).
//!
//! Each access of a plan names the source of its data ([`skylight_layer::Source`]), so that the meaning of a step does not
//! depend on the steps around it.
//!
//! Invariants:
//! * A power cut leaves the state at the last sync and any of the tags since: each of them, alone or with any others, gives
//!   sectors a value that was written and that no durable write follows.
//! * Sectors that such a state may read are not overwritten: an address that a change of the map frees is written again
//!   only after a sync that made the change durable (`freed`).
//! * The executed part of a plan is a prefix of it, also when the store fails in the middle: the state changes after the
//!   writes that it describes, and the steps after a failed one are not executed.
//!
//! Source: the tags are what Skylight (FAST'15, sections 2 and 4.3) takes a drive's journal entries to hold.

use skylight_disk::{Lba, LbaExtent, Pba, PbaExtent, SECTOR_BYTES, Sectors};
use skylight_layer::capabilities::zoned::{ZoneLayout, ZoneRecord};
use skylight_layer::{Layer, MapChange, Medium, Plan, Step};

use crate::checkpoints::CheckpointState;
use crate::cleaning_buffers::Held;
use crate::error::ImageError;
use crate::flush::FlushState;
use crate::format::superblock::{Part, Superblock};
use crate::format::tag_log::{Kind, TAGS, Tag};
use crate::host_write_data::HostData;
pub use crate::host_write_data::HostWrite;
use crate::log::TagLog;
use crate::non_native_locations::State;
use crate::planned_image::Access;
use crate::planted_bugs::{Planted, Plants};
use crate::reader::Route;
use crate::store::Store;
use crate::store_errors::{Health, Reserved};

/// Bytes that were moved since the image was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Written by the host.
    pub host_bytes: u64,
    /// Data that the drive writes to its media: the host's, and what cleaning writes.
    pub media_bytes: u64,
    /// Syncs of the store.
    pub syncs: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Pieces of checkpoints that were written behind commands.
    pub pieces: u64,
}

/// See the module page.
///
/// More than 15 fields: the parts of an open image, each with a type of its own, and what one plan needs while it is executed.
pub struct Interpreter {
    pub(crate) store: Box<dyn Store>,
    pub(crate) superblock: Superblock,
    pub(crate) log: TagLog,
    pub(crate) state: State,
    /// The number of the last tag.
    pub(crate) sequence: u64,
    pub(crate) plants: Plants,
    pub(crate) counters: Counters,
    pub(crate) flush: FlushState,
    pub(crate) checkpoint: CheckpointState,
    pub(crate) reserved: Reserved,
    pub(crate) health: Health,
    /// Whether tags of a drive whose sectors can be overwritten are durable before the bytes that they are about.
    pub(crate) records_first: bool,
    /// What cleanings have read, if accesses that have no bytes are done all the same.
    pub(crate) held: Option<Held>,
    /// Where the pieces of an extent lie, while they are written.
    pub(crate) places: Vec<PbaExtent>,
    /// The drive's zones, if it has any.
    pub(crate) zones: Option<ZoneLayout>,
    /// The number of the last tag before the plan that is executed.
    pub(crate) plan_began: u64,
    /// Records of zones that a plan has changed and that are not logged.
    pub(crate) zone_changes: Vec<ZoneRecord>,
}

impl Interpreter {
    /// Over a store that is formatted, with what lies where.
    pub(crate) fn new(
        store: Box<dyn Store>,
        superblock: Superblock,
        log: TagLog,
        state: State,
        sequence: u64,
    ) -> Self {
        Self {
            store,
            superblock,
            log,
            state,
            sequence,
            plants: Plants::NONE,
            counters: Counters::default(),
            flush: FlushState::default(),
            checkpoint: CheckpointState::default(),
            reserved: Reserved::default(),
            health: Health::default(),
            records_first: false,
            held: None,
            places: Vec::new(),
            zones: None,
            plan_began: 0,
            zone_changes: Vec::new(),
        }
    }

    /// The medium of native locations.
    pub(crate) fn home_medium(&self) -> Medium {
        if self.superblock.platter.len > 0 { Medium::Platter } else { Medium::Flash }
    }

    /// The medium of the persistent cache.
    pub(crate) fn cache_medium(&self) -> Medium {
        if self.superblock.flash.len > 0 { Medium::Flash } else { Medium::Platter }
    }

    /// Does what a plan of `layer` says; `writes` are the host writes that it may take. Nothing of it is durable
    /// before [`Interpreter::flush`].
    ///
    /// # Errors
    /// When the store fails: then the layer has taken up what is on the media. Where space was lacking it goes on, else it
    /// takes no more changes.
    pub fn apply(
        &mut self,
        plan: &Plan,
        layer: &mut dyn Layer,
        writes: &[HostWrite<'_>],
    ) -> Result<(), ImageError> {
        // A plan that only reads has no bytes here, and nothing can refuse it.
        if !self.note_zones(plan, layer) && self.held.is_none() {
            return Ok(());
        }
        self.change(plan, layer, |this, layer| this.steps(plan, layer, writes))
    }

    /// Does what the plan of a trim of `extent` says. With `zeros` (a write of zeros), and where the store can discard,
    /// what is read there from now on is zeros, after a flush also when the power fails; else something that it ever
    /// held.
    ///
    /// # Errors
    /// As [`Interpreter::apply`].
    pub fn apply_trim(
        &mut self,
        plan: &Plan,
        layer: &mut dyn Layer,
        extent: LbaExtent,
        zeros: bool,
    ) -> Result<(), ImageError> {
        // Where sectors can be overwritten, what is forgotten is not touched: a track that is written destroys others.
        let zeros = (zeros || self.store.can_discard()) && layer.overwriting().is_none();
        self.note_zones(plan, layer);
        self.change(plan, layer, |this, layer| {
            if zeros {
                // Before the cache gives up what it has: where that fails, what was read there is still read.
                this.discard(extent, layer)?;
            }
            let written = this.counters.media_bytes;
            this.steps(plan, layer, &[])?;
            // A cleaning that ended with this has moved what the cache had to where the zeros are.
            let moved = !this.is_in_place() && this.counters.media_bytes > written;
            if zeros && moved { this.discard(extent, layer) } else { Ok(()) }
        })
    }

    fn steps(
        &mut self,
        plan: &Plan,
        layer: &mut dyn Layer,
        writes: &[HostWrite<'_>],
    ) -> Result<(), ImageError> {
        let mut host = HostData::of(plan, writes);
        self.plan_began = self.sequence;
        self.record(layer)?;
        let zeros = self.fill_zones(plan, layer, writes)?;
        let in_place = self.is_in_place();
        for step in plan.steps() {
            match *step {
                Step::Access { extent, source, .. } if in_place => {
                    self.access_in_place((extent, source), layer, &mut host)?;
                }
                Step::Access { medium, direction, extent, purpose, source } => {
                    let access = Access { medium, direction, extent, purpose, source };
                    self.planned_access(access, layer, &mut host)?;
                }
                Step::Commit(change) => {
                    if let MapChange::Native { lba } = change {
                        self.record_zones((plan, zeros), lba, layer, writes)?;
                    }
                    self.commit(change, layer, &mut host)?;
                }
                Step::AnyOrder { .. } | Step::Complete { .. } | Step::Fill { .. } | Step::Fail { .. } => {}
            }
        }
        self.counters.host_bytes += host.bytes();
        let all = LbaExtent::new(Lba(0), Sectors(self.superblock.capacity / SECTOR_BYTES));
        self.record_zones((plan, zeros), all, layer, writes)
    }

    pub(crate) fn commit(
        &mut self,
        change: MapChange,
        layer: &mut dyn Layer,
        host: &mut HostData<'_>,
    ) -> Result<(), ImageError> {
        // One tag more, after a flush that appends those that wait and leaves the rest of its block.
        if self.log.room() <= self.flush.waiting_tags() + 2 * TAGS as u64 {
            self.checkpoint_now(false, layer)?;
        }
        match self.is_in_place() {
            true => self.commit_in_place(change, layer, host),
            false => self.planned_commit(change, layer, host),
        }
    }

    /// Sees to it that one more tag fits the open block of the log. All that can fail of a commit fails up to here.
    pub(crate) fn begin_tag(&mut self) -> Result<(), ImageError> {
        self.log.make_way(self.store.as_mut()).map_err(|error| self.failed("write its tag log", error))
    }

    pub(crate) fn tag(&mut self, lba: LbaExtent, pba: Pba, kind: Kind) -> Tag {
        self.sequence += 1;
        self.flush.since.any = true;
        Tag { sequence: self.sequence, lba, pba, kind }
    }

    pub(crate) fn part(&self, medium: Medium) -> Part {
        match medium {
            Medium::Platter => self.superblock.platter,
            Medium::Flash => self.superblock.flash,
        }
    }

    /// Writes to a medium, after a sync if a recovery may still need what is there.
    pub(crate) fn write(
        &mut self,
        (medium, pba): (Medium, Pba),
        data: &[u8],
        layer: &dyn Layer,
    ) -> Result<(), ImageError> {
        let offset = self.ready((medium, pba), data.len() as u64, layer)?;
        self.store.write_at(offset, data).map_err(|error| self.failed("write", error))
    }

    /// Gets ready for other bytes at a place of a medium: where in the store that is.
    pub(crate) fn ready(
        &mut self,
        (medium, pba): (Medium, Pba),
        len_bytes: u64,
        layer: &dyn Layer,
    ) -> Result<u64, ImageError> {
        let extent = PbaExtent::new(pba, Sectors(len_bytes / SECTOR_BYTES));
        self.claim(medium, extent, layer)?;
        if let Some(held) = &mut self.held {
            held.forget(medium, extent);
        }
        (self.flush.since.dirty, self.flush.since.any) = (true, true);
        self.counters.media_bytes += len_bytes;
        Ok(self.part(medium).start + pba.get() * SECTOR_BYTES)
    }

    /// Reads a medium; `first` is the host sector that lies there.
    pub(crate) fn read_media(
        &self,
        medium: Medium,
        pba: Pba,
        first: Lba,
        buffer: &mut [u8],
    ) -> Result<(), ImageError> {
        let offset = self.part(medium).start + pba.get() * SECTOR_BYTES;
        let read = self.store.read_at(offset, buffer);
        read.map_err(|source| {
            ImageError::of_store(self.store.name(), "read", source, Some((offset, first.get())))
        })
    }

    pub(crate) fn failed(&self, action: &'static str, source: std::io::Error) -> ImageError {
        ImageError::of_store(self.store.name(), action, source, None)
    }

    /// Where each piece of an extent lies, in order.
    pub(crate) fn pieces(
        &self,
        extent: LbaExtent,
        layer: &dyn Layer,
        visit: &mut dyn FnMut(Medium, PbaExtent),
    ) {
        if self.is_in_place() && !self.plants.has(Planted::PlacesFollow) {
            let home = self.home_medium();
            return self.state.visit_home(layer, extent, &mut |piece| visit(home, piece));
        }
        self.layer_pieces(extent, layer, visit);
    }

    /// Where the layer has each piece of an extent, in order.
    pub(crate) fn layer_pieces(
        &self,
        extent: LbaExtent,
        layer: &dyn Layer,
        visit: &mut dyn FnMut(Medium, PbaExtent),
    ) {
        let (cache, home) = (self.cache_medium(), self.home_medium());
        self.state.visit_layer(layer, extent, &mut |piece, cached| {
            visit(if cached { cache } else { home }, piece);
        });
    }

    /// Reads what was written last.
    ///
    /// # Errors
    /// When the store fails.
    pub fn read(&self, extent: LbaExtent, buffer: &mut [u8], layer: &dyn Layer) -> Result<(), ImageError> {
        self.check_readable()?;
        let mut result = Ok(());
        let mut at = 0;
        self.pieces(extent, layer, &mut |medium, piece| {
            let len = piece.len.bytes() as usize;
            if result.is_ok() {
                let first = extent.start + Sectors(at as u64 / SECTOR_BYTES);
                result = self.read_media(medium, piece.start, first, &mut buffer[at..at + len]);
            }
            at += len;
        });
        result
    }

    /// Where a read goes in the store.
    ///
    /// # Errors
    /// When reads are not safe.
    pub(crate) fn route(&self, extent: LbaExtent, layer: &dyn Layer) -> Result<Route, ImageError> {
        self.check_readable()?;
        let mut route = Route::from(extent.start.get());
        self.pieces(extent, layer, &mut |medium, piece| {
            route.push(self.part(medium).start + piece.start.get() * SECTOR_BYTES, piece.len.bytes());
        });
        Ok(route)
    }

    /// Makes zeros of where a host extent lies without the cache.
    pub(crate) fn discard(&mut self, extent: LbaExtent, layer: &dyn Layer) -> Result<(), ImageError> {
        let (mut pieces, medium) = (Vec::new(), self.home_medium());
        self.state.visit_home(layer, extent, &mut |piece| pieces.push(piece));
        for piece in pieces {
            if let Some(held) = &mut self.held {
                held.forget(medium, piece);
            }
            let offset = self.part(medium).start + piece.start.get() * SECTOR_BYTES;
            let discarded = self.store.discard(offset, piece.len.bytes());
            discarded.map_err(|error| self.failed("discard", error))?;
        }
        let since = &mut self.flush.since;
        (since.untagged, since.dirty, since.any) = (true, true, true);
        Ok(())
    }

    /// Writes down where everything lies, so that a start need not read the log.
    ///
    /// # Errors
    /// As [`Interpreter::flush`].
    pub fn checkpoint(&mut self, clean: bool, layer: &mut dyn Layer) -> Result<(), ImageError> {
        self.run(|this| this.checkpoint_now(clean, layer))
    }

    /// A checkpoint after a recovery: what was found may not be durable yet, if no power failed.
    pub(crate) fn checkpoint_all(&mut self, layer: &mut dyn Layer) -> Result<(), ImageError> {
        self.flush.since.any = true;
        self.checkpoint(false, layer)
    }

    /// Makes zeros of both media but for these pieces, which come in any order; bytes that this was.
    pub(crate) fn discard_but(&mut self, pieces: &mut [(Medium, PbaExtent)]) -> Result<u64, ImageError> {
        if !self.store.can_discard() {
            return Ok(0);
        }
        pieces.sort_unstable_by_key(|(_, piece)| piece.start);
        self.run(|this| {
            let mut bytes = 0;
            for medium in [Medium::Platter, Medium::Flash] {
                let part = this.part(medium);
                let end = PbaExtent::new(Pba(part.len / SECTOR_BYTES), Sectors(0));
                let kept = pieces.iter().filter(|(on, _)| *on == medium).map(|(_, piece)| *piece);
                let mut at = Pba(0);
                for piece in kept.chain([end]) {
                    let gap = piece.start.get().saturating_sub(at.get()) * SECTOR_BYTES;
                    let discarded = this.store.discard(part.start + at.get() * SECTOR_BYTES, gap);
                    discarded.map_err(|error| this.failed("discard", error))?;
                    bytes += gap;
                    at = at.max(piece.end());
                }
            }
            this.flush.since.any = true;
            this.flush_now()?;
            Ok(bytes)
        })
    }

    pub(crate) fn stored_bytes(&self) -> Result<(u64, u64), ImageError> {
        let stored = self.store.stored_bytes().map_err(|error| self.failed("look at", error))?;
        Ok((stored, self.store.len_bytes()))
    }

    /// Whether there may be anything but zeros in an extent from a byte on, and for how many bytes that is so.
    ///
    /// # Errors
    /// When the store fails.
    pub fn allocated(&self, medium: Medium, extent: PbaExtent, from: u64) -> Result<(bool, u64), ImageError> {
        let offset = self.part(medium).start + extent.start.get() * SECTOR_BYTES + from;
        let found = self.store.is_data(offset, extent.len.bytes() - from);
        found.map_err(|error| self.failed("look at", error))
    }

    /// Bytes that were moved since the image was opened.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Switches off in order: all is durable, and the next start reads no log.
    ///
    /// # Errors
    /// When the store fails.
    pub fn close(&mut self, layer: &mut dyn Layer) -> Result<(), ImageError> {
        self.checkpoint(true, layer)?;
        self.store.close().map_err(|error| self.failed("close", error))
    }
}
