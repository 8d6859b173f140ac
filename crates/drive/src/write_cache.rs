//! The volatile write cache: writes that were answered and are not on a medium yet.
//!
//! Each write has a stretch of addresses of its own, as if the cache were a log without an end; an exception
//! map from host extents to these finds the newest write of every sector in one look-up, however much is held.
//! It is made when something is first looked up, and forgotten when nothing is held: a host that only writes
//! never pays for it.
//!
//! It is bounded in bytes, and in *runs*: writes that continue each other are one, so that a cache that is full
//! with single blocks still takes a whole band in small pieces.
//!
//! Which write leaves next is asked in two ways, by the heads ([`WriteCache::next_of`]) and by a command that needs the
//! media where something is held ([`WriteCache::first_to_leave`]); both end with [`WriteCache::oldest_below`], which
//! gives none that overlaps an older one. A layer that takes more beside it keeps their order
//! ([`Layer::take`]).
//!
//! Invariants: no more than the capacity is held, or a single write that is larger; no more runs than there is
//! room for; what was answered last for
//! a sector is what a read gets; writes that overlap leave in the order in which they came; a write that
//! leaves is held until it is on the medium.
//! Source: Skylight (FAST'15), section 2 (volatile cache), footnote 2.

use std::collections::VecDeque;

use skylight_disk::{LbaExtent, Pba, Sectors, Time};
use skylight_layer::{Command, CommandId, ExtentMap, HostOp, Layer, MAX_ADDRESS, Plan};

use crate::media::Media;
use crate::planted::{Planted, Plants};
use crate::schedule::{Sweep, Target};

/// See the module page.
pub(crate) struct WriteCache {
    capacity: Sectors,
    on: bool,
    held: Sectors,
    /// The most runs, if there is a limit, and those held.
    most_runs: Option<usize>,
    runs: Runs,
    held_since: Time,
    /// Writes to be destaged, oldest first; those before `first` are gone.
    writes: Vec<Command>,
    /// Beside them: where they begin in the log, and what is known of where they go.
    logged: Vec<Pba>,
    targets: Vec<Target>,
    sweep: Sweep,
    /// Most of them that a choice was among.
    window: usize,
    first: usize,
    next_id: u32,
    /// The newest write of each sector, once one was looked up.
    newest: Option<ExtentMap>,
    /// Where the log goes on.
    end: Pba,
    /// Writes that are on their way to the medium, and when they are there.
    leaving: Vec<CommandId>,
    leaving_at: Time,
    pub(crate) plants: Plants,
}

/// Runs of writes that continue each other, by what is left of each: writes have the numbers in which they came.
#[derive(Clone, Debug, Default)]
struct Runs {
    /// First number and writes left of each run, oldest first.
    left: VecDeque<(u32, u32)>,
    held: usize,
}

impl Runs {
    fn add(&mut self, id: CommandId, continues: bool) {
        match self.left.back_mut() {
            Some((_, left)) if continues => *left += 1,
            _ => {
                self.left.push_back((id.0, 1));
                self.held += 1;
            }
        }
    }

    fn remove(&mut self, id: CommandId) {
        let oldest = self.left.front().map_or(id.0, |&(first, _)| first);
        let into = |number: u32| number.wrapping_sub(oldest);
        let run = self.left.partition_point(|&(first, _)| into(first) <= into(id.0)).saturating_sub(1);
        if let Some((_, left)) = self.left.get_mut(run) {
            *left -= 1;
            self.held -= usize::from(*left == 0);
        }
        while self.left.front().is_some_and(|&(_, left)| left == 0) {
            self.left.pop_front();
        }
        // The newest write that is held is in the last run: what continues it does too.
        while self.left.back().is_some_and(|&(_, left)| left == 0) {
            self.left.pop_back();
        }
    }
}

fn touches(a: LbaExtent, b: LbaExtent) -> bool {
    a.start < b.end() && b.start < a.end()
}

impl WriteCache {
    pub(crate) fn new(capacity: Sectors, most_runs: Option<usize>, on: bool) -> Self {
        Self {
            capacity,
            on: on && capacity.get() > 0,
            held: Sectors(0),
            most_runs,
            runs: Runs::default(),
            held_since: Time(0),
            writes: Vec::new(),
            logged: Vec::new(),
            targets: Vec::new(),
            sweep: Sweep::default(),
            window: 0,
            first: 0,
            next_id: 0,
            newest: None,
            end: Pba(0),
            leaving: Vec::new(),
            leaving_at: Time(0),
            plants: Plants::default(),
        }
    }

    /// Whether writes are answered on arrival.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Switches it, once it is empty. A drive without a cache stays as it is.
    pub(crate) fn switch(&mut self, on: bool) {
        self.on = on && self.capacity.get() > 0;
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.writes.len()
    }

