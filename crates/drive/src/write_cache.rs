//! The volatile write cache: completed writes that are not on a medium yet.
//!
//! Each write has its own address range, as if the cache were an endless log. An extent map from host extents
//! to these ranges finds the newest write of every sector in one look-up, regardless of the number of cached
//! writes. The map is built on the first look-up and dropped when the cache is empty, so that a host that
//! only writes never pays for it.
//!
//! The cache is limited in bytes and in *runs*. Writes that continue each other form one run, so that a cache
//! full of single blocks still accepts a whole band in small pieces. On a drive with zones, each zone has a run that its
//! writes may continue, so that a host may write to many zones in turns.
//!
//! The next write to destage is chosen by head position ([`WriteCache::next_to_destage`]) or by a command
//! that needs the media where a write is cached ([`WriteCache::first_to_destage`]). Both apply
//! [`WriteCache::oldest_overlapping`], so that no write leaves before an older one that it overlaps. A layer
//! that takes further writes along keeps their order ([`Layer::take`]). On a drive with zones this holds for all writes to
//! a zone with a write pointer, overlapping or not: the medium has no more of a zone than up to a write pointer.
//!
//! Invariants: the cache contains at most its capacity, or a single larger write, and at most the maximum
//! number of runs; a read gets the data of the last completed write; overlapping writes leave in the order of
//! acceptance; a write stays in the cache until it is on the medium.
//! Source: Skylight (FAST'15), section 2 (volatile cache), footnote 2.

use std::collections::VecDeque;
use std::ops::Range;

use skylight_command::{Command, CommandId, Op};
use skylight_disk::{Lba, LbaExtent, Pba, Sectors, Time};
use skylight_layer::{ExtentMap, Layer, MAX_ADDRESS, Plan, ZoneLayout};

use crate::cached_writes_by_zone::{Writes, ZoneWrites};
use crate::media_timing::Media;
use crate::owed_cleaning::OwedCleaning;
use crate::planted_bugs::{Planted, Plants};
use crate::schedule::{SptfQueue, Target};

/// See the module documentation.
///
/// More than 15 fields: the columns of the log and the clocks of the cache, which the event loop reads
/// together.
pub(crate) struct WriteCache {
    capacity: Sectors,
    on: bool,
    buffered: Sectors,
    /// The maximum number of runs, if limited, and the current runs.
    most_runs: Option<usize>,
    runs: Runs,
    nonempty_since: Time,
    /// Writes to be destaged, oldest first; the entries before `first` have left.
    writes: Vec<Command>,
    /// Parallel columns: their positions in the log, their runs, and their targets in the SPTF queue.
    logged: Vec<Pba>,
    run_of: Vec<u32>,
    targets: Vec<Target>,
    sptf: SptfQueue,
    /// The largest number of writes among which a choice was made.
    window: usize,
    first: usize,
    next_id: u32,
    /// The newest write of each sector, built on the first look-up.
    newest: Option<ExtentMap>,
    /// The end of the log.
    end: Pba,
    /// Writes being destaged, and when they will be on the medium.
    destaging: Vec<CommandId>,
    destaged_at: Time,
    /// Scratch space: where those that have left were.
    gone: Vec<usize>,
    /// The zones of the drive: writes to one zone leave in order.
    zones: Option<ZoneWrites>,
    /// What has to be cleaned for the cached writes, where the persistent cache has parts.
    owed: Option<OwedCleaning>,
    pub(crate) plants: Plants<Planted>,
}

/// Runs of contiguous writes, with the number of writes left in each. Runs are numbered in the order in which they began.
#[derive(Clone, Debug, Default)]
struct Runs {
    /// Writes left of each run, oldest first, from the run with the number `first` on.
    left: VecDeque<u32>,
    first: u32,
    count: usize,
}

impl Runs {
    /// Adds a write to the run that it continues, of which some writes are left, or begins one; returns its number.
    fn take(&mut self, continued: Option<u32>) -> u32 {
        if let Some(run) = continued {
            if let Some(left) = self.left.get_mut(run.wrapping_sub(self.first) as usize) {
                *left += 1;
            }
            return run;
        }
        self.left.push_back(1);
        self.count += 1;
        self.first.wrapping_add(self.left.len() as u32 - 1)
    }

