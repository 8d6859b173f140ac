//! The data of the volatile write cache: its writes, and an extent map of the newest data of every cached
//! sector.
//!
//! A write is inserted when the drive's cache accepts it, and removed when its data is on the media. A
//! look-up costs the logarithm of the number of mapped extents plus the extents that it overlaps, however
//! many writes are cached: 128 MiB of 4 KiB writes are 32,768 of them.
//!
//! Invariants: mapped extents do not overlap; each lies within its write, which is cached, and is the newest
//! data of its sectors. A write keeps all of its own data even where newer writes cover it, because that is
//! what is destaged. The drive destages overlapping writes oldest first (`drive/write_cache.rs`), so a
//! removed write covers no older one.

use std::collections::{BTreeMap, HashMap};

use skylight_disk::{Lba, LbaExtent};
use skylight_image::HostWrite;
use skylight_layer::CommandId;

use crate::core::planted_bugs::{Planted, Plants};

/// A cached write.
struct CachedWrite {
    id: CommandId,
    extent: LbaExtent,
    data: Vec<u8>,
}

/// A mapped extent: sectors whose newest data is that of one write. Its start is the key of the map.
#[derive(Clone, Copy)]
struct MappedExtent {
    end: Lba,
    /// Age of the write.
    write: u64,
}

/// See the module page.
#[derive(Default)]
pub(super) struct VolatileData {
    /// Cached writes by age, oldest first.
    writes: BTreeMap<u64, CachedWrite>,
    /// The age of each write, by the ID that the drive uses.
    ages: HashMap<CommandId, u64>,
    map: BTreeMap<Lba, MappedExtent>,
    next_age: u64,
    bytes: u64,
    pub(super) plants: Plants,
}

impl VolatileData {
    /// The number of cached writes.
    pub(super) fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether no write is cached.
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Size of the cached writes, bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Inserts a write that is newer than all others.
    pub(super) fn insert(&mut self, id: CommandId, extent: LbaExtent, data: Vec<u8>) {
        let age = self.next_age;
        self.next_age += 1;
        if self.plants.has(Planted::OldestOnTop) {
            for part in self.uncovered(extent) {
                self.map.insert(part.start, MappedExtent { end: part.end(), write: age });
            }
        } else if !extent.is_empty() {
            self.clear(extent.start, extent.end());
            self.map.insert(extent.start, MappedExtent { end: extent.end(), write: age });
        }
        self.bytes += data.len() as u64;
        self.ages.insert(id, age);
        self.writes.insert(age, CachedWrite { id, extent, data });
    }

    /// Removes sectors from the map.
    fn clear(&mut self, start: Lba, end: Lba) {
        let mut tail = None;
        if let Some((_, mapped)) = self.map.range_mut(..start).next_back()
            && mapped.end > start
        {
            tail = (mapped.end > end).then_some(*mapped);
            mapped.end = start;
        }
        while let Some((&from, &mapped)) = self.map.range(start..end).next() {
            self.map.remove(&from);
            tail = (mapped.end > end).then_some(mapped);
        }
        if let Some(mapped) = tail {
            self.map.insert(end, mapped);
        }
    }

    /// The mapped extents that overlap an extent, in order.
    fn overlapping(&self, extent: LbaExtent) -> impl Iterator<Item = (Lba, MappedExtent)> {
        let (start, end) = (extent.start, extent.end());
        let before = self.map.range(..start).next_back().filter(|(_, mapped)| mapped.end > start);
        before.into_iter().chain(self.map.range(start..end)).map(|(&from, &mapped)| (from, mapped))
    }

    /// Copies the newest cached data over the data of the media.
    pub(super) fn overlay(&self, extent: LbaExtent, buffer: &mut [u8]) {
        for (from, mapped) in self.overlapping(extent) {
            let Some(write) = self.writes.get(&mapped.write) else { continue };
            let (start, end) = (extent.start.max(from), extent.end().min(mapped.end));
            let len = (end - start).bytes() as usize;
            let to = (start - extent.start).bytes() as usize;
            let source = (start - write.extent.start).bytes() as usize;
            buffer[to..to + len].copy_from_slice(&write.data[source..source + len]);
        }
    }

    /// The parts of an extent that no write covers.
    pub(super) fn uncovered(&self, extent: LbaExtent) -> Vec<LbaExtent> {
        let (mut parts, mut at) = (Vec::new(), extent.start);
        for (from, mapped) in self.overlapping(extent) {
            if from > at {
                parts.push(LbaExtent::new(at, from - at));
            }
            at = mapped.end;
        }
        if at < extent.end() {
            parts.push(LbaExtent::new(at, extent.end() - at));
        }
        parts
    }

