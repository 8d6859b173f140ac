//! Extents by address, each with a value: the data structure of both maps of the disk.
//!
//! A write changes a few extents close to each other: it cuts, replaces and merges them. So extents are stored adjacent in
//! leaves, which a tree finds. Changes are applied in the order of addresses, often many at a time
//! ([`Extents::change_all`]): a leaf is merged with all of its changes at once, and the next leaf is searched for only if it
//! is not near. A leaf contains the extents that start from its key to before its `until`.
//!
//! Invariants: extents do not overlap and are not empty; leaves cover all addresses without gaps; only a single leaf may be
//! empty; two adjacent leaves together are a quarter full, or one of them was when it last lost an extent.

use std::collections::BTreeMap;

use crate::extent_map::prefetch;

/// Maximum number of entries in a leaf.
const LEAF: usize = 128;
/// Maximum number of unchanged leaves to step over: beyond them, searching the tree is faster.
const IDLE: usize = 8;
/// Entries that a nearby search steps over at a time: about the distance between two changed entries.
const STEP: usize = 8;

/// The value of an extent.
pub(super) trait Held: Copy + Default {
    /// Length of the extent, at least 1 sector.
    fn sectors(&self) -> u64;
}

/// An extent by its first sector.
pub(super) type Item<V> = (u64, V);

fn end_of<V: Held>(item: &Item<V>) -> u64 {
    item.0 + item.1.sectors()
}

/// A change of an extent, and of those that it overlaps or adjoins.
pub(super) trait Change<V> {
    /// First sector, and the first one after it.
    fn extent(&self) -> (u64, u64);
    /// The new value.
    fn holds(&self) -> Option<V>;
    /// Whether it may merge with its neighbours.
    fn joins(&self) -> bool;
    /// The part of an extent before an address in it.
    fn before(&self, item: Item<V>, end: u64) -> V;
    /// The part from an address in it on.
    fn behind(&self, item: Item<V>, start: u64) -> V;
    /// The new extent merged with an adjacent one, if they merge.
    fn joined(&self, first: Item<V>, second: Item<V>) -> Option<V>;
}

#[derive(Clone, Debug)]
struct Leaf<V> {
    until: u64,
    items: Vec<Item<V>>,
}

impl<V: Held> Leaf<V> {
    fn new(until: u64) -> Self {
        Self { until, items: Vec::with_capacity(LEAF + 1) }
    }

    /// Where those that begin at an address or behind it begin.
    #[inline]
    fn first_from(&self, address: u64) -> usize {
        self.items.partition_point(|item| item.0 < address)
    }

    /// The same if all before `after` begin before it, and it is not far: in long steps, then in short ones.
    #[inline]
    fn next_from(&self, mut after: usize, address: u64) -> usize {
        while self.items.get(after + STEP).is_some_and(|item| item.0 < address) {
            after += STEP + 1;
        }
        let left = &self.items[after..];
        after + left.iter().take_while(|item| item.0 < address).count()
    }

    /// Makes a change that takes the place of just this one, and whether it did.
    #[inline(always)]
    fn replaces(&mut self, at: usize, change: &impl Change<V>) -> bool {
        let (from, to) = change.extent();
        let Some(item) = self.items.get_mut(at).filter(|item| item.0 == from && end_of(item) == to) else {
            return false;
        };
        let new = change.holds().filter(|_| !change.joins());
        if let Some(new) = new {
            item.1 = new;
        }
        new.is_some()
    }

    /// Those that touch an extent.
    fn touching(&self, from: u64, to: u64) -> (usize, usize) {
        let begin = self.first_from(from);
        let begin = begin - usize::from(begin > 0 && end_of(&self.items[begin - 1]) > from);
        (begin, begin + self.items[begin..].partition_point(|item| item.0 < to))
    }
}

/// A leaf as it becomes, while changes are made from its begin to its end.
#[derive(Clone, Debug)]
struct Merge<V> {
    items: Vec<Item<V>>,
    /// How many sectors there are more, as a difference that wraps.
    more: u64,
}

impl<V: Held> Default for Merge<V> {
    fn default() -> Self {
        Self { items: Vec::new(), more: 0 }
    }
}