    /// Removes a write of a run.
    fn remove(&mut self, run: u32) {
        if let Some(left) = self.left.get_mut(run.wrapping_sub(self.first) as usize) {
            *left -= 1;
            self.count -= usize::from(*left == 0);
        }
        while self.left.front() == Some(&0) {
            self.left.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        // No cached write is of the runs that are dropped here, so their numbers are free again.
        while self.left.back() == Some(&0) {
            self.left.pop_back();
        }
    }
}

impl WriteCache {
    pub(crate) fn new(
        capacity: Sectors,
        most_runs: Option<usize>,
        on: bool,
        zones: Option<ZoneLayout>,
    ) -> Self {
        Self {
            capacity,
            on: on && capacity.get() > 0,
            buffered: Sectors(0),
            most_runs,
            runs: Runs::default(),
            nonempty_since: Time(0),
            writes: Vec::new(),
            logged: Vec::new(),
            run_of: Vec::new(),
            targets: Vec::new(),
            sptf: SptfQueue::of_admitted_writes(),
            window: 0,
            first: 0,
            next_id: 0,
            newest: None,
            end: Pba(0),
            destaging: Vec::new(),
            destaged_at: Time(0),
            gone: Vec::new(),
            zones: zones.map(ZoneWrites::new),
            owed: None,
            plants: Plants::default(),
        }
    }

    /// Takes no more writes once some wait for a part of the persistent cache to be cleaned.
    pub(crate) fn with_owed_cleaning(self, owed: Option<OwedCleaning>) -> Self {
        Self { owed, ..self }
    }

    /// Whether a write that is to be admitted will take room in the persistent cache, where that is asked.
    #[inline]
    pub(crate) fn takes_room(&self, extent: LbaExtent, layer: &dyn Layer) -> bool {
        self.owed.is_some() && layer.takes_room(extent)
    }

    /// Notes that a write was accepted, which takes room or does not ([`WriteCache::takes_room`]).
    #[inline]
    pub(crate) fn note_accepted(&mut self, extent: LbaExtent, takes_room: bool, layer: &dyn Layer) {
        if let Some(owed) = &mut self.owed {
            owed.accepted(extent, takes_room, layer);
        }
    }

    /// Notes that a write has left.
    #[inline]
    pub(crate) fn note_destaged(&mut self, extent: LbaExtent, layer: &dyn Layer) {
        if let Some(owed) = &mut self.owed {
            owed.destaged(extent, layer);
        }
    }

    /// Whether writes complete on arrival.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Switches the cache, which must be empty. A drive without a cache stays off.
    pub(crate) fn switch(&mut self, on: bool) {
        self.on = on && self.capacity.get() > 0;
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.writes.len()
    }

    /// Writes to be destaged, oldest first.
    #[inline]
    pub(crate) fn dirty(&self) -> &[Command] {
        &self.writes[self.first..]
    }

    /// Index of the write to destage next, among these in the order of acceptance: the one that the heads reach first,
    /// or an older one that it overlaps.
    pub(crate) fn next_to_destage(
        &mut self,
        among: Range<usize>,
        parts: (&dyn Layer, &Media),
        now: Time,
    ) -> usize {
        if among.len() <= 1 {
            return self.oldest_overlapping(among.start);
        }
        self.window = self.window.max(among.end);
        let range = self.first + among.start..self.first + among.end;
        let choice = (&self.writes[range.clone()], &mut self.targets[range]);
        let nearest = among.start + self.sptf.nearest(parts, now, choice, |_| now);
        if self.plants.has(Planted::NearestLeaves) { nearest } else { self.oldest_overlapping(nearest) }
    }

    /// Invalidates the locations that a plan may have changed.
    pub(crate) fn invalidate_locations(&mut self, layer: &dyn Layer, plan: &Plan, trim: bool) {
        // Writes beyond the largest window were never located.
        let located = (self.first + self.window).min(self.targets.len());
        self.sptf.invalidate(layer, plan, trim, &mut self.targets[self.first..located]);
    }

    /// Invalidates all locations, after the layer was restored.
    pub(crate) fn invalidate_all_locations(&mut self) {
        let located = (self.first + self.window).min(self.targets.len());
        self.sptf.invalidate_all(&mut self.targets[self.first..located]);
    }

    /// Since when the cache has not been empty.
    pub(crate) fn nonempty_since(&self) -> Time {
        self.nonempty_since
    }

    /// The number of the next write: lower numbers were accepted before.
    pub(crate) fn next_number(&self) -> u32 {
        self.next_id
    }

    /// How many cached writes have a lower number than `number`.
    pub(crate) fn older_than(&self, number: u32) -> usize {
        // Numbers wrap around, and fewer than half of them are in use.
        let older = |command: &&Command| (command.id.0.wrapping_sub(number) as i32) < 0;
        self.dirty().iter().take_while(older).count()
    }