    /// The writes with these IDs that are cached, oldest first, with all of their own data.
    pub(super) fn writes(&self, ids: &[CommandId]) -> Vec<HostWrite<'_>> {
        let mut ages: Vec<u64> = ids.iter().filter_map(|id| self.ages.get(id).copied()).collect();
        ages.sort_unstable();
        let writes = ages.iter().filter_map(|age| self.writes.get(age));
        writes.map(|write| HostWrite { id: write.id, extent: write.extent, data: &write.data }).collect()
    }

    /// Removes writes whose data is on the media.
    pub(super) fn remove(&mut self, ids: &[CommandId]) {
        for id in ids {
            let Some(age) = self.ages.remove(id) else { continue };
            let Some(write) = self.writes.remove(&age) else { continue };
            self.bytes -= write.data.len() as u64;
            let (mut at, end) = (write.extent.start, write.extent.end());
            // The last mapped extent may belong to another write and extend beyond this one.
            while at < end
                && let Some((&from, &mapped)) = self.map.range(at..end).next()
            {
                if mapped.write == age {
                    self.map.remove(&from);
                }
                at = mapped.end;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use skylight_disk::{SECTOR_BYTES, Sectors};

    use super::*;

    const DISK_SECTORS: u64 = 64;
    /// The data on the media.
    const MEDIA: u8 = 0xff;

    fn extent(start: u64, len: u64) -> LbaExtent {
        LbaExtent::new(Lba(start), Sectors(len))
    }

    /// A reference model: a list that is searched from the oldest write to the newest.
    #[derive(Default)]
    struct Scan(Vec<(CommandId, LbaExtent, Vec<u8>)>);

    impl Scan {
        fn overlay(&self, wanted: LbaExtent, buffer: &mut [u8]) {
            for (_, extent, data) in &self.0 {
                for lba in extent.start.get()..extent.end().get() {
                    if (wanted.start.get()..wanted.end().get()).contains(&lba) {
                        let sector = |base: Lba| ((lba - base.get()) * SECTOR_BYTES) as usize;
                        let (to, from) = (sector(wanted.start), sector(extent.start));
                        let len = SECTOR_BYTES as usize;
                        buffer[to..to + len].copy_from_slice(&data[from..from + len]);
                    }
                }
            }
        }

        /// A write that no older one overlaps, selected by a number.
        fn may_leave(&self, number: usize) -> Option<CommandId> {
            let free =
                |index: usize| self.0[..index].iter().all(|(_, older, _)| !older.overlaps(self.0[index].1));
            let free: Vec<_> = (0..self.0.len()).filter(|&index| free(index)).collect();
            free.get(number.checked_rem(free.len())?).map(|&index| self.0[index].0)
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, u64),
        Leave(Vec<usize>),
        Read(u64, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let place = (0..DISK_SECTORS, 1..16u64);
        let place = place.prop_map(|(start, len)| (start, len.min(DISK_SECTORS - start)));
        prop_oneof![
            4 => place.clone().prop_map(|(start, len)| Step::Write(start, len)),
            2 => prop::collection::vec(any::<usize>(), 1..5).prop_map(Step::Leave),
            3 => place.prop_map(|(start, len)| Step::Read(start, len)),
        ]
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_linear_search(steps in prop::collection::vec(step(), 1..120)) {
            let (mut cache, mut scan) = (VolatileData::default(), Scan::default());
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Write(start, len) => {
                        let (id, extent) = (CommandId(number as u32), extent(start, len));
                        let data = vec![number as u8; extent.len.bytes() as usize];
                        cache.insert(id, extent, data.clone());
                        scan.0.push((id, extent, data));
                    }
                    Step::Leave(which) => {
                        let mut ids = Vec::new();
                        for number in which {
                            if let Some(id) = scan.may_leave(number) {
                                let index = scan.0.iter().position(|(held, ..)| *held == id).expect("held");
                                let (_, extent, data) = scan.0.remove(index);
                                let own = cache.writes(&[id]);
                                prop_assert_eq!((own[0].extent, own[0].data), (extent, &data[..]));
                                ids.push(id);
                            }
                        }
                        cache.remove(&ids);
                    }
                    Step::Read(start, len) => {
                        let extent = extent(start, len);
                        let mut expected = vec![MEDIA; extent.len.bytes() as usize];
                        let mut found = expected.clone();
                        scan.overlay(extent, &mut expected);
                        cache.overlay(extent, &mut found);
                        prop_assert_eq!(&found, &expected);
                        let bare: Vec<u64> = (start..start + len)
                            .filter(|&lba| !scan.0.iter().any(|(_, held, _)| held.overlaps(self::extent(lba, 1))))
                            .collect();
                        let parts = cache.uncovered(extent);
                        let uncovered: Vec<u64> =
                            parts.iter().flat_map(|part| part.start.get()..part.end().get()).collect();
                        prop_assert_eq!(uncovered, bare);
                    }
                }
                prop_assert_eq!(cache.len(), scan.0.len());
                prop_assert_eq!(cache.is_empty(), scan.0.is_empty());
                prop_assert_eq!(cache.bytes(), scan.0.iter().map(|(.., data)| data.len() as u64).sum::<u64>());
                prop_assert!(cache.map.len() <= 2 * scan.0.len());
            }
        }
    }

    #[test]
    fn removing_a_write_keeps_a_newer_one_that_extends_beyond_it() {
        let mut cache = VolatileData::default();
        cache.insert(CommandId(0), extent(0, 4), vec![1; 2048]);
        cache.insert(CommandId(1), extent(2, 6), vec![2; 3072]);
        assert_eq!(
            cache.writes(&[CommandId(0)])[0].data,
            [1; 2048],
            "its own bytes, also those that are covered"
        );
        cache.remove(&[CommandId(0)]);
        assert_eq!((cache.uncovered(extent(0, 8)), cache.bytes()), (vec![extent(0, 2)], 3072));
    }

    #[test]
    fn the_planted_fault_has_an_effect() {
        let plants = Some(Planted::OldestOnTop).into();
        let mut cache = VolatileData { plants, ..VolatileData::default() };
        cache.insert(CommandId(0), extent(0, 2), vec![1; 1024]);
        cache.insert(CommandId(1), extent(1, 2), vec![2; 1024]);
        let mut found = vec![0; 1536];
        cache.overlay(extent(0, 3), &mut found);
        assert_eq!((found[512], found[1024]), (1, 2));
    }
}
