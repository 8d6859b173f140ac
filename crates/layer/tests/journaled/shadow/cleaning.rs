//! What the shadow asks of a cleaning: the right band at the right time, with all that is newest of it, staged and then
//! rewritten in place.

use skylight_disk::{Direction, Lba, LbaExtent, PbaExtent, Sectors};
use skylight_layer::journaled::CleaningOrder;
use skylight_layer::{Medium, Op, Purpose, Step};

use super::{Journal, NativeBand, Taken, parts_of_entry};
use crate::common::truth::{NOBODY, Spot, written};

/// A band between its read and its commit.
pub(super) struct Cleaning {
    pub(super) band: usize,
    /// What was read of its native location.
    native: Vec<u64>,
    /// What was staged, sector by sector.
    merged: Option<Vec<u64>>,
    sectors: u64,
    /// How many of its sectors are written, from the start.
    written: u64,
    pub(super) updated: bool,
    /// What of it a host writes; none in the cleaning of what is in the cache.
    host: Option<LbaExtent>,
}

impl Cleaning {
    pub(super) fn is_written(&self) -> bool {
        self.written == self.sectors
    }

    pub(super) fn goes_home(&self) -> bool {
        self.host.is_some()
    }

    pub(super) fn is_of_host(&self, sector: Lba) -> bool {
        self.host.is_some_and(|host| host.start <= sector && sector < host.end())
    }
}

/// Whether a host's data is written amid the rewriting of the band that was just read.
fn goes_home(later: &[Step]) -> bool {
    let purposes = later.iter().filter_map(|step| match *step {
        Step::Access { purpose, direction: Direction::Write, .. } => Some(purpose),
        _ => None,
    });
    purposes.take_while(|&purpose| purpose != Purpose::MapUpdate).any(|purpose| purpose == Purpose::Host)
}

impl Journal {
    /// Blocking cleaning is for the change that comes next in the plan, and only for want of room: whether
    /// slots are short. An entry may need two extents for each write, a change in place one more at most.
    fn check_blocking(&mut self, taken: &Taken, later: &[Step]) -> Option<bool> {
        let command = taken.next?;
        assert!(matches!(command.op, Op::Write | Op::Trim), "cleaning in the way of {command:?}");
        let entry = later.iter().enumerate().find_map(|(index, step)| match *step {
            Step::Access { extent, purpose: Purpose::Cache, .. } => Some((index, extent)),
            _ => None,
        });
        let is = |step: &Step, of: Purpose| matches!(*step, Step::Access { purpose, .. } if purpose == of);
        // No map is updated behind a write that bypasses the cache.
        let home = later.iter().position(|step| is(step, Purpose::Host));
        let home = home.filter(|&home| later[home..].iter().any(|step| is(step, Purpose::MapUpdate)));
        let goes_home = home.is_some_and(|home| entry.is_none_or(|(index, _)| home < index));
        let quantum = self.shape.spec.journal.quantum.get();
        let (quanta, writes) = match entry {
            _ if goes_home && taken.cleaned < taken.patience => {
                // The entry that found no place: the next part of a long write, or of the writes that wait.
                let data: u64 = taken.group.iter().map(|write| write.extent.len.get()).sum();
                let left = data - taken.placed_sectors;
                let most = self.shape.spec.journal.entry_max.get();
                (left.min(most).div_ceil(quantum), taken.group.len() as u64)
            }
            Some((index, extent)) if !goes_home => {
                (extent.len.get() / quantum, parts_of_entry(&later[index + 1..]).len() as u64)
            }
            _ => {
                assert!(self.lacks_entries(1), "cleaning though there is room");
                return Some(false);
            }
        };
        let slots_short = self.lacks_slots(quanta);
        assert!(slots_short || self.lacks_entries(2 * writes), "cleaning though there is room");
        Some(slots_short)
    }

