//! The set-associative layer of Cassuto et al. as Skylight emulates it (FAST'15, section 3.1).
//!
//! The disk consists of N data bands and n cache bands of one size. A write to data band `a` is appended to
//! cache band `a mod n`, block by block, and recorded in the exception map. Cleaning (`cleaning`) empties a
//! cache band: each of its data bands with exceptions is read, merged and written back in place. Lazy
//! cleaning starts when a write does not fit in its cache band; aggressive cleaning also runs in idle time.
//!
//! A cache band may have blocks of more data bands than a host has the patience to wait for. A write has as many cleaned as
//! [`SetAssociativeSpec::bands_for_one_write`] says. If blocks of others are left, it goes home together with its own data
//! band, and the next write that finds no room goes on with the cleaning.
//!
//! Invariants: a cache band contains data only of its own data bands; every exception points into the written
//! part of the cache band of its data band; between cleanings the written part only grows.
//! Source: Cassuto et al., "Indirection systems for shingled-recording disk drives" (MSST'10), as described
//! in Skylight, section 3.1, where cleaning is lazy; random drives may also clean aggressively. That a write does not wait for
//! all of a cache band is ours: the paper's drives have too few data bands for it.

mod cleaning;
mod restore;

use std::collections::BTreeMap;

use skylight_command::{Command, Failure, Op};
use skylight_disk::{BLOCK_SECTORS, Divisor, Lba, LbaExtent, Nanos, Pba, PbaExtent, Sectors};

use crate::extent_map::ExtentMap;
use crate::plan::{
    CacheUse, Idle, Layer, MapChange, Medium, Piece, Plan, Purpose, Queue, Room, Source, Step,
};
use crate::restore::{MediaUse, Misplaced, Recovered};
use cleaning::Cleaning;

/// The sizes of a set-associative drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetAssociativeSpec {
    /// Host sectors; the last data band may be short.
    pub capacity: Sectors,
    /// Sectors in a band.
    pub band: Sectors,
    /// The number of cache bands.
    pub cache_bands: u64,
    /// The medium of the cache.
    pub cache_medium: Medium,
    /// The first sector of the cache on its medium; on the platters, native data lies on both sides of it.
    pub cache_start: Pba,
    /// Sectors of a cache band that may be in use before a write to it waits for cleaning; at most a band.
    /// A longer write fits in an empty cache band.
    pub usable: Sectors,
    /// Data bands that are cleaned for one write, at most; at least one.
    pub bands_for_one_write: u64,
    /// Idle time before the drive cleans (aggressive); `None` if it cleans only full cache bands (lazy).
    pub idle_after: Option<Nanos>,
}

/// A cache band: the sectors written since it was last empty, and the sequence number of its first write
/// among those of all cache bands.
#[derive(Clone, Copy, Debug, Default)]
struct CacheBand {
    written: u32,
    first_write: u64,
}

/// See the module documentation.
pub struct SetAssociative {
    spec: SetAssociativeSpec,
    band_divisor: Divisor,
    cache_band_divisor: Divisor,
    cache_bands: Vec<CacheBand>,
    /// Cache bands that are not empty, by `first_write`.
    filling: BTreeMap<u64, u64>,
    /// The next value of `first_write`.
    next_first_write: u64,
    exceptions: ExtentMap,
    cleaning: Option<Cleaning>,
}

impl SetAssociative {
    /// An empty drive.
    pub fn new(spec: SetAssociativeSpec) -> Self {
        Self {
            spec,
            band_divisor: Divisor::new(spec.band.get()),
            cache_band_divisor: Divisor::new(spec.cache_bands),
            cache_bands: vec![CacheBand::default(); spec.cache_bands as usize],
            filling: BTreeMap::new(),
            next_first_write: 0,
            exceptions: ExtentMap::new(),
            cleaning: None,
        }
    }

