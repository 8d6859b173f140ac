//! Bands: maps host addresses to bands on the platters, each at its native location.
//!
//! A *stretch* is a run of bands of one size. Stretches are contiguous in LBA. On the platters, each band may
//! be followed by a guard, and other regions (a persistent cache, a map) may lie between stretches. A look-up
//! costs one table access, a few comparisons and one division, by host address as well as by band number.
//!
//! Invariants: stretches leave no gap in LBA; bands do not overlap on the platters; only the last band of a
//! stretch may be short.
//! Source: Skylight (FAST'15), section 2 (bands, guards), section 4.7 (bands of equal capacity within a zone,
//! smaller towards the ID).

use skylight_disk::{Divisor, Lba, LbaExtent, Pba, PbaExtent, Sectors};

/// Consecutive bands of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StretchSpec {
    /// Host sectors in the stretch.
    pub sectors: Sectors,
    /// Host sectors in a band.
    pub band: Sectors,
    /// Unused sectors after each band.
    pub guard: Sectors,
    /// The first sector of the first band on the platters.
    pub start: Pba,
}

#[derive(Clone, Debug)]
struct Stretch {
    first_lba: u64,
    end_lba: u64,
    first_pba: u64,
    band: u64,
    pitch: u64,
    divisor: Divisor,
    first_band: u64,
    end_band: u64,
}

impl Stretch {
    /// Sectors of the smallest band, which is the last.
    fn smallest(&self) -> u64 {
        match (self.end_lba - self.first_lba) % self.band {
            0 => self.band,
            short => short,
        }
    }
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct Bands {
    stretches: Vec<Stretch>,
    /// Look-up by host sector.
    by_lba: Slices,
    /// Look-up by band number.
    by_number: Slices,
    smallest: Sectors,
}

/// The first stretch in each slice of 2^`shift` host sectors or bands.
#[derive(Clone, Debug)]
struct Slices {
    first: Vec<u32>,
    shift: u32,
}

/// Log2 of the maximum number of slices.
const SLICE_BITS: u32 = 10;

impl Slices {
    /// Indexes stretches by their ends.
    fn new(stretches: &[Stretch], end: impl Fn(&Stretch) -> u64) -> Self {
        let last = stretches.last().map_or(0, |stretch| end(stretch).saturating_sub(1));
        let shift = (u64::BITS - last.leading_zeros()).saturating_sub(SLICE_BITS);
        let first_in =
            |slice: u64| stretches.partition_point(|stretch| end(stretch) <= slice << shift) as u32;
        Self { first: (0..=last >> shift).map(first_in).collect(), shift }
    }

    /// The stretch that contains `at`; `stretches` and `end` are those of [`Slices::new`].
    #[inline]
    fn find<'a>(&self, at: u64, stretches: &'a [Stretch], end: impl Fn(&Stretch) -> u64) -> &'a Stretch {
        let mut index = self.first[(at >> self.shift) as usize] as usize;
        while end(&stretches[index]) <= at {
            index += 1;
        }
        &stretches[index]
    }
}

/// A band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// The number of the band, in LBA order.
    pub number: u64,
    /// The host sectors of the band.
    pub lba: LbaExtent,
    /// The native location of the band.
    pub native: PbaExtent,
}

impl Bands {
    /// Builds the look-up tables; `specs` must not be empty.
    pub fn new(specs: &[StretchSpec]) -> Self {
        let mut stretches: Vec<Stretch> = Vec::with_capacity(specs.len());
        for spec in specs {
            let (first_lba, first_band) =
                stretches.last().map_or((0, 0), |before| (before.end_lba, before.end_band));
            stretches.push(Stretch {
                first_lba,
                end_lba: first_lba + spec.sectors.get(),
                first_pba: spec.start.get(),
                band: spec.band.get(),
                pitch: spec.band.get() + spec.guard.get(),
                divisor: Divisor::new(spec.band.get()),
                end_band: first_band + spec.sectors.get().div_ceil(spec.band.get()),
                first_band,
            });
        }
        let smallest = stretches.iter().map(Stretch::smallest).min().unwrap_or_default();
        let by_lba = Slices::new(&stretches, |stretch| stretch.end_lba);
        let by_number = Slices::new(&stretches, |stretch| stretch.end_band);
        Self { stretches, by_lba, by_number, smallest: Sectors(smallest) }
    }

    /// The number of bands.
    pub fn count(&self) -> u64 {
        self.stretches.last().map_or(0, |last| last.end_band)
    }

    /// The first host sector of band `number`, which must exist.
    pub fn first_of(&self, number: u64) -> Lba {
        let stretch = self.by_number.find(number, &self.stretches, |stretch| stretch.end_band);
        Lba(stretch.first_lba + (number - stretch.first_band) * stretch.band)
    }