    /// Whether there is space for a write. A write larger than the whole cache fits when it is empty.
    #[inline]
    pub(crate) fn has_space(&self, extent: LbaExtent) -> bool {
        let run_fits =
            self.most_runs.is_none_or(|most| self.runs.count < most || self.continued_run(extent).is_some());
        let owing = self.owed.as_ref().is_some_and(OwedCleaning::is_owing);
        self.is_empty() || (run_fits && !owing && self.buffered + extent.len <= self.capacity)
    }

    /// The run of the newest write, or of the newest one of its zone, if a write continues that.
    #[inline]
    fn continued_run(&self, extent: LbaExtent) -> Option<u32> {
        self.run_of_newest(extent).or_else(|| self.zones.as_ref()?.continued_run(extent))
    }

    /// The run of the newest write, if a write continues that.
    #[inline]
    fn run_of_newest(&self, extent: LbaExtent) -> Option<u32> {
        let newest = self.dirty().last().filter(|newest| newest.extent.end() == extent.start);
        newest.and_then(|_| self.run_of.last().copied())
    }

    /// Accepts a write that completes at `at`; returns its number in the cache.
    pub(crate) fn accept(&mut self, extent: LbaExtent, at: Time) -> CommandId {
        if self.is_empty() {
            self.nonempty_since = at;
        }
        let id = CommandId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        self.buffered += extent.len;
        let write = Command::new(id, Op::Write, extent);
        let continued = self.run_of_newest(extent);
        let run = match &mut self.zones {
            Some(zones) => zones.accept(write, |in_zone| self.runs.take(continued.or(in_zone))),
            None => self.runs.take(continued),
        };
        // A gap of one sector keeps the map from merging adjacent writes.
        if (self.end + extent.len).get() >= MAX_ADDRESS.get() {
            self.end = Pba(0);
        }
        if let Some(newest) = &mut self.newest {
            newest.insert(extent, self.end);
        }
        self.writes.push(write);
        self.logged.push(self.end);
        self.run_of.push(run);
        self.targets.push(self.sptf.admit());
        self.end += extent.len + Sectors(1);
        id
    }

    /// How much of a read is cached: `None` for nothing, `Some(true)` for all of it in one write.
    #[inline]
    pub(crate) fn overlap(&mut self, extent: LbaExtent) -> Option<bool> {
        if self.is_empty() {
            return None;
        }
        let cached = self.writes[self.first..].iter().zip(&self.logged[self.first..]);
        let newest = self.newest.get_or_insert_with(|| {
            let mut newest = ExtentMap::new();
            cached.for_each(|(command, &logged)| newest.insert(command.extent, logged));
            newest
        });
        let mut pieces = newest.overlapping(extent);
        let first = pieces.next()?;
        let mut end = first.lba.end();
        // A long write may occupy several entries of the map.
        let one_write = first.lba.start == extent.start
            && pieces.all(|piece| {
                let continues = piece.lba.start == end && piece.pba == first.pba + (end - extent.start);
                end = piece.lba.end();
                continues
            });
        Some(one_write && end == extent.end())
    }

    /// The oldest write that begins in each zone, in no order.
    pub(crate) fn oldest_of_each_zone(&self) -> impl Iterator<Item = (u32, Command)> {
        self.zones.as_ref().into_iter().flat_map(ZoneWrites::oldest_of_each)
    }

    /// The oldest write that begins in a zone.
    pub(crate) fn oldest_in_zone(&self, zone: u32) -> Option<Command> {
        self.zones.as_ref()?.oldest_in(zone)
    }

    /// How much younger a cached write is than the oldest one.
    #[inline]
    pub(crate) fn age_of(&self, id: CommandId) -> u32 {
        // Numbers wrap around.
        id.0.wrapping_sub(self.dirty().first().map_or(id.0, |oldest| oldest.id.0))
    }

    /// Index of a cached write.
    pub(crate) fn index_of(&self, id: CommandId) -> usize {
        self.index_from(self.first, id) - self.first
    }

    /// Index of the write to destage first, if an extent is to leave the cache and any of it is cached.
    pub(crate) fn first_to_destage(&self, extent: LbaExtent) -> Option<usize> {
        let touching = self.dirty().iter().position(|command| command.extent.overlaps(extent))?;
        let any = self.plants.has(Planted::LeavesBeforeOlder);
        Some(if any { touching } else { self.oldest_overlapping(touching) })
    }

    /// Whether the cache knows the writes of each zone, as on a drive that has zones.
    pub(crate) fn knows_zones(&self) -> bool {
        self.zones.is_some()
    }