    /// What has to be destaged, oldest first.
    #[inline]
    pub(crate) fn dirty(&self) -> &[Command] {
        &self.writes[self.first..]
    }

    /// The write that leaves next of a number of the oldest: the one that the heads reach first, or one that has
    /// to leave before that.
    pub(crate) fn next_of(&mut self, window: usize, parts: (&dyn Layer, &Media), now: Time) -> usize {
        if window <= 1 {
            return 0;
        }
        self.window = self.window.max(window);
        let range = self.first..self.first + window;
        let choice = (&self.writes[range.clone()], &mut self.targets[range]);
        let nearest = self.sweep.nearest(parts, now, choice, |_| now);
        if self.plants.has(Planted::NearestLeaves) { nearest } else { self.oldest_below(nearest) }
    }

    /// After a plan that changed the map, places may have to be looked up again.
    pub(crate) fn forget_places(&mut self, layer: &dyn Layer, plan: &Plan, trim: bool) {
        // Writes behind the largest window were never looked up.
        let known = (self.first + self.window).min(self.targets.len());
        self.sweep.forget(layer, plan, trim, &mut self.targets[self.first..known]);
    }

    /// After the layer was taken up anew, every place has to be looked up again.
    pub(crate) fn forget_all_places(&mut self) {
        let known = (self.first + self.window).min(self.targets.len());
        self.sweep.forget_all(&mut self.targets[self.first..known]);
    }

    /// Since when it holds something.
    pub(crate) fn held_since(&self) -> Time {
        self.held_since
    }

    /// The number that the next write gets: those below it came before.
    pub(crate) fn next_number(&self) -> u32 {
        self.next_id
    }

    /// How many of the oldest writes came before the one of a number.
    pub(crate) fn older_than(&self, number: u32) -> usize {
        // Numbers go round, and fewer than half of them are held.
        let older = |command: &&Command| (command.id.0.wrapping_sub(number) as i32) < 0;
        self.dirty().iter().take_while(older).count()
    }

    /// Whether a write finds room. One larger than the whole cache does when it is empty.
    #[inline]
    pub(crate) fn has_room(&self, extent: LbaExtent) -> bool {
        let run = self.most_runs.is_none_or(|most| self.runs.held < most || self.continues(extent));
        self.is_empty() || (run && self.held + extent.len <= self.capacity)
    }

    /// Whether a write goes on where the newest one ended.
    fn continues(&self, extent: LbaExtent) -> bool {
        self.dirty().last().is_some_and(|newest| newest.extent.end() == extent.start)
    }

    /// Takes a write that is answered at `at`; gives the number that it has here.
    pub(crate) fn accept(&mut self, extent: LbaExtent, at: Time) -> CommandId {
        if self.is_empty() {
            self.held_since = at;
        }
        let id = CommandId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        self.held += extent.len;
        self.runs.add(id, self.continues(extent));
        // A sector is left out between two writes, so that the map never joins them.
        if (self.end + extent.len).get() >= MAX_ADDRESS.get() {
            self.end = Pba(0);
        }
        if let Some(newest) = &mut self.newest {
            newest.insert(extent, self.end);
        }
        self.writes.push(Command { id, op: HostOp::Write, extent });
        self.logged.push(self.end);
        self.targets.push(self.sweep.admit());
        self.end += extent.len + Sectors(1);
        id
    }

    /// How a read meets what is held: `None` nothing of it, `Some(true)` all of it in the newest write there.
    #[inline]
    pub(crate) fn overlap(&mut self, extent: LbaExtent) -> Option<bool> {
        if self.is_empty() {
            return None;
        }
        let held = self.writes[self.first..].iter().zip(&self.logged[self.first..]);
        let newest = self.newest.get_or_insert_with(|| {
            let mut newest = ExtentMap::new();
            held.for_each(|(command, &logged)| newest.insert(command.extent, logged));
            newest
        });
        let mut pieces = newest.overlapping(extent);
        let first = pieces.next()?;
        let mut end = first.lba.end();
        // A long write takes more than one piece of the map.
        let one_write = first.lba.start == extent.start
            && pieces.all(|piece| {
                let continues = piece.lba.start == end && piece.pba == first.pba + (end - extent.start);
                end = piece.lba.end();
                continues
            });
        Some(one_write && end == extent.end())
    }

    /// The write that leaves first where an extent is to leave the cache, if any of it is held.
    pub(crate) fn first_to_leave(&self, extent: LbaExtent) -> Option<usize> {
        let touching = self.dirty().iter().position(|command| touches(command.extent, extent))?;
        let any = self.plants.has(Planted::LeavesBeforeOlder);
        Some(if any { touching } else { self.oldest_below(touching) })
    }

