//! The set-associative layer of Cassuto et al. as Skylight emulates it (FAST'15, section 3.1).
//!
//! The disk is N data bands and n cache bands of one size. A write to data band `a` is appended to cache
//! band `a mod n`, block by block, and the exception map remembers it. Cleaning is lazy: when a cache band
//! has no room for a write, each data band that it holds is read, merged and written back in place, and the
//! cache band is empty again.
//!
//! Invariants: a cache band holds data of its own data bands only; every exception points into the written
//! part of the cache band of its data band; the written part only grows between cleanings.
//! Source: Cassuto et al., "Indirection systems for shingled-recording disk drives" (MSST'10), as described
//! in Skylight, section 3.1.

use skylight_disk::{BLOCK_SECTORS, Direction, Divisor, Lba, LbaExtent, Pba, PbaExtent, Sectors};

use crate::extent_map::ExtentMap;
use crate::plan::{
    CacheUse, Command, HostOp, Idle, Layer, MapChange, Medium, Piece, Plan, Purpose, Queue, Step,
};

/// The sizes of a set-associative drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetAssociativeSpec {
    /// Sectors that the host sees; the last data band may be short.
    pub capacity: Sectors,
    /// Sectors in a band.
    pub band: Sectors,
    /// How many cache bands.
    pub cache_bands: u64,
    /// Where the cache lies.
    pub cache_medium: Medium,
    /// The first sector of the cache on its medium; on the platter, native data lies around it.
    pub cache_start: Pba,
}

/// See the module page.
pub struct SetAssociative {
    spec: SetAssociativeSpec,
    band_divisor: Divisor,
    cache_band_divisor: Divisor,
    /// By cache band: sectors written since it was last empty.
    written: Vec<u32>,
    exceptions: ExtentMap,
}

impl SetAssociative {
    /// An empty drive.
    pub fn new(spec: SetAssociativeSpec) -> Self {
        Self {
            spec,
            band_divisor: Divisor::new(spec.band.get()),
            cache_band_divisor: Divisor::new(spec.cache_bands),
            written: vec![0; spec.cache_bands as usize],
            exceptions: ExtentMap::new(),
        }
    }

    /// Where an extent lies natively, up to the cache if that lies in its middle: the extent and the rest.
    fn native(&self, extent: LbaExtent) -> (PbaExtent, LbaExtent) {
        let (start, len) = (extent.start.get(), extent.len.get());
        let hole = self.spec.cache_start.get();
        let (shift, here) = match self.spec.cache_medium {
            Medium::Flash => (0, len),
            Medium::Platter if start >= hole => (self.spec.cache_bands * self.spec.band.get(), len),
            Medium::Platter => (0, len.min(hole - start)),
        };
        let place = PbaExtent::new(Pba(start + shift), Sectors(here));
        (place, LbaExtent::new(extent.start + Sectors(here), Sectors(len - here)))
    }

    fn visit_native(&self, extent: LbaExtent, visit: &mut impl FnMut(Piece)) {
        let mut rest = extent;
        while !rest.is_empty() {
            let (place, beyond) = self.native(rest);
            visit(Piece { medium: Medium::Platter, extent: place, cached: false });
            rest = beyond;
        }
    }

    /// The part of an extent in its first data band, and the rest.
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

    fn write(&mut self, extent: LbaExtent, plan: &mut Plan) {
        let mut rest = extent;
        while !rest.is_empty() {
            let (band, lba, beyond) = self.split_at_band(rest);
            rest = beyond;
            let (_, cache_band) = self.cache_band_divisor.div_rem(band);
            let room_needed = lba.len.get().next_multiple_of(BLOCK_SECTORS);
            if u64::from(self.written[cache_band as usize]) + room_needed > self.spec.band.get() {
                self.clean(cache_band, plan);
            }
            let written = &mut self.written[cache_band as usize];
            let offset = Sectors((*written).into());
            *written += room_needed as u32;
            let pba = self.cache_band_start(cache_band) + offset;
            let place = PbaExtent::new(pba, lba.len);
            plan.access(self.spec.cache_medium, Direction::Write, place, Purpose::Cache);
            self.exceptions.insert(lba, pba);
            plan.push(Step::Commit(MapChange::Cached { lba, pba }));
        }
    }