    /// Index of the write that must leave before this one, or of this one if it overlaps no older write. An
    /// older write may itself overlap an even older one, so the chain is followed to its end.
    pub(crate) fn oldest_overlapping(&self, index: usize) -> usize {
        let dirty = self.dirty();
        let mut next = index;
        while let Some(older) = match &self.zones {
            None => (0..next).find(|&k| dirty[k].extent.overlaps(dirty[next].extent)),
            Some(zones) => zones.oldest_before(dirty[next]).map(|id| self.index_of(id)),
        } {
            next = older;
        }
        next
    }

    /// Prefetches what is known of the zone of a sector, in which a write is accepted soon.
    #[inline]
    pub(crate) fn hint(&mut self, address: Lba) {
        if let Some(zones) = &mut self.zones {
            zones.prefetch(address);
        }
    }

    /// As [`WriteCache::hint`] for the cached write at an index, which leaves soon. Returns where it begins, on a drive with
    /// zones.
    #[inline]
    pub(crate) fn hint_leaving(&mut self, index: usize) -> Option<Lba> {
        let zones = self.zones.as_mut()?;
        let start = self.writes.get(self.first + index)?.extent.start;
        zones.prefetch(start);
        Some(start)
    }

    /// The writes to the zone in which the write at index `next` begins, oldest first; none on a drive without zones.
    pub(crate) fn of_zone_of(&self, next: usize) -> impl Iterator<Item = Command> {
        let start = self.dirty()[next].extent.start;
        self.zones.as_ref().map_or(Writes::NONE, |zones| zones.of_zone(start))
    }

    /// Marks writes that will be on a medium at `at`.
    pub(crate) fn begin_destaging(&mut self, ids: impl Iterator<Item = CommandId>, at: Time) {
        self.destaging.extend(ids);
        self.destaged_at = at;
    }

    /// When the writes being destaged will be on the medium.
    #[inline]
    pub(crate) fn destaged_at(&self) -> Option<Time> {
        (!self.destaging.is_empty()).then_some(self.destaged_at)
    }

    /// Removes the destaged writes and reports their extents to `removed`.
    pub(crate) fn finish_destaging(&mut self, mut removed: impl FnMut(LbaExtent)) {
        let destaging = std::mem::take(&mut self.destaging);
        let mut gone = std::mem::take(&mut self.gone);
        let mut at = self.first;
        for &id in &destaging {
            at = self.index_from(at, id);
            if self.writes.get(at).is_none_or(|write| write.id != id) {
                debug_assert!(false, "a layer completes only writes that it was given");
                continue;
            };
            let (write, logged) = (self.writes[at], self.logged[at]);
            let extent = write.extent;
            self.buffered = self.buffered - extent.len;
            let run = self.run_of[at];
            self.runs.remove(run);
            if let Some(zones) = &mut self.zones {
                zones.remove(write, run);
            }
            self.remove_newest(extent, logged);
            self.sptf.remove(self.targets[at]);
            gone.push(at);
            removed(extent);
        }
        self.close_gaps(&mut gone);
        gone.clear();
        self.gone = gone;
        self.destaging = destaging;
        self.destaging.clear();
        if self.is_empty() {
            self.newest = None;
        }
        if self.first * 2 > self.writes.len() {
            self.writes.drain(..self.first);
            self.logged.drain(..self.first);
            self.run_of.drain(..self.first);
            self.targets.drain(..self.first);
            self.first = 0;
        }
    }

    /// Index in the columns of the cached write with a number, or of the next newer one: a guess that is near it speeds
    /// the search. Numbers rise with the index.
    #[inline]
    fn index_from(&self, guess: usize, id: CommandId) -> usize {
        let age = self.age_of(id);
        let is_older = |write: &Command| self.age_of(write.id) < age;
        let mut from = if self.writes.get(guess).is_some_and(is_older) { guess } else { self.first };
        let (mut to, mut step) = (from, 1);
        while self.writes.get(to).is_some_and(is_older) {
            from = to + 1;
            to = from + step;
            step *= 2;
        }
        from + self.writes[from..to.min(self.writes.len())].partition_point(is_older)
    }

    /// Closes the gaps of writes that have left, at these indices in the columns, by moving what is older. Destaged writes
    /// are near the front or one in many of the log, so all move in one pass.
    #[inline]
    fn close_gaps(&mut self, gone: &mut [usize]) {
        gone.sort_unstable();
        let mut to = gone.last().map_or(self.first, |last| last + 1);
        for index in (0..gone.len()).rev() {
            let begin = if index == 0 { self.first } else { gone[index - 1] + 1 };
            let kept = begin..gone[index];
            to -= kept.len();
            if !kept.is_empty() {
                self.writes.copy_within(kept.clone(), to);
                self.logged.copy_within(kept.clone(), to);
                self.run_of.copy_within(kept.clone(), to);
                self.targets.copy_within(kept, to);
            }
        }
        self.first = to;
    }