    pub(super) fn clean_read(
        &mut self,
        taken: &mut Taken,
        medium: Medium,
        extent: PbaExtent,
        later: &[Step],
    ) {
        if taken.unordered > 0 {
            taken.unordered -= 1;
            return self.gather(medium, extent);
        }
        assert_eq!(medium, Medium::Platter, "bands are on the platters");
        let band = self.band_at(extent);
        let host = goes_home(later).then(|| self.check_going_home(taken, band));
        if host.is_none() {
            let slots_short = self.check_blocking(taken, later);
            let half_done = self.cleaning.is_some() && !self.lacks_entries(1);
            assert!(!half_done, "a band is begun while another one is half done");
            let order = match slots_short {
                Some(true) => CleaningOrder::Fifo,
                _ => self.shape.spec.cleaning.order,
            };
            self.check_order(order, band);
        }
        let native = extent.start.get()..extent.end().get();
        let native = native.map(|pba| self.truth.content(Spot { medium, pba })).collect();
        self.cleanings += 1;
        let sectors = extent.len.get();
        self.cleaning =
            Some(Cleaning { band, native, merged: None, sectors, written: 0, updated: false, host });
    }

    /// A write goes home with the band that it is in once as many others were cleaned as a host waits for. Returns what of
    /// the band it writes.
    fn check_going_home(&self, taken: &mut Taken, band: usize) -> LbaExtent {
        let write = taken.writes.get(taken.placed).expect("a write that goes home").extent;
        let start = write.start + Sectors(taken.placed_sectors);
        assert_eq!(self.band_of[start.get() as usize] as usize, band, "a write goes home with its own band");
        let enough = taken.cleaned >= taken.patience;
        assert!(taken.went_home || enough, "{} bands were cleaned before", taken.cleaned);
        taken.went_home = true;
        let end = write.end().min(self.bands[band].lba.end());
        LbaExtent::new(start, end - start)
    }

    /// A host's data amid the rewriting of its band.
    pub(super) fn host_part(&mut self, taken: &mut Taken, medium: Medium, extent: PbaExtent) {
        let cleaning = self.cleaning.as_mut().expect("a band to rewrite");
        let host = cleaning.host.expect("a write that goes home");
        let NativeBand { lba, native } = self.bands[cleaning.band];
        assert!(cleaning.merged.is_some(), "a band is staged before it is rewritten");
        assert_eq!(host.start - lba.start, Sectors(cleaning.written), "a band is rewritten in order");
        let expected = PbaExtent::new(native.start + Sectors(cleaning.written), host.len);
        assert_eq!((medium, extent), (Medium::Platter, expected), "host data at its place");
        cleaning.written += host.len.get();
        let number = self.place(taken, host);
        for sector in host.start.get()..host.end().get() {
            self.truth.rewrite(sector, written(number, sector));
        }
    }

    /// The band is that whose turn it is, or the first of an extent whose middle that is, if the map has no room
    /// for the two that would be left.
    fn check_order(&mut self, order: CleaningOrder, band: usize) {
        let turn = self.turn(order);
        let around = |turn: usize| {
            let lba = self.bands[turn].lba;
            let (mut start, end) = (lba.start.get(), lba.end().get());
            let inside = (start..=end).all(|sector| self.truth.is_joint(sector as usize));
            while inside && self.truth.is_joint(start as usize) {
                start -= 1;
            }
            inside.then(|| self.band_of[start as usize] as usize).filter(|_| self.lacks_entries(1))
        };
        let right = turn.iter().any(|&turn| around(turn).unwrap_or(turn) == band);
        assert!(right, "band {band} is cleaned out of order: {order:?}, it is the turn of {turn:?}");
    }