    /// The stretches, as passed to [`Bands::new`].
    pub fn stretches(&self) -> impl Iterator<Item = StretchSpec> + '_ {
        self.stretches.iter().map(|stretch| StretchSpec {
            sectors: Sectors(stretch.end_lba - stretch.first_lba),
            band: Sectors(stretch.band),
            guard: Sectors(stretch.pitch - stretch.band),
            start: Pba(stretch.first_pba),
        })
    }

    /// Host sectors of the smallest band.
    #[inline]
    pub fn smallest(&self) -> Sectors {
        self.smallest
    }

    /// Host sectors of all bands.
    pub fn capacity(&self) -> Sectors {
        Sectors(self.stretches.last().map_or(0, |stretch| stretch.end_lba))
    }

    /// The first sector of the platters after all bands and guards.
    pub fn platter_end(&self) -> Pba {
        let end = |stretch: &Stretch| {
            stretch.first_pba + (stretch.end_lba - stretch.first_lba).div_ceil(stretch.band) * stretch.pitch
        };
        Pba(self.stretches.iter().map(end).max().unwrap_or(0))
    }

    /// The band that contains a host sector.
    ///
    /// # Panics
    /// If the sector is past the end of the last band.
    #[inline]
    pub fn of(&self, lba: Lba) -> Band {
        let stretch = self.by_lba.find(lba.get(), &self.stretches, |stretch| stretch.end_lba);
        let (in_stretch, _) = stretch.divisor.div_rem(lba.get() - stretch.first_lba);
        let start = stretch.first_lba + in_stretch * stretch.band;
        let len = Sectors(stretch.band.min(stretch.end_lba - start));
        Band {
            number: stretch.first_band + in_stretch,
            lba: LbaExtent::new(Lba(start), len),
            native: PbaExtent::new(Pba(stretch.first_pba + in_stretch * stretch.pitch), len),
        }
    }

    /// Visits the bands that an extent overlaps, in order, each with the part of the extent in it.
    #[inline]
    pub fn visit_bands(&self, extent: LbaExtent, mut visit: impl FnMut(Band, LbaExtent)) {
        let mut rest = extent;
        while !rest.is_empty() {
            let band = self.of(rest.start);
            let here = rest.len.min(band.lba.end() - rest.start);
            visit(band, LbaExtent::new(rest.start, here));
            rest = LbaExtent::new(rest.start + here, rest.len - here);
        }
    }

    /// Visits the native locations of an extent, in order: one piece per band; contiguous pieces are merged.
    #[inline]
    pub fn visit_native(&self, extent: LbaExtent, visit: &mut impl FnMut(PbaExtent)) {
        let mut pending = PbaExtent::default();
        self.visit_bands(extent, |band, part| {
            let piece = PbaExtent::new(band.native.start + (part.start - band.lba.start), part.len);
            if pending.end() == piece.start && !pending.is_empty() {
                pending.len += piece.len;
            } else {
                if !pending.is_empty() {
                    visit(pending);
                }
                pending = piece;
            }
        });
        if !pending.is_empty() {
            visit(pending);
        }
    }

    /// The native location of a host sector.
    #[inline]
    pub fn native(&self, lba: Lba) -> Pba {
        let band = self.of(lba);
        band.native.start + (lba - band.lba.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_stretches() -> Bands {
        let stretch = |sectors, band, guard, start| StretchSpec {
            sectors: Sectors(sectors),
            band: Sectors(band),
            guard: Sectors(guard),
            start: Pba(start),
        };
        Bands::new(&[stretch(100, 40, 8, 1000), stretch(90, 30, 0, 5000)])
    }

    #[test]
    fn bands_are_numbered_consecutively_and_the_last_of_a_stretch_may_be_short() {
        let bands = two_stretches();
        let short = bands.of(Lba(99));
        assert_eq!((short.number, short.lba.len, short.native.start), (2, Sectors(20), Pba(1096)));
        assert_eq!(bands.of(Lba(100)).number, 3);
        assert_eq!(bands.of(Lba(189)).number, 5);
        assert_eq!((bands.capacity(), bands.smallest()), (Sectors(190), Sectors(20)));
        let firsts: Vec<Lba> = (0..bands.count()).map(|number| bands.first_of(number)).collect();
        assert_eq!(firsts, [0, 40, 80, 100, 130, 160].map(Lba));
    }

    #[test]
    fn pieces_end_only_at_guards_and_stretches() {
        let mut pieces = Vec::new();
        two_stretches().visit_native(LbaExtent::new(Lba(30), Sectors(150)), &mut |piece| pieces.push(piece));
        let expected = [(1030, 10), (1048, 40), (1096, 20), (5000, 80)];
        let expected = expected.map(|(start, len)| PbaExtent::new(Pba(start), Sectors(len)));
        assert_eq!(pieces, expected);
    }
}