    /// Removes from the map the sectors of which this write is still the newest.
    fn remove_newest(&mut self, extent: LbaExtent, logged: Pba) {
        let Some(newest) = &mut self.newest else {
            return;
        };
        let end = logged + extent.len;
        let mut rest = extent;
        loop {
            let own = newest.overlapping(rest).find(|piece| logged <= piece.pba && piece.pba < end);
            let Some(own) = own else {
                return;
            };
            newest.remove(own.lba);
            rest = LbaExtent::new(own.lba.end(), extent.end() - own.lba.end());
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Discards everything, for an erase.
    pub(crate) fn clear(&mut self) {
        let (capacity, most_runs, on, next_id) = (self.capacity, self.most_runs, self.on, self.next_id);
        let zones = self.zones.as_ref().map(|zones| *zones.layout());
        let owed = self.owed.as_ref().map(|_| OwedCleaning::default());
        *self = Self { next_id, owed, ..Self::new(capacity, most_runs, on, zones) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skylight_disk::Lba;
    use skylight_layer::ZoneModel;

    fn block(number: u64) -> LbaExtent {
        LbaExtent::new(Lba(number * 8), Sectors(8))
    }

    fn cache(most_runs: usize) -> WriteCache {
        WriteCache::new(Sectors(1 << 20), Some(most_runs), true, None)
    }

    #[test]
    fn single_blocks_are_a_run_each_and_a_stream_is_one() {
        let mut cache = cache(3);
        for number in [10, 20, 30] {
            assert!(cache.has_space(block(number)));
            cache.accept(block(number), Time(0));
        }
        assert!(!cache.has_space(block(40)));
        for number in 31..1_000 {
            assert!(cache.has_space(block(number)), "continues the newest");
            cache.accept(block(number), Time(0));
        }
        assert!(!cache.has_space(block(11)), "continues an older one");
    }

    #[test]
    fn a_zone_has_a_run_that_its_writes_continue_in_turns_with_others_until_they_have_left() {
        let zones = ZoneLayout::new(ZoneModel::HostAware, Sectors(800), Sectors(80));
        let mut cache = WriteCache::new(Sectors(1 << 20), Some(2), true, Some(zones));
        for number in [10, 20, 11, 21, 12] {
            assert!(cache.has_space(block(number)), "{number}");
            cache.accept(block(number), Time(0));
        }
        assert_eq!(cache.runs.count, 2);
        assert!(!cache.has_space(block(15)) && !cache.has_space(block(30)), "continue nothing");
        let of_first: Vec<CommandId> =
            cache.dirty().iter().filter(|w| w.extent.start < Lba(160)).map(|w| w.id).collect();
        cache.begin_destaging(of_first.into_iter(), Time(0));
        cache.finish_destaging(|_| {});
        assert_eq!(cache.runs.count, 1);
        cache.accept(block(13), Time(0));
        assert_eq!(cache.runs.count, 2, "what it would continue has left");
    }

    #[test]
    fn a_write_that_continues_an_older_run_joins_it_after_the_newest_has_left() {
        let mut cache = cache(2);
        for number in [10, 20] {
            cache.accept(block(number), Time(0));
        }
        let newest = cache.dirty()[1].id;
        cache.begin_destaging(std::iter::once(newest), Time(0));
        cache.finish_destaging(|_| {});
        cache.accept(block(11), Time(0));
        assert_eq!((cache.runs.count, cache.runs.left.len()), (1, 1));
        let accepted: Vec<CommandId> = cache.dirty().iter().map(|command| command.id).collect();
        cache.begin_destaging(accepted.into_iter(), Time(0));
        cache.finish_destaging(|_| {});
        assert_eq!((cache.runs.count, cache.runs.left.len()), (0, 0));
    }

    #[test]
    fn a_run_frees_its_space_with_its_last_write() {
        let mut cache = cache(2);
        // Write numbers wrap around.
        cache.next_id = u32::MAX - 1;
        for number in [10, 11, 12, 20] {
            cache.accept(block(number), Time(0));
        }
        let accepted: Vec<CommandId> = cache.dirty().iter().map(|command| command.id).collect();
        for (left, has_space) in [(1, false), (0, false), (2, true), (3, true)] {
            cache.begin_destaging(std::iter::once(accepted[left]), Time(0));
            cache.finish_destaging(|_| {});
            assert_eq!(cache.has_space(block(30)), has_space, "after {left}");
        }
        assert_eq!((cache.runs.count, cache.runs.left.len()), (0, 0));
    }
}