    /// The bands of which one is to be cleaned next.
    fn turn(&mut self, order: CleaningOrder) -> Vec<usize> {
        let first = match order {
            CleaningOrder::Fifo => self.oldest(),
            CleaningOrder::Lifo => self.newest(),
            CleaningOrder::Greedy | CleaningOrder::Random { .. } => None,
        };
        let mut live = vec![0u32; self.bands.len()];
        for (sector, &band) in self.band_of.iter().enumerate() {
            live[band as usize] +=
                u32::from(self.truth.at(sector as u64) != self.truth.native(sector as u64));
        }
        let is_in = |lba: u64, band: usize| self.band_of[lba as usize] as usize == band;
        let most = live.iter().copied().max().unwrap_or(0);
        (0..live.len())
            .filter(|&band| match (order, first) {
                (CleaningOrder::Greedy, _) => live[band] == most,
                (CleaningOrder::Random { .. }, _) => live[band] > 0,
                (_, Some(first)) => self.live_part(&first, |lba| is_in(lba, band)),
                (_, None) => false,
            })
            .filter(|&band| live[band] > 0)
            .collect()
    }

    fn gather(&mut self, medium: Medium, extent: PbaExtent) {
        let cleaning = self.cleaning.as_ref().expect("data is gathered for a band");
        assert!(cleaning.merged.is_none(), "data is gathered for a band that is staged");
        for pba in extent.start.get()..extent.end().get() {
            let spot = Spot { medium, pba };
            let owner = self.truth.owner(spot);
            assert_ne!(owner, NOBODY, "dead data at {spot:?} is gathered");
            assert_eq!(self.band_of[owner as usize] as usize, cleaning.band, "data of another band");
            self.read_by[medium as usize][pba as usize] = self.cleanings;
            self.read[medium as usize][pba as usize] = self.truth.content(spot);
        }
    }

    /// A merged band, sector by sector from where it was read.
    pub(super) fn clean_stage(&mut self, medium: Medium, extent: PbaExtent) {
        let cleaning = self.cleaning.as_mut().expect("a band to stage");
        let NativeBand { lba, .. } = self.bands[cleaning.band];
        let staging = PbaExtent::new(self.shape.spec.cleaning.staging.start, lba.len);
        assert_eq!((medium, extent), (self.shape.spec.cache_medium, staging), "the place of staging");
        let mut merged = std::mem::take(&mut cleaning.native);
        for (k, content) in merged.iter_mut().enumerate() {
            let sector = lba.start.get() + k as u64;
            let spot = self.truth.at(sector);
            if spot != self.truth.native(sector) {
                let (medium, pba) = (spot.medium as usize, spot.pba as usize);
                assert_eq!(self.read_by[medium][pba], self.cleanings, "sector {sector} was not gathered");
                *content = self.read[medium][pba];
            }
            self.truth.write(Spot { medium, pba: extent.start.get() + k as u64 }, *content);
        }
        assert!(cleaning.merged.replace(merged).is_none(), "a band is staged twice");
    }

    /// A band is rewritten in place with what was staged, which is still there and still the last write.
    pub(super) fn clean_write(&mut self, taken: &Taken, medium: Medium, extent: PbaExtent, later: &[Step]) {
        if !self.cleaning.as_ref().is_some_and(Cleaning::goes_home) {
            self.check_blocking(taken, later);
        }
        let cleaning = self.cleaning.as_mut().expect("a band to rewrite");
        let NativeBand { lba, native } = self.bands[cleaning.band];
        let start = native.start + Sectors(cleaning.written);
        assert_eq!(
            (medium, extent.start),
            (Medium::Platter, start),
            "a band is rewritten in order, in place"
        );
        let whole = cleaning.host.is_some() || extent == native;
        assert!(whole && extent.end() <= native.end(), "a band is rewritten whole");
        let merged = cleaning.merged.as_ref().expect("a band is staged before it is rewritten");
        let staging = self.shape.spec.cleaning.staging.start.get();
        let here = cleaning.written as usize..(cleaning.written + extent.len.get()) as usize;
        for (k, &content) in merged.iter().enumerate().take(here.end).skip(here.start) {
            let sector = lba.start.get() + k as u64;
            let staged = Spot { medium: self.shape.spec.cache_medium, pba: staging + k as u64 };
            assert_eq!(self.truth.content(staged), content, "the staged copy of {sector} is gone");
            assert_eq!(content, self.truth.last(sector), "sector {sector} is rewritten with old data");
            self.truth.rewrite(sector, content);
        }
        cleaning.written = here.end as u64;
    }
}