    /// The native location of an extent up to the start of the cache, and the part of the extent beyond it.
    fn native(&self, extent: LbaExtent) -> (PbaExtent, LbaExtent) {
        let (start, len) = (extent.start.get(), extent.len.get());
        let hole = self.spec.cache_start.get();
        let (shift, here) = match self.spec.cache_medium {
            Medium::Flash => (0, len),
            Medium::Platter if start >= hole => (self.spec.cache_bands * self.spec.band.get(), len),
            Medium::Platter => (0, len.min(hole - start)),
        };
        let location = PbaExtent::new(Pba(start + shift), Sectors(here));
        (location, LbaExtent::new(extent.start + Sectors(here), Sectors(len - here)))
    }

    fn visit_native(&self, extent: LbaExtent, visit: &mut impl FnMut(Piece)) {
        let mut rest = extent;
        while !rest.is_empty() {
            let (extent, beyond) = self.native(rest);
            visit(Piece { medium: Medium::Platter, extent, cached: false });
            rest = beyond;
        }
    }

    /// The first data band of an extent, the part of the extent in it, and the rest.
    fn split_at_band(&self, extent: LbaExtent) -> (u64, LbaExtent, LbaExtent) {
        let (band, into) = self.band_divisor.div_rem(extent.start.get());
        let here = Sectors(extent.len.get().min(self.spec.band.get() - into));
        let first = LbaExtent::new(extent.start, here);
        (band, first, LbaExtent::new(first.end(), extent.len - here))
    }

    fn band_extent(&self, band: u64) -> LbaExtent {
        let start = band * self.spec.band.get();
        let len = self.spec.band.get().min(self.spec.capacity.get() - start);
        LbaExtent::new(Lba(start), Sectors(len))
    }

    fn cache_band_start(&self, cache_band: u64) -> Pba {
        self.spec.cache_start + Sectors(cache_band * self.spec.band.get())
    }

    fn cache_band_of(&self, band: u64) -> u64 {
        self.cache_band_divisor.div_rem(band).1
    }

    /// Sectors that a write occupies in its cache band: the next write starts at a block boundary.
    fn space_needed(lba: LbaExtent) -> u64 {
        lba.len.get().next_multiple_of(BLOCK_SECTORS)
    }

    /// Whether `needed` sectors fit in a cache band.
    fn has_space(&self, cache_band: u64, needed: u64) -> bool {
        let written = u64::from(self.cache_bands[cache_band as usize].written);
        written == 0 || written + needed <= self.spec.usable.get()
    }

    fn write(&mut self, extent: LbaExtent, plan: &mut Plan) {
        let mut rest = extent;
        while !rest.is_empty() {
            let (band, lba, beyond) = self.split_at_band(rest);
            rest = beyond;
            let cache_band = self.cache_band_of(band);
            let needed = Self::space_needed(lba);
            if !self.has_space(cache_band, needed) && !self.clean(cache_band, plan) {
                self.write_home(band, lba, plan);
                continue;
            }
            let pba = self.allocate(cache_band, needed);
            let extent = PbaExtent::new(pba, lba.len);
            plan.write(self.spec.cache_medium, extent, Purpose::Cache, Source::ToCache);
            self.exceptions.insert(lba, pba);
            plan.push(Step::Commit(MapChange::Cached { lba, pba: pba.into() }));
        }
    }

    /// Allocates space in a cache band and returns its first sector.
    #[inline]
    fn allocate(&mut self, cache_band: u64, needed: u64) -> Pba {
        self.cancel_cleaning_of(cache_band);
        let start = self.cache_band_start(cache_band);
        let in_use = self.filling_band(cache_band);
        let offset = Sectors(in_use.written.into());
        in_use.written += needed as u32;
        start + offset
    }

    /// A cache band that is about to be written to; an empty one joins those that fill.
    #[inline]
    fn filling_band(&mut self, cache_band: u64) -> &mut CacheBand {
        let in_use = &mut self.cache_bands[cache_band as usize];
        if in_use.written == 0 {
            in_use.first_write = self.next_first_write;
            self.filling.insert(self.next_first_write, cache_band);
            self.next_first_write += 1;
        }
        in_use
    }