    /// Empties a cache band: one sequential read of it, then a read-modify-write of each data band it holds.
    fn clean(&mut self, cache_band: u64, plan: &mut Plan) {
        let used = Sectors(self.written[cache_band as usize].into());
        let cached = PbaExtent::new(self.cache_band_start(cache_band), used);
        plan.access(self.spec.cache_medium, Direction::Read, cached, Purpose::CleanRead);
        let bands = self.spec.capacity.get().div_ceil(self.spec.band.get());
        let mut band = cache_band;
        while let Some(held) = self.next_held(band).filter(|&held| held < bands) {
            // From exception to exception, so that the work grows with them and not with the drive.
            let behind = (held - band).next_multiple_of(self.spec.cache_bands);
            if behind > 0 {
                band += behind;
                continue;
            }
            let lba = self.band_extent(band);
            let (place, beyond) = self.native(lba);
            debug_assert!(beyond.is_empty(), "the cache begins between two bands");
            plan.access(Medium::Platter, Direction::Read, place, Purpose::CleanRead);
            plan.access(Medium::Platter, Direction::Write, place, Purpose::CleanWrite);
            self.exceptions.remove(lba);
            plan.push(Step::Commit(MapChange::Native { lba }));
            band += self.spec.cache_bands;
        }
        self.written[cache_band as usize] = 0;
    }

    /// The first data band from `band` on that has an exception.
    fn next_held(&self, band: u64) -> Option<u64> {
        let start = Lba((band * self.spec.band.get()).min(self.spec.capacity.get()));
        let rest = LbaExtent::new(start, Sectors(self.spec.capacity.get() - start.get()));
        let first = self.exceptions.overlapping(rest).next()?;
        Some(self.band_divisor.div_rem(first.lba.start.get()).0)
    }

    /// The pieces of an extent in order, exceptions and the native rest between them.
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
        let Command { id, op, extent } = queue.next_command();
        match op {
            HostOp::Read => self.visit_pieces(extent, |piece| {
                let purpose = if piece.cached { Purpose::Cache } else { Purpose::Host };
                plan.access(piece.medium, Direction::Read, piece.extent, purpose);
            }),
            HostOp::Write => self.write(extent, plan),
            HostOp::Trim => {
                self.exceptions.remove(extent);
                plan.push(Step::Commit(MapChange::Native { lba: extent }));
            }
            HostOp::Flush => {}
        }
        plan.push(Step::Complete(id));
    }

    fn idle(&mut self, _plan: &mut Plan) -> Idle {
        Idle::Nothing
    }

    fn locate(&self, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        self.visit_pieces(extent, |piece| pieces.push(piece));
    }

    fn locate_first(&self, extent: LbaExtent, write: bool) -> (Medium, Pba) {
        if write {
            let (band, first, _) = self.split_at_band(extent);
            let (_, cache_band) = self.cache_band_divisor.div_rem(band);
            let written = u64::from(self.written[cache_band as usize]);
            let room_needed = first.len.get().next_multiple_of(BLOCK_SECTORS);
            let written = Sectors(if written + room_needed <= self.spec.band.get() { written } else { 0 });
            return (self.spec.cache_medium, self.cache_band_start(cache_band) + written);
        }
        match self.exceptions.overlapping(extent).next() {
            Some(mapped) if mapped.lba.start == extent.start => (self.spec.cache_medium, mapped.pba),
            _ => (Medium::Platter, self.native(extent).0.start),
        }
    }

    #[inline]
    fn hint(&mut self, address: Lba) {
        self.exceptions.hint(address);
    }

    fn erase(&mut self) {
        self.written.fill(0);
        self.exceptions = ExtentMap::new();
    }

    fn cache_use(&self) -> CacheUse {
        CacheUse {
            live_sectors: self.exceptions.sectors(),
            map_entries: self.exceptions.entries(),
            map_bytes: self.exceptions.bytes(),
        }
    }
}