impl<V: Held> Merge<V> {
    /// Makes a change where it is the next one's turn, all before it being done; `old` is what comes then. How many
    /// of these that concerns.
    #[inline(always)]
    fn change(&mut self, change: &impl Change<V>, old: &[Item<V>]) -> usize {
        let (from, to) = change.extent();
        let beside = u64::from(change.joins());
        let mut behind = None;
        if let Some(&item) = self.items.last().filter(|item| end_of(item) > from) {
            if end_of(&item) > to {
                behind = Some((to, change.behind(item, to)));
            }
            self.items.pop();
            self.more = self.more.wrapping_sub(item.1.sectors());
            // What the change before this one left behind it may begin where this one does.
            if item.0 < from {
                self.push((item.0, change.before(item, from)));
            }
        }
        let mut gone = 0;
        while let Some(&item) = old.get(gone).filter(|item| item.0 < to + beside) {
            gone += 1;
            self.more = self.more.wrapping_sub(item.1.sectors());
            if end_of(&item) > to {
                behind = Some((to, change.behind(item, to)));
            }
        }
        if let Some(new) = change.holds() {
            self.join(change, (from, new));
            if let Some(behind) = behind {
                self.join(change, behind);
            }
        } else if let Some(behind) = behind {
            self.push(behind);
        }
        gone
    }

    /// Adds one that may be one with what it begins behind.
    #[inline(always)]
    fn join(&mut self, change: &impl Change<V>, item: Item<V>) {
        if let Some(last) = self.items.last_mut().filter(|last| change.joins() && end_of(last) == item.0)
            && let Some(joined) = change.joined(*last, item)
        {
            last.1 = joined;
            self.more = self.more.wrapping_add(item.1.sectors());
            return;
        }
        self.push(item);
    }

    #[inline(always)]
    fn push(&mut self, item: Item<V>) {
        self.more = self.more.wrapping_add(item.1.sectors());
        self.items.push(item);
    }
}

/// See the module page.
#[derive(Clone, Debug)]
pub(super) struct Extents<V> {
    leaves: BTreeMap<u64, Leaf<V>>,
    len: usize,
    sectors: u64,
    merge: Merge<V>,
}

impl<V: Held> Default for Extents<V> {
    fn default() -> Self {
        let leaves = BTreeMap::from([(0, Leaf::new(u64::MAX))]);
        Self { leaves, len: 0, sectors: 0, merge: Merge::default() }
    }
}