    /// The write that has to leave before this one, or itself if it overlaps none that came before it. What came
    /// before may itself wait for one that does not touch this one: the chain is followed to its end.
    fn oldest_below(&self, index: usize) -> usize {
        let dirty = self.dirty();
        let mut next = index;
        while let Some(older) = (0..next).find(|&k| touches(dirty[k].extent, dirty[next].extent)) {
            next = older;
        }
        next
    }

    /// Writes that will be on a medium at `at`.
    pub(crate) fn leave(&mut self, ids: impl Iterator<Item = CommandId>, at: Time) {
        self.leaving.extend(ids);
        self.leaving_at = at;
    }

    /// When the writes that are on their way will be on the medium.
    #[inline]
    pub(crate) fn leaving_at(&self) -> Option<Time> {
        (!self.leaving.is_empty()).then_some(self.leaving_at)
    }

    /// Those writes are on the medium; they are handed to `gone`. They lie near the front, so little moves.
    pub(crate) fn settle(&mut self, mut gone: impl FnMut(LbaExtent)) {
        let leaving = std::mem::take(&mut self.leaving);
        for &id in &leaving {
            let Some(index) = self.dirty().iter().position(|command| command.id == id) else {
                debug_assert!(false, "a layer answers what it was given");
                continue;
            };
            let (at, first) = (self.first + index, self.first);
            let (extent, logged) = (self.writes[at].extent, self.logged[at]);
            self.held = self.held - extent.len;
            self.runs.remove(id);
            self.forget_newest(extent, logged);
            self.sweep.remove(self.targets[at]);
            self.writes.copy_within(first..at, first + 1);
            self.logged.copy_within(first..at, first + 1);
            self.targets.copy_within(first..at, first + 1);
            self.first += 1;
            gone(extent);
        }
        self.leaving = leaving;
        self.leaving.clear();
        if self.is_empty() {
            self.newest = None;
        }
        if self.first * 2 > self.writes.len() {
            self.writes.drain(..self.first);
            self.logged.drain(..self.first);
            self.targets.drain(..self.first);
            self.first = 0;
        }
    }

    /// Takes what is still the newest of a write out of the map.
    fn forget_newest(&mut self, extent: LbaExtent, logged: Pba) {
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

    /// Forgets everything: an erase.
    pub(crate) fn clear(&mut self) {
        let (capacity, most_runs, on, next_id) = (self.capacity, self.most_runs, self.on, self.next_id);
        *self = Self { next_id, ..Self::new(capacity, most_runs, on) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skylight_disk::Lba;

    fn block(number: u64) -> LbaExtent {
        LbaExtent::new(Lba(number * 8), Sectors(8))
    }

    fn cache(most_runs: usize) -> WriteCache {
        WriteCache::new(Sectors(1 << 20), Some(most_runs), true)
    }

    #[test]
    fn single_blocks_are_a_run_each_and_a_stream_is_one() {
        let mut cache = cache(3);
        for number in [10, 20, 30] {
            assert!(cache.has_room(block(number)));
            cache.accept(block(number), Time(0));
        }
        assert!(!cache.has_room(block(40)));
        for number in 31..1_000 {
            assert!(cache.has_room(block(number)), "it continues the newest");
            cache.accept(block(number), Time(0));
        }
        assert!(!cache.has_room(block(11)), "it continues one that is not the newest");
    }

    #[test]
    fn what_continues_an_older_run_once_the_newest_has_left_is_one_with_it() {
        let mut cache = cache(2);
        for number in [10, 20] {
            cache.accept(block(number), Time(0));
        }
        let newest = cache.dirty()[1].id;
        cache.leave(std::iter::once(newest), Time(0));
        cache.settle(|_| {});
        cache.accept(block(11), Time(0));
        assert_eq!((cache.runs.held, cache.runs.left.len()), (1, 1));
        let held: Vec<CommandId> = cache.dirty().iter().map(|command| command.id).collect();
        cache.leave(held.into_iter(), Time(0));
        cache.settle(|_| {});
        assert_eq!((cache.runs.held, cache.runs.left.len()), (0, 0));
    }

    #[test]
    fn a_run_gives_its_room_back_with_its_last_write() {
        let mut cache = cache(2);
        // Numbers of writes go round.
        cache.next_id = u32::MAX - 1;
        for number in [10, 11, 12, 20] {
            cache.accept(block(number), Time(0));
        }
        let held: Vec<CommandId> = cache.dirty().iter().map(|command| command.id).collect();
        for (gone, room) in [(1, false), (0, false), (2, true), (3, true)] {
            cache.leave(std::iter::once(held[gone]), Time(0));
            cache.settle(|_| {});
            assert_eq!(cache.has_room(block(30)), room, "after {gone}");
        }
        assert_eq!((cache.runs.held, cache.runs.left.len()), (0, 0));
    }
}