    /// Visits the pieces of an extent in order: exceptions, and native locations between them.
    fn visit_pieces(&self, extent: LbaExtent, mut visit: impl FnMut(Piece)) {
        let mut at = extent.start;
        for mapped in self.exceptions.overlapping(extent) {
            self.visit_native(LbaExtent::new(at, mapped.lba.start - at), &mut visit);
            let extent = PbaExtent::new(mapped.pba, mapped.lba.len);
            visit(Piece { medium: self.spec.cache_medium, extent, cached: true });
            at = mapped.lba.end();
        }
        self.visit_native(LbaExtent::new(at, extent.end() - at), &mut visit);
    }
}

impl Layer for SetAssociative {
    fn capacity(&self) -> Sectors {
        self.spec.capacity
    }

    #[inline]
    fn take(&mut self, queue: Queue<'_>, plan: &mut Plan) {
        let Command { id, op, extent, .. } = queue.next_command();
        match op {
            Op::Read => self.visit_pieces(extent, |piece| plan.read_piece(piece)),
            Op::Write => self.write(extent, plan),
            Op::Trim => {
                // The data that cleaning has read is stale, so it starts over.
                self.cleaning = None;
                self.exceptions.remove(extent);
                plan.push(Step::Commit(MapChange::Native { lba: extent }));
            }
            Op::Flush => {}
            Op::WriteZeroes | Op::Cache | Op::Append | Op::Zone(_) => {
                return plan.fail(id, Failure::Unsupported);
            }
        }
        plan.complete(id);
    }

    fn idle_after(&self) -> Option<Nanos> {
        self.spec.idle_after
    }

    fn idle(&mut self, plan: &mut Plan) -> Idle {
        if self.spec.idle_after.is_some() && self.clean_idle(plan) { Idle::Worked } else { Idle::Nothing }
    }

    fn locate(&self, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        self.visit_pieces(extent, |piece| pieces.push(piece));
    }

    fn locate_first(&self, extent: LbaExtent, write: bool) -> (Medium, Pba) {
        if write {
            let (band, first, _) = self.split_at_band(extent);
            let cache_band = self.cache_band_of(band);
            let fits = self.has_space(cache_band, Self::space_needed(first));
            let written = if fits { self.cache_bands[cache_band as usize].written } else { 0 };
            return (self.spec.cache_medium, self.cache_band_start(cache_band) + Sectors(written.into()));
        }
        match self.exceptions.overlapping(extent).next() {
            Some(mapped) if mapped.lba.start == extent.start => (self.spec.cache_medium, mapped.pba),
            _ => (Medium::Platter, self.native(extent).0.start),
        }
    }

    fn location_group(&self, address: Lba) -> u32 {
        let (band, _) = self.band_divisor.div_rem(address.get());
        self.cache_band_divisor.div_rem(band).1 as u32
    }

    // What has no room without cleaning has none: a part of the cache is emptied as a whole.
    fn room(&self, address: Lba) -> Option<Room> {
        let written = self.cache_bands[self.location_group(address) as usize].written;
        let sectors = Sectors(self.spec.usable.get().saturating_sub(written.into()));
        Some(Room { sectors, writes: u64::MAX })
    }

    #[inline]
    fn hint(&mut self, address: Lba) {
        self.exceptions.hint(address);
    }

    fn erase(&mut self) {
        *self = Self::new(self.spec);
    }

    fn media_use(&self) -> MediaUse {
        self.media_used()
    }

    fn initial_locations(&self, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent)) {
        self.visit_native(extent, &mut |piece| visit(piece.extent));
    }

    fn restore(&mut self, found: &Recovered<'_>) -> Result<(), Misplaced> {
        self.recover(found)
    }

    fn cache_use(&self) -> CacheUse {
        CacheUse {
            filled_sectors: self.cache_bands.iter().map(|band| u64::from(band.written)).sum(),
            usable_sectors: self.spec.cache_bands * self.spec.usable.get(),
            cleaning: self.cleaning.is_some(),
            ..self.exceptions.cache_use()
        }
    }
}
