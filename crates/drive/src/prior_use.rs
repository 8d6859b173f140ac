//! A drive under conditions, after the use that it had before.
//!
//! Prior use is real commands in virtual time: random writes into the persistent cache, at the depth of the drive's
//! queue so that a journal packs them, or the whole drive in order. It happens before the host, the link and the other
//! clients are there, and its accounts are forgotten.
//!
//! Invariants: the same profile, conditions and seed leave the same drive; nothing is left in the volatile cache.

use rand_core::Rng;

use skylight_command::code::Code;
use skylight_disk::Direction;
use skylight_layer::{Medium, Purpose};

use crate::batch::{Batch, BatchError};
use crate::drive::Drive;
use crate::drive_counters::DriveCounters;
use crate::jitter::substream;
use crate::profile::{Conditions, PriorUse, Profile, ProfileError};
use crate::truth::CacheFill;

const BLOCK: u64 = 4096;
/// Random writes that fill a cache, roughly. Chosen: enough that they are spread evenly over all bands, few enough that
/// a cache of terabytes takes seconds.
const FILL_WRITES: u64 = 50_000;
/// Where to give up filling a cache that does not make the drive clean. Chosen: a tenth beyond what it takes.
const BEYOND_FULL: f64 = 1.1;
/// Size of the writes of a pass over the whole drive: what a copy of a disk issues.
const SEQUENTIAL_WRITE: u64 = 32 << 20;
/// Commands of one batch; after each it is looked whether the drive has begun to clean.
const BATCH: usize = 256;

impl Drive {
    /// Builds the drive of a profile as a host meets it: used as the conditions say, then under them. `seed` is for its
    /// jitter and for everything that the conditions draw.
    ///
    /// # Errors
    /// As [`Drive::new`].
    pub fn in_conditions(
        profile: &Profile,
        conditions: &Conditions,
        seed: u64,
    ) -> Result<Self, ProfileError> {
        let mut drive = Self::new(profile, seed)?;
        if let Some(fill) = CacheFill::of(profile) {
            drive.use_before(conditions.prior_use, fill, seed);
        }
        drive.meet(profile, conditions, seed);
        Ok(drive)
    }

    /// Prior use of a drive with a persistent cache; one without keeps no trace of it.
    fn use_before(&mut self, prior: PriorUse, fill: CacheFill, seed: u64) {
        let done = match prior {
            PriorUse::New => return,
            PriorUse::HalfFull => self.write_randomly(fill, 0.5, seed),
            PriorUse::Full => self.write_randomly(fill, BEYOND_FULL, seed),
            PriorUse::WholeDrive => self.write_in_order(),
        };
        debug_assert!(done.is_ok(), "{done:?}");
        self.finish_prior_use();
    }

    /// Random writes of that share of what the cache takes, or until the drive begins to clean.
    fn write_randomly(&mut self, fill: CacheFill, share: f64, seed: u64) -> Result<(), BatchError> {
        let blocks = (fill.bytes / FILL_WRITES).min(fill.band_bytes / 2) / BLOCK;
        let size = blocks.max(1) * BLOCK;
        let writes = (fill.bytes / size).min(fill.map_entries.unwrap_or(u64::MAX));
        let mut places = substream(seed, "world.prior-use");
        let slots = (self.capacity().bytes() - size) / BLOCK + 1;
        let count = (writes as f64 * share) as u64;
        let extents = (0..count).map(|_| {
            let block = (u128::from(places.next_u64()) * u128::from(slots)) >> 64;
            (block as u64 * BLOCK, size)
        });
        self.write(extents, true)
    }

    /// Writes the whole drive once.
    fn write_in_order(&mut self) -> Result<(), BatchError> {
        let capacity = self.capacity().bytes();
        let starts = (0..capacity.div_ceil(SEQUENTIAL_WRITE)).map(|index| index * SEQUENTIAL_WRITE);
        self.write(starts.map(|start| (start, SEQUENTIAL_WRITE.min(capacity - start))), false)
    }

    /// Writes these extents (offset and size, bytes), as many at a time as the drive queues.
    fn write(
        &mut self,
        extents: impl Iterator<Item = (u64, u64)>,
        until_cleaning: bool,
    ) -> Result<(), BatchError> {
        let depth = self.queue_depth();
        let mut extents = extents.peekable();
        let (mut offset, mut size) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let ops = [Code::Write; BATCH];
        let (mut submit, mut complete) = ([0; BATCH], [0; BATCH]);
        let before = self.cleaning_writes();
        while extents.peek().is_some() && (!until_cleaning || self.cleaning_writes() == before) {
            offset.clear();
            size.clear();
            for (start, bytes) in extents.by_ref().take(BATCH) {
                offset.push(start);
                size.push(bytes as u32);
            }
            let count = offset.len();
            let batch = Batch { op: &ops[..count], offset: &offset, size: &size };
            self.run(&batch, depth, &mut submit[..count], &mut complete[..count])?;
        }
        Ok(())
    }

    /// Writes of bands by cleaning so far.
    fn cleaning_writes(&self) -> u64 {
        let account =
            |medium| self.counters().account(Purpose::CleanWrite, Direction::Write, medium).accesses;
        account(Medium::Platter) + account(Medium::Flash)
    }

    fn finish_prior_use(&mut self) {
        self.destage_all();
        self.host_time = self.host_time.max(self.busy_until);
        self.media.counters = DriveCounters::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::EXAMPLE;

    fn used(prior_use: PriorUse) -> Drive {
        let profile = Profile::from_toml(EXAMPLE, "example.toml").unwrap();
        Drive::in_conditions(&profile, &Conditions { prior_use, ..Conditions::default() }, 7).unwrap()
    }

    #[test]
    fn half_full_and_full_are_what_they_say() {
        let fill = CacheFill::of(&Profile::from_toml(EXAMPLE, "example.toml").unwrap()).unwrap();
        let live = |prior_use| used(prior_use).cache_use().live_sectors as f64 * 512.0 / fill.bytes as f64;
        assert_eq!(live(PriorUse::New), 0.0);
        let (half, full) = (live(PriorUse::HalfFull), live(PriorUse::Full));
        assert!((0.45..0.52).contains(&half), "half full is {half}");
        // The first of a thousand cache bands is full somewhat before the average.
        assert!((0.65..=1.0).contains(&full), "full is {full}");
    }

    #[test]
    fn prior_use_takes_time_and_leaves_no_accounts() {
        let drive = used(PriorUse::HalfFull);
        assert!(drive.now().get() > 0);
        assert_eq!(drive.counters().media_bytes(Direction::Write), 0);
    }
}
