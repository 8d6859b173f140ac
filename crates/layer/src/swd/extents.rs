//! Extents by address, each with something that is known of it: what both maps of the disk are kept in.
//!
//! A write changes what a few places near each other hold: pieces are cut, replaced, joined. So extents lie side by
//! side in leaves, a tree finds the leaf, and [`Extents::replace`] changes all that an extent touches with one
//! search and one move of memory. A leaf has what begins from its key to before its `until`.
//!
//! Invariants: extents do not overlap and are not empty; leaves leave no gap, the first from address 0 and the last
//! to the greatest; none is empty but the only one; two leaves side by side hold a quarter of what they could, or
//! one of them did when it last lost something.

use std::collections::BTreeMap;

use crate::inner::prefetch;

/// Entries of a leaf, at most.
const LEAF: usize = 64;
/// A search that halves three times has looked at the borders of these parts of a leaf.
const HINTED_PARTS: usize = 8;
/// What a change adds to a leaf before it is split, at most.
const NEW: usize = 3;

/// What is known of an extent.
pub(super) trait Held: Copy {
    /// How many sectors it has, one at least.
    fn sectors(&self) -> u64;
}

/// An extent by its first sector.
pub(super) type Item<V> = (u64, V);

fn end_of<V: Held>(item: &Item<V>) -> u64 {
    item.0 + item.1.sectors()
}

/// What a change takes away: the first and the last of the extents, which may be the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gone<V> {
    pub(super) first: Option<Item<V>>,
    pub(super) last: Option<Item<V>>,
}

#[derive(Clone, Debug)]
struct Leaf<V> {
    until: u64,
    items: Vec<Item<V>>,
}

impl<V: Held> Leaf<V> {
    fn new(until: u64) -> Self {
        Self { until, items: Vec::with_capacity(LEAF + NEW) }
    }

    /// Where those that begin at an address or behind it begin.
    #[inline]
    fn first_from(&self, address: u64) -> usize {
        self.items.partition_point(|item| item.0 < address)
    }

    /// Those that touch an extent.
    #[inline]
    fn touching(&self, from: u64, to: u64) -> (usize, usize) {
        let begin = self.first_from(from);
        let begin = begin - usize::from(begin > 0 && end_of(&self.items[begin - 1]) > from);
        let mut end = begin;
        if self.items.last().is_some_and(|last| last.0 < to) {
            end = self.items.len();
        } else {
            while self.items[end..].first().is_some_and(|item| item.0 < to) {
                end += 1;
            }
        }
        (begin, end)
    }
}

/// See the module page.
#[derive(Clone, Debug)]
pub(super) struct Extents<V> {
    leaves: BTreeMap<u64, Leaf<V>>,
    len: usize,
    sectors: u64,
}

impl<V: Held> Default for Extents<V> {
    fn default() -> Self {
        Self { leaves: BTreeMap::from([(0, Leaf::new(u64::MAX))]), len: 0, sectors: 0 }
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

    /// Has memory fetch where the search for an address looks first; what is left of it then lies in a few lines.
    #[inline]
    pub(super) fn hint(&self, address: u64) {
        let Some((_, leaf)) = self.leaves.range(..=address).next_back() else { return };
        for part in 1..HINTED_PARTS {
            if let Some(item) = leaf.items.get(leaf.items.len() * part / HINTED_PARTS) {
                prefetch(item, size_of::<u64>());
            }
        }
    }

    /// Puts others, in order and where these are or between them, in the place of the extents that touch one.
    #[inline]
    pub(super) fn replace(
        &mut self,
        from: u64,
        to: u64,
        by: impl FnOnce(&Gone<V>) -> [Option<Item<V>>; NEW],
    ) {
        let Some((&key, leaf)) = self.leaves.range_mut(..=from).next_back() else { return };
        let (begin, end) = leaf.touching(from, to);
        let alone = begin > 0 || key == 0 || leaf.items.first().is_some_and(|item| item.0 <= from);
        // What is left of the last one begins at `to`.
        if !alone || leaf.until <= to {
            return self.replace_in_many(from, to, by);
        }
        let touched = &leaf.items[begin..end];
        let new = by(&Gone { first: touched.first().copied(), last: touched.last().copied() });
        self.sectors -= touched.iter().map(|item| item.1.sectors()).sum::<u64>();
        let (mut at, before) = (begin, leaf.items.len());
        for item in new.into_iter().flatten() {
            self.sectors += item.1.sectors();
            if at < end {
                leaf.items[at] = item;
            } else {
                leaf.items.insert(at, item);
            }
            at += 1;
        }
        if at < end {
            leaf.items.drain(at..end);
        }
        let after = leaf.items.len();
        self.len = self.len + after - before;
        if after > LEAF {
            self.split(key, LEAF / 2);
        } else if after < before && after < LEAF / 4 {
            self.merge(key);
        }
    }

    /// The same where several leaves are concerned.
    #[cold]
    fn replace_in_many(&mut self, from: u64, to: u64, by: impl FnOnce(&Gone<V>) -> [Option<Item<V>>; NEW]) {
        let holder = self.last_before(from).filter(|item| end_of(item) > from).map_or(from, |item| item.0);
        let first = self.leaves.range(..=holder).next_back().map_or(0, |(&key, _)| key);
        let mut gone = Gone { first: None, last: None };
        let mut smaller = Vec::new();
        for (&key, leaf) in self.leaves.range_mut(first..=to) {
            let (begin, end) = leaf.touching(from, to);
            for item in leaf.items.drain(begin..end) {
                gone.first = gone.first.or(Some(item));
                gone.last = Some(item);
                self.len -= 1;
                self.sectors -= item.1.sectors();
            }
            if leaf.items.len() < LEAF / 4 {
                smaller.push(key);
            }
        }
        // From the end, so that an empty leaf finds one behind it that is not, if there is any.
        for key in smaller.into_iter().rev() {
            self.merge(key);
        }
        for item in by(&gone).into_iter().flatten() {
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

    /// Forgets those that are not worth keeping.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Item<V>) -> bool) {
        let old = std::mem::take(self);
        for item in old.iter().filter(|item| keep(item)) {
            self.insert(item);
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

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// Sets an extent, or clears it, sector by sector and in the map.
    fn change(map: &mut Extents<Named>, sectors: &mut [Option<u32>], at: u64, len: u64, name: Option<u32>) {
        let (from, to) = (at, (at + len).min(SECTORS as u64));
        map.replace(from, to, |gone| {
            let left = gone.first.filter(|item| item.0 < from);
            let right = gone.last.filter(|item| end_of(item) > to);
            [
                left.map(|(start, old)| (start, Named { len: from - start, ..old })),
                name.map(|name| (from, Named { len: to - from, name })),
                right.map(|(start, old)| (to, Named { len: start + old.len - to, ..old })),
            ]
        });
        sectors[from as usize..to as usize].fill(name);
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
                let len = if long == 0 { len * 200 } else { len };
                let name = (set && long > 0).then_some(number as u32);
                change(&mut map, &mut sectors, at, len, name);
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
            change(&mut map, &mut sectors, 0, SECTORS as u64, None);
            check(&map, &sectors);
            prop_assert_eq!(map.leaves.len(), 1);
        }
    }
}
