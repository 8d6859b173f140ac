//! How many writes share an entry of a journal where a volatile cache collects them for a host that sends one command at a
//! time.
//!
//! The first write leaves as soon as it comes, and the next ones collect while that is written, as many as the host's
//! link lets through. At a greater depth a long read holds the medium and any number collects; one command at a time waits
//! for that read itself. So a quiet copy of the drive is written to, and its counters give the slots.

use skylight_disk::Direction;
use skylight_layer::{Medium, Purpose};

use super::cleaning_costs::{collecting, spread, write};
use super::quiet;
use super::watermarks::usable_slots;
use crate::drive::Drive;
use crate::profile::{Conditions, Layer, Profile, ProfileError};

const BLOCK: u64 = 4096;
/// Writes of which the mean is taken. Chosen: a second of writes, in which the log passes many tracks.
const WRITES: u64 = 2048;

/// Writes of one block a slot; `None` for hosts of which more than one command waits, drives without a journal, and
/// volatile caches that do not stay on.
pub(super) fn in_a_slot(profile: &Profile, conditions: &Conditions) -> Result<Option<f64>, ProfileError> {
    let Layer::Journaled(keys) = &profile.layer else { return Ok(None) };
    if conditions.queue_depth != 1 || conditions.volatile_cache.fixed() != Some(true) {
        return Ok(None);
    }
    let mut drive = Drive::new(&quiet(profile), 0)?;
    drive.meet(profile, &collecting(conditions), 0);
    let writes = WRITES.min(usable_slots(keys) / 2).max(1);
    let blocks = profile.capacity.get() / BLOCK;
    // Far apart, so that none continues another.
    let addresses: Vec<u64> = spread(blocks, writes).map(|block| block * BLOCK).collect();
    write(&mut drive, &addresses, BLOCK, 1);
    let written = [Medium::Platter, Medium::Flash]
        .map(|medium| drive.counters().account(Purpose::Cache, Direction::Write, medium).sectors);
    let slots = written.iter().sum::<u64>() * 512 / keys.quantum.get();
    Ok(Some(writes as f64 / slots.max(1) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Duration, VolatileCache};
    use crate::random::random_drive;
    use crate::truth::Truth;

    fn one_at_a_time(volatile_cache: VolatileCache, ms: f64) -> Conditions {
        let transport = Duration::from_ns(ms * 1e6);
        Conditions { volatile_cache, queue_depth: 1, transport, ..Conditions::default() }
    }

    #[test]
    fn over_a_slow_link_few_writes_share_a_slot_and_its_map_is_never_full() {
        // A map of 36,960 entries in use and 2,374 slots.
        let profile = random_drive(101_189, None).unwrap().profile;
        let in_a_slot =
            |ms| super::in_a_slot(&profile, &one_at_a_time(VolatileCache::On, ms)).unwrap().unwrap();
        let (quick, slow) = (in_a_slot(0.0), in_a_slot(1.0));
        assert!(1.0 <= slow && 2.0 * slow < quick && quick <= 31.0, "{slow}, {quick}");
        let measurable = |conditions: &Conditions| {
            Truth::under(&profile, conditions).unwrap().finding("cache_map_entries").unwrap().measurable
        };
        assert!(!measurable(&one_at_a_time(VolatileCache::On, 1.0)));
        let deeper = Conditions { queue_depth: 4, ..one_at_a_time(VolatileCache::On, 1.0) };
        assert!(measurable(&deeper), "a read holds the medium meanwhile");
    }

    #[test]
    fn where_a_cache_may_be_off_the_queue_decides() {
        let profile = random_drive(101_189, None).unwrap().profile;
        let off = one_at_a_time(VolatileCache::Off, 1.0);
        assert_eq!(super::in_a_slot(&profile, &off).unwrap(), None);
    }
}
