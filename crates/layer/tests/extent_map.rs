//! The extent map against a sector-by-sector map, and its memory under random writes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use skylight_disk::{Lba, LbaExtent, Pba, Sectors};
use skylight_layer::{ExtentMap, Mapped};

#[derive(Clone, Debug)]
enum Change {
    Insert(u64, u64, u64),
    Remove(u64, u64),
}

impl Change {
    fn at(&self) -> Lba {
        match *self {
            Self::Insert(at, ..) | Self::Remove(at, _) => Lba(at),
        }
    }
}

/// Changes whose addresses collide often, at the start of the space and 2^33 sectors further on, and some that lie
/// so far apart that leaves count distances in coarser units.
fn changes(count: usize, space: u64) -> impl Strategy<Value = Vec<Change>> {
    let spread = (0..space, 0u32..16).prop_map(|(at, shift)| at << shift);
    let at = prop_oneof![4 => 0..space, 1 => (1u64 << 33)..(1u64 << 33) + space, 2 => spread];
    let change = prop_oneof![
        5 => (at.clone(), 1u64..40, 0u64..1 << 39).prop_map(|(at, len, pba)| Change::Insert(at, len, pba)),
        2 => (at.clone(), 1u64..200).prop_map(|(at, len)| Change::Remove(at, len)),
        // Single sectors side by side, each an entry of its own: a granule as full as it can be.
        6 => (0u64..500, 0u64..1 << 39).prop_map(|(at, pba)| Change::Insert(at, 1, pba)),
        // Continues in both spaces, so that entries join.
        2 => (at, 1u64..9).prop_map(|(at, len)| Change::Insert(at, len, at + 1_000_000)),
    ];
    prop::collection::vec(change, 1..count)
}

fn check(map: &ExtentMap, oracle: &BTreeMap<u64, u64>) {
    let all = LbaExtent::new(Lba(0), Sectors(1 << 40));
    let found: Vec<Mapped> = map.overlapping(all).collect();
    let mut sectors =
        found.iter().flat_map(|m| (0..m.lba.len.get()).map(|k| (m.lba.start.get() + k, m.pba.get() + k)));
    for (&lba, &pba) in oracle {
        assert_eq!(sectors.next(), Some((lba, pba)));
    }
    assert_eq!(sectors.next(), None);
    assert_eq!(map.sectors(), oracle.len() as u64);
    assert_eq!(map.entries(), found.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn agrees_with_a_map_of_sectors(
        changes in changes(2000, 6000), probe in 0u64..6000, len in 1u64..300, asked in 0u64..300
    ) {
        let mut map = ExtentMap::new();
        let mut oracle = BTreeMap::new();
        for (number, change) in changes.iter().enumerate() {
            if let Some(coming) = changes.get(number + 24) {
                map.hint(coming.at());
            }
            match *change {
                Change::Insert(at, len, pba) => {
                    map.insert(LbaExtent::new(Lba(at), Sectors(len)), Pba(pba));
                    oracle.extend((0..len).map(|k| (at + k, pba + k)));
                }
                Change::Remove(at, len) => {
                    map.remove(LbaExtent::new(Lba(at), Sectors(len)));
                    for k in 0..len {
                        oracle.remove(&(at + k));
                    }
                }
            }
            if number % 256 == 0 {
                check(&map, &oracle);
            }
        }
        check(&map, &oracle);
        let extent = LbaExtent::new(Lba(probe), Sectors(len));
        let clipped: u64 = map.overlapping(extent).map(|m| m.lba.len.get()).sum();
        prop_assert_eq!(clipped, oracle.range(probe..probe + len).count() as u64);
        let plain: Vec<Mapped> = map.overlapping(extent).collect();
        let around: Vec<Mapped> = map.overlapping_around(extent, Lba(probe + asked % len)).collect();
        prop_assert_eq!(around, plain);
        // Both go where it hinted.
        map.remove(extent);
        oracle.retain(|lba, _| !(probe..probe + len).contains(lba));
        check(&map, &oracle);
        map.insert(extent, Pba(7));
        oracle.extend((0..len).map(|k| (probe + k, 7 + k)));
        check(&map, &oracle);
        map.remove(LbaExtent::new(Lba(0), Sectors(1 << 40)));
        prop_assert_eq!((map.entries(), map.sectors()), (0, 0));
    }
}

#[test]
fn a_long_extent_takes_as_few_entries_as_their_length_allows() {
    let mut map = ExtentMap::new();
    map.insert(LbaExtent::new(Lba(5), Sectors(200_000)), Pba(9));
    assert_eq!((map.entries(), map.sectors()), (4, 200_000));
    let last = map.overlapping(LbaExtent::new(Lba(200_004), Sectors(9))).last();
    assert_eq!(last.map(|m| m.pba), Some(Pba(200_008)));
}

#[test]
fn a_random_block_takes_less_than_16_bytes() {
    let mut map = ExtentMap::new();
    let mut state = 88_172_645_463_325_252u64;
    for block in 0..2_000_000u64 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        map.insert(LbaExtent::new(Lba(state % 950_000_000 * 8), Sectors(8)), Pba(block * 8));
        if block > 100_000 && block % 50_000 == 0 {
            let per_block = map.bytes() as f64 / (map.sectors() / 8) as f64;
            assert!(per_block < 16.0, "{per_block} bytes a block at {block}");
        }
    }
}
/// A node whose first leaf went takes over what lay before it, and divides that when it is filled again.
#[test]
fn a_range_that_was_emptied_can_be_filled_again() {
    let mut map = ExtentMap::new();
    let block = |number: u64| LbaExtent::new(Lba(number * 64), Sectors(8));
    for number in 0..20_000 {
        map.insert(block(number), Pba(number * 1_000));
    }
    for first in [2_000, 4_000, 8_000] {
        map.remove(LbaExtent::new(Lba(first * 64), Sectors(3_900 * 64)));
        for number in (first..first + 3_900).rev() {
            map.insert(block(number), Pba(number * 1_000));
        }
    }
    for number in 0..20_000 {
        let found: Vec<Mapped> = map.overlapping(block(number)).collect();
        assert_eq!(found, [Mapped { lba: block(number), pba: Pba(number * 1_000) }]);
    }
}