impl<V: Held> Extents<V> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Sectors of all of them.
    pub(super) fn sectors(&self) -> u64 {
        self.sectors
    }

    /// All by address.
    pub(super) fn iter(&self) -> impl Iterator<Item = Item<V>> + '_ {
        self.leaves.values().flat_map(|leaf| leaf.items.iter().copied())
    }

    /// The last that begins before an address.
    pub(super) fn last_before(&self, address: u64) -> Option<Item<V>> {
        let mut leaves = self.leaves.range(..address);
        let (_, leaf) = leaves.next_back()?;
        let behind = leaf.first_from(address);
        let before =
            if behind == 0 { leaves.next_back()?.1.items.last() } else { leaf.items.get(behind - 1) };
        before.copied()
    }

    /// The extents that begin at an address or behind it, in order.
    pub(super) fn from(&self, address: u64) -> impl Iterator<Item = Item<V>> + '_ {
        let key = self.leaves.range(..=address).next_back().map_or(0, |(&key, _)| key);
        let mut leaves = self.leaves.range(key..).map(|(_, leaf)| leaf);
        let first = leaves.next().map_or(&[][..], |leaf| &leaf.items[leaf.first_from(address)..]);
        first.iter().chain(leaves.flat_map(|leaf| leaf.items.iter())).copied()
    }

    /// The extents that touch one, whole, in order.
    pub(super) fn touching(&self, from: u64, to: u64) -> impl Iterator<Item = Item<V>> + '_ {
        let before = self.last_before(from).filter(|item| end_of(item) > from);
        before.into_iter().chain(self.from(from).take_while(move |item| item.0 < to))
    }

    /// Makes a change.
    pub(super) fn change(&mut self, change: impl Change<V> + Copy) {
        self.change_all(&[change], |&change| change);
    }

    /// Makes many, in order, none of which has a sector of another.
    #[inline]
    pub(super) fn change_all<T, C: Change<V>>(&mut self, changes: &[T], change: impl Fn(&T) -> C) {
        let mut rest = changes;
        while let Some(next) = rest.first() {
            let from = change(next).extent().0;
            let key = self.leaves.range(..=from).next_back().map_or(0, |(&key, _)| key);
            let in_many;
            (rest, in_many) = self.change_from(key, rest, &change);
            if let Some((next, behind)) = rest.split_first().filter(|_| in_many) {
                self.change_in_many(&change(next));
                rest = behind;
            }
        }
    }

    /// Makes those of the changes that concern one leaf each, from leaf to leaf, until something is in the way:
    /// which are left, and whether the next one concerns several leaves.
    #[inline]
    fn change_from<'a, T, C: Change<V>>(
        &mut self,
        key: u64,
        mut rest: &'a [T],
        change: &impl Fn(&T) -> C,
    ) -> (&'a [T], bool) {
        let (mut in_many, mut full, mut idle) = (false, None, 0);
        let (merge, mut smaller) = (&mut self.merge, Vec::new());
        merge.more = 0;
        // Where the last before a leaf ends; of the first leaf that is not known.
        let mut reach = if key == 0 { 0 } else { u64::MAX - 1 };
        let mut leaves = self.leaves.range_mut(key..).peekable();
        while let Some((&key, leaf)) = leaves.next() {
            if let Some((_, leaf)) = leaves.peek().filter(|_| idle == 0) {
                prefetch(&leaf.items[..], size_of_val(&leaf.items[..]));
            }
            // How many are merged, and how many lie before the change that comes next.
            let (mut done, mut seen) = (0, 0);
            idle += 1;
            merge.items.clear();
            while let Some((next, behind)) = rest.split_first() {
                let change = change(next);
                let (from, to) = change.extent();
                if from >= leaf.until {
                    break;
                }
                let at = leaf.next_from(seen, from);
                if leaf.replaces(at, &change) {
                    (seen, idle, rest) = (at + 1, 0, behind);
                    continue;
                }
                let first = at == 0 && merge.items.is_empty();
                in_many = to >= leaf.until || (first && reach + u64::from(change.joins()) > from);
                if in_many {
                    break;
                }
                merge.items.extend_from_slice(&leaf.items[done..at]);
                done = at + merge.change(&change, &leaf.items[at..]);
                (seen, idle, rest) = (done, 0, behind);
            }
            if done > 0 || !merge.items.is_empty() {
                merge.items.extend_from_slice(&leaf.items[done..]);
                let (before, now) = (leaf.items.len(), merge.items.len());
                self.len = self.len + now - before;
                leaf.items.clear();
                if now > LEAF {
                    full = Some(key);
                    break;
                }
                leaf.items.extend_from_slice(&merge.items);
                if now < before && now < LEAF / 4 {
                    smaller.push(key);
                }
            }
            if in_many || rest.is_empty() || idle > IDLE {
                break;
            }
            reach = leaf.items.last().map_or(reach, end_of);
        }
        self.sectors = self.sectors.wrapping_add(merge.more);
        if let Some(key) = full {
            self.spread(key);
        }
        for key in smaller.into_iter().rev() {
            self.merge(key);
        }
        (rest, in_many)
    }

    /// Fills an empty leaf with what was merged, and as many behind it as that takes.
    fn spread(&mut self, key: u64) {
        let Self { leaves, merge, .. } = self;
        let Some(leaf) = leaves.get_mut(&key) else { return };
        let last = leaf.until;
        let mut parts =
            merge.items.chunks(merge.items.len().div_ceil(merge.items.len() / (LEAF / 2))).peekable();
        let mut key = key;
        while let Some(part) = parts.next() {
            let until = parts.peek().and_then(|part| part.first()).map_or(last, |item| item.0);
            let leaf = leaves.entry(key).or_insert_with(|| Leaf::new(until));
            leaf.until = until;
            leaf.items.extend_from_slice(part);
            key = until;
        }
    }

    /// Makes a change where several leaves are concerned.
    #[cold]
    fn change_in_many(&mut self, change: &impl Change<V>) {
        let (from, to) = change.extent();
        // What ends or begins beside it may be one with it.
        let (from_beside, to_beside) = (from.saturating_sub(1), to + 1);
        let holder = self.last_before(from).filter(|item| end_of(item) > from_beside);
        let first = self.leaves.range(..=holder.map_or(from, |item| item.0)).next_back();
        let first = first.map_or(0, |(&key, _)| key);
        let (mut touched, mut smaller) = (Vec::new(), Vec::new());
        for (&key, leaf) in self.leaves.range_mut(first..=to) {
            let (begin, end) = leaf.touching(from_beside, to_beside);
            self.len -= end - begin;
            for item in leaf.items.drain(begin..end) {
                self.sectors -= item.1.sectors();
                // Only the first and the last can have sectors elsewhere.
                touched.truncate(1);
                touched.push(item);
            }
            if leaf.items.len() < LEAF / 4 {
                smaller.push(key);
            }
        }
        // From the end, so that an empty leaf finds one behind it that is not, if there is any.
        for key in smaller.into_iter().rev() {
            self.merge(key);
        }
        let mut merge = Merge::default();
        let before = touched.partition_point(|item| item.0 < from);
        merge.items.extend_from_slice(&touched[..before]);
        let gone = merge.change(change, &touched[before..]);
        merge.items.extend_from_slice(&touched[before + gone..]);
        for item in merge.items {
            self.insert(item);
        }
    }

    /// Adds an extent that touches none.
    pub(super) fn insert(&mut self, item: Item<V>) {
        let Some((&key, leaf)) = self.leaves.range_mut(..=item.0).next_back() else { return };
        let at = leaf.first_from(item.0);
        leaf.items.insert(at, item);
        self.len += 1;
        self.sectors += item.1.sectors();
        if leaf.items.len() > LEAF {
            // What comes by address leaves full leaves behind.
            self.split(key, if at == LEAF { LEAF } else { LEAF / 2 });
        }
    }

    /// Forgets those that are not worth keeping; it is asked in the order of addresses.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Item<V>) -> bool) {
        let (mut len, mut sectors) = (0, 0);
        let mut smaller = Vec::new();
        for (&key, leaf) in &mut self.leaves {
            leaf.items.retain(|item| {
                let kept = keep(item);
                sectors += if kept { item.1.sectors() } else { 0 };
                kept
            });
            len += leaf.items.len();
            if leaf.items.len() < LEAF / 4 {
                smaller.push(key);
            }
        }
        (self.len, self.sectors) = (len, sectors);
        for key in smaller.into_iter().rev() {
            self.merge(key);
        }
    }

    /// The entries of a leaf from one on go to a new one.
    fn split(&mut self, key: u64, from: usize) {
        let Some(leaf) = self.leaves.get_mut(&key) else { return };
        let mut behind = Leaf::new(leaf.until);
        behind.items.extend(leaf.items.drain(from..));
        let middle = behind.items[0].0;
        leaf.until = middle;
        self.leaves.insert(middle, behind);
    }

    /// A leaf with few entries takes in the next one, or goes into the one before, if that has few as well; and in
    /// any case if it has none.
    fn merge(&mut self, key: u64) {
        let Some(leaf) = self.leaves.get(&key) else { return };
        let (until, here) = (leaf.until, leaf.items.len());
        let fits = |other: &Leaf<V>| here == 0 || here + other.items.len() <= LEAF / 2;
        if self.leaves.get(&until).is_some_and(fits) {
            self.merge_next(key);
        } else if let Some((&before, _)) = self.leaves.range(..key).next_back().filter(|(_, leaf)| fits(leaf))
        {
            self.merge_next(before);
        }
    }

    fn merge_next(&mut self, key: u64) {
        let Some(next) = self.leaves.get(&key).map(|leaf| leaf.until) else { return };
        let Some(next) = self.leaves.remove(&next) else { return };
        if let Some(leaf) = self.leaves.get_mut(&key) {
            leaf.until = next.until;
            leaf.items.extend(next.items);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct Named {
        len: u64,
        name: u32,
    }

    impl Held for Named {
        fn sectors(&self) -> u64 {
            self.len
        }
    }

    const SECTORS: usize = 3_000;

    /// An extent that is set, or cleared.
    #[derive(Clone, Copy)]
    struct Set {
        from: u64,
        to: u64,
        name: Option<u32>,
    }

    impl Change<Named> for Set {
        fn extent(&self) -> (u64, u64) {
            (self.from, self.to)
        }

        fn holds(&self) -> Option<Named> {
            self.name.map(|name| Named { len: self.to - self.from, name })
        }

        fn joins(&self) -> bool {
            self.name.is_some()
        }

        fn before(&self, (start, old): Item<Named>, end: u64) -> Named {
            Named { len: end - start, ..old }
        }

        fn behind(&self, item: Item<Named>, start: u64) -> Named {
            Named { len: end_of(&item) - start, ..item.1 }
        }

        fn joined(&self, (_, first): Item<Named>, (_, second): Item<Named>) -> Option<Named> {
            (first.name == second.name).then_some(Named { len: first.len + second.len, ..first })
        }
    }

    /// Sets extents, or clears them, sector by sector.
    fn set_all(sectors: &mut [Option<u32>], Set { from, to, name }: &Set) {
        sectors[*from as usize..*to as usize].fill(*name);
    }

    /// Whether the map says of every sector what the list says, and its leaves are as the module page has it.
    fn check(map: &Extents<Named>, sectors: &[Option<u32>]) {
        let mut said = vec![None; SECTORS];
        for (start, named) in map.iter() {
            for sector in start..start + named.len {
                assert!(said[sector as usize].is_none(), "sector {sector} is held twice");
                said[sector as usize] = Some(named.name);
            }
        }
        assert_eq!(said, sectors);
        assert_eq!(map.iter().count(), map.len());
        assert_eq!(map.sectors(), sectors.iter().flatten().count() as u64);
        let mut next = 0;
        for (&key, leaf) in &map.leaves {
            assert_eq!(key, next, "a gap between leaves");
            assert!(leaf.items.len() <= LEAF && (map.leaves.len() == 1 || !leaf.items.is_empty()));
            assert!(leaf.items.iter().all(|item| key <= item.0 && item.0 < leaf.until));
            next = leaf.until;
        }
        assert_eq!(next, u64::MAX);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Many short extents, then some long ones, so that leaves come and go.
        #[test]
        fn a_map_says_what_a_list_of_sectors_says(
            changes in prop::collection::vec((0..SECTORS as u64, 1_u64..8, any::<bool>(), 0_u8..60), 1..1500),
        ) {
            let (mut map, mut sectors) = (Extents::default(), vec![None; SECTORS]);
            for (number, &(at, len, set, long)) in changes.iter().enumerate() {
                let to = (at + if long == 0 { len * 200 } else { len }).min(SECTORS as u64);
                let one = Set { from: at, to, name: (set && long > 0).then_some(number as u32 % 7) };
                set_all(&mut sectors, &one);
                map.change(one);
                if number % 10 == 0 {
                    check(&map, &sectors);
                }
                let touching: Vec<_> = map.touching(at, at + 50).collect();
                let all = map.iter().filter(|item| item.0 < at + 50 && end_of(item) > at);
                prop_assert_eq!(touching, all.collect::<Vec<_>>());
                prop_assert_eq!(map.last_before(at), map.iter().take_while(|item| item.0 < at).last());
                prop_assert_eq!(map.from(at).next(), map.iter().find(|item| item.0 >= at));
            }
            check(&map, &sectors);
            map.retain(|item| item.0 % 3 > 0);
            prop_assert!(map.iter().all(|item| item.0 % 3 > 0));
            sectors.fill(None);
            map.change(Set { from: 0, to: SECTORS as u64, name: None });
            check(&map, &sectors);
            prop_assert_eq!(map.leaves.len(), 1);
        }

        /// Changes in order, many at a time, are the same as one by one, and what is one extent is kept as one.
        #[test]
        fn many_changes_at_a_time_are_the_same_as_one_by_one(
            batches in prop::collection::vec(
                prop::collection::vec((0_u64..40, 1_u64..12, prop::option::of(0_u32..4)), 1..200), 1..12,
            ),
        ) {
            let (mut map, mut sectors) = (Extents::default(), vec![None; SECTORS]);
            for batch in &batches {
                let mut at = 0;
                let mut changes = Vec::new();
                for &(gap, len, name) in batch {
                    let (from, to) = (at + gap.saturating_sub(8), at + gap.saturating_sub(8) + len);
                    if to > SECTORS as u64 {
                        break;
                    }
                    set_all(&mut sectors, &Set { from, to, name });
                    changes.push(Set { from, to, name });
                    at = to;
                }
                map.change_all(&changes, |&change| change);
                check(&map, &sectors);
                let runs = sectors.chunk_by(|one, other| one == other).filter(|run| run[0].is_some()).count();
                prop_assert_eq!(map.len(), runs);
            }
        }
    }
}
