//! Applies lone writes to the map in batches, in the order of addresses.
//!
//! The effect of a write on the map is a few *events*: its own location becomes native, and on each track behind it an
//! extent becomes overwritten. The latest event at a sector determines its state. So the events of many writes are sorted
//! by address, a sweep keeps of each event the stretches without a later one, and the map applies these in one pass, leaf
//! by leaf instead of write by write. Sorting also brings the writes of a track together, so the tracks behind it are
//! looked up once.
//!
//! Invariants: after a batch the map, the stamps and the counters are as if each write had been applied on its own, in
//! order (whether two adjacent extents merge depends only on their common edge, which no third one changes); the size of a
//! batch is bounded by `MOST_EVENTS`.

use std::collections::BinaryHeap;
use std::num::NonZeroU32;

use skylight_disk::shingling::Pair;
use skylight_disk::{Geometry, Pba, PbaExtent, Sectors, Shingling};

use super::Swd;
use super::extent_tree::Held;
use super::overwritten::{Effect, Entry};
use super::sequential_run::Run;
use crate::capabilities::overwriting::Stamp;

/// Events of a batch, about: each takes some 100 bytes while it is settled.
const MOST_EVENTS: usize = 8192;

/// Bits of a key that number what is sorted; the others are its address, which is below 2^42.
const NUMBER_BITS: u32 = 22;

/// So few keys are sorted by comparing them; of more, so many bits of their addresses are looked at at a time.
const FEW_KEYS: usize = 512;
const DIGIT_BITS: u32 = 11;

/// What a lone write has of a track; its number in the batch is its age.
#[derive(Clone, Copy, Debug)]
struct Part {
    place: PbaExtent,
    stamp: Stamp,
    destroys: bool,
}

/// What a part does to a track.
#[derive(Clone, Copy, Debug)]
struct Event {
    start: Pba,
    entry: Entry,
    part: u32,
    /// The pair of tracks, if it destroys something; if not, it writes it.
    pair: Option<NonZeroU32>,
}

/// Where nothing later came than what has this number.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    extent: PbaExtent,
    number: u32,
}

/// Numbers of extents by address.
#[derive(Clone, Debug, Default)]
struct Order {
    keys: Vec<u64>,
    spare: Vec<u64>,
    /// Extents that the sweep has come to, by age: the latest first. Age, number, end.
    open: BinaryHeap<(u32, u32, Pba)>,
}

impl Order {
    fn push(&mut self, start: Pba, number: usize) {
        self.keys.push((start.get() << NUMBER_BITS) | number as u64);
    }

    /// Sorts keys whose numbers rise already: of many, by some bits of the address at a time, those that differ
    /// at all.
    fn sort(&mut self) {
        let Self { keys, spare, .. } = self;
        if keys.len() < FEW_KEYS {
            return keys.sort_unstable();
        }
        let (least, most) =
            keys.iter().fold((u64::MAX, 0), |(least, most), &key| (least.min(key), most.max(key)));
        let base = least >> NUMBER_BITS;
        let bits = u64::BITS - ((most >> NUMBER_BITS) - base).leading_zeros();
        spare.resize(keys.len(), 0);
        for pass in 0..bits.div_ceil(DIGIT_BITS) {
            let shift = NUMBER_BITS + pass * DIGIT_BITS;
            let digit = |key: u64| ((key - (base << NUMBER_BITS)) >> shift) as usize % (1 << DIGIT_BITS);
            let mut places = [0_u32; 1 << DIGIT_BITS];
            keys.iter().for_each(|&key| places[digit(key)] += 1);
            let mut before = 0;
            for place in &mut places {
                (*place, before) = (before, before + *place);
            }
            for &key in keys.iter() {
                let place = &mut places[digit(key)];
                spare[*place as usize] = key;
                *place += 1;
            }
            std::mem::swap(keys, spare);
        }
    }

    fn number(key: u64) -> u32 {
        (key & ((1 << NUMBER_BITS) - 1)) as u32
    }

    fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.keys.iter().map(|&key| Self::number(key))
    }

    /// The stretches of the extents that no later one has as well, in order.
    fn sweep(&mut self, stretches: &mut Vec<Stretch>, extent: impl Fn(u32) -> (PbaExtent, u32)) {
        let Self { keys, open, .. } = self;
        for (place, &key) in keys.iter().enumerate() {
            let number = Self::number(key);
            let (extent, age) = extent(number);
            let next = keys.get(place + 1).map_or(Pba(u64::MAX), |&key| Pba(key >> NUMBER_BITS));
            if open.is_empty() && extent.end() <= next {
                stretches.push(Stretch { extent, number });
                continue;
            }
            open.push((age, number, extent.end()));
            let mut at = extent.start;
            while let Some(&(_, number, end)) = open.peek().filter(|_| at < next) {
                if end <= at {
                    open.pop();
                    continue;
                }
                let to = end.min(next);
                match stretches.last_mut() {
                    Some(last) if last.number == number && last.extent.end() == at => {
                        last.extent.len += to - at
                    }
                    _ => stretches.push(Stretch { extent: PbaExtent::new(at, to - at), number }),
                }
                at = to;
            }
        }
    }
}

/// What is needed while a batch is settled; its memory is kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    parts: Vec<Part>,
    pairs: Vec<Pair>,
    events: Vec<Event>,
    order: Order,
    stretches: Vec<Stretch>,
}

impl Batch {
    /// Notes the parts of a write, if it lies on one track or two.
    #[inline]
    fn push(&mut self, geometry: &Geometry, place: PbaExtent, stamp: Stamp) -> bool {
        let mut part = |place| self.parts.push(Part { place, stamp, destroys: false });
        let end = geometry.track_end(place.start);
        if place.end() <= end {
            part(place);
            return true;
        }
        if geometry.track_end(end) < place.end() {
            return false;
        }
        part(PbaExtent::new(place.start, end - place.start));
        part(PbaExtent::new(end, place.end() - end));
        true
    }

    /// Finds the events of the parts, track by track.
    fn find_events(&mut self, geometry: &Geometry, shingling: Shingling) {
        let Self { parts, pairs, events, order, .. } = self;
        pairs.clear();
        events.clear();
        let (mut track_end, mut first_pair) = (Pba(0), 0);
        for number in order.numbers() {
            let part = &mut parts[number as usize];
            if part.place.start >= track_end {
                let on = geometry.track_of(part.place.start);
                track_end = on.end();
                first_pair = pairs.len();
                shingling.visit_behind(geometry, &on, &mut |behind| pairs.push(Pair::new(&on, &behind)));
            }
            let (start, entry) = (part.place.start, Entry::written(part.place.len));
            events.push(Event { start, entry, part: number, pair: None });
            for (pair, behind) in pairs[first_pair..].iter().zip(first_pair as u32 + 1..) {
                pair.destroyed(part.place, &mut |destroyed| {
                    part.destroys = true;
                    let (start, entry) = (destroyed.extent.start, Entry::of(pair, destroyed));
                    events.push(Event { start, entry, part: number, pair: NonZeroU32::new(behind) });
                });
            }
        }
    }
}

impl Swd {
    /// Brings the map up to date with writes that are no part of a run.
    pub(super) fn settle_batch(&mut self, lone: &[(PbaExtent, Stamp)]) {
        let most = MOST_EVENTS / self.spec.shingling.width_tracks() as usize;
        let mut batch = std::mem::take(&mut self.batch);
        for &(place, stamp) in lone {
            if batch.parts.len() >= most {
                self.settle_parts(&mut batch);
            }
            if !batch.push(&self.spec.geometry, place, stamp) {
                self.settle_parts(&mut batch);
                let mut run = Run::default();
                run.push(place, stamp, &mut Vec::new());
                self.settle_writes(&run);
            }
        }
        self.settle_parts(&mut batch);
        self.batch = batch;
    }

    fn settle_parts(&mut self, batch: &mut Batch) {
        if batch.parts.is_empty() {
            return;
        }
        batch.order.keys.clear();
        for (number, part) in batch.parts.iter().enumerate() {
            batch.order.push(part.place.start, number);
        }
        batch.order.sort();
        batch.find_events(&self.spec.geometry, self.spec.shingling);
        if batch.events.len() >> NUMBER_BITS > 0 && batch.parts.len() > 1 {
            // More than can be numbered: tracks of very many pieces.
            let later = batch.parts.split_off(batch.parts.len() / 2);
            self.settle_parts(batch);
            batch.parts = later;
            return self.settle_parts(batch);
        }
        self.stamp_sources(batch);
        self.note_events(batch);
        for part in batch.parts.drain(..) {
            if part.destroys && part.stamp.write != self.counted {
                self.counted = part.stamp.write;
                self.counters.overwriting_writes += 1;
            }
        }
        if self.stamps.is_crowded(self.map.len()) {
            self.forget_idle_stamps();
        }
    }

    /// Notes who wrote what is a source now. A sector that destroys nothing when it is written never is one, and may
    /// have a stamp all the same.
    fn stamp_sources(&mut self, batch: &mut Batch) {
        let Batch { parts, order, stretches, .. } = batch;
        stretches.clear();
        order.sweep(stretches, |number| (parts[number as usize].place, number));
        stretches.retain(|stretch| parts[stretch.number as usize].destroys);
        self.stamps.set_all(stretches, |stretch| (stretch.extent, parts[stretch.number as usize].stamp));
    }

    fn note_events(&mut self, batch: &mut Batch) {
        let Batch { pairs, events, order, stretches, .. } = batch;
        order.keys.clear();
        for (number, event) in events.iter().enumerate() {
            order.push(event.start, number);
        }
        order.sort();
        stretches.clear();
        order.sweep(stretches, |number| {
            let event = &events[number as usize];
            (PbaExtent::new(event.start, Sectors(event.entry.sectors())), event.part)
        });
        let Self { spec, map, .. } = self;
        map.note(stretches, |stretch| {
            let event = &events[stretch.number as usize];
            let pair = event.pair.map(|pair| &pairs[pair.get() as usize - 1]);
            let by = pair.map(|pair| (pair, event.entry));
            Effect::left(&spec.geometry, stretch.extent, event.start, by)
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use skylight_disk::layout::{RecordingZone, Skews, segments};
    use skylight_disk::{Angle, Layout, Lba, LbaExtent};

    use super::*;
    use crate::capabilities::overwriting::{Overwriting, ReadData, ReadMode, SectorState};
    use crate::raw_shingled::SwdSpec;

    /// Recording zones of unlike sizes, 20,000 sectors and some.
    fn disk(width_tracks: u32, skew: u64) -> Swd {
        let zone = |number: u32| RecordingZone { tracks: 40, sectors_per_track: 203 - 30 * number };
        let zones: Vec<_> = (0..4).map(zone).collect();
        let skews = Skews { track: Angle(skew), ..Skews::default() };
        let geometry = Geometry::new(&segments(Layout::Cylinder, &zones, 1, skews));
        let geometry = geometry.unwrap_or_else(|error| panic!("{error}"));
        Swd::new(SwdSpec {
            capacity: geometry.capacity(),
            geometry,
            shingling: Shingling::new(width_tracks).unwrap_or_else(|| panic!("{width_tracks} tracks")),
            bands: None,
            mode: ReadMode { data: ReadData::Overwriting, fail: true },
            pattern: 0,
        })
    }

    /// What is overwritten, by what, and by which write.
    fn states(disk: &mut Swd) -> Vec<(LbaExtent, SectorState)> {
        let mut states = Vec::new();
        let all = LbaExtent::new(Lba(0), disk.spec.capacity);
        disk.visit_state(all, &mut |part, state| states.push((part, state)));
        states
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Batches of any size, up to more than are sorted by comparing them, and of writes of up to two tracks: the
        /// same as one write at a time, to the last fragment.
        #[test]
        fn a_batch_is_what_its_writes_are_one_by_one(
            width in 1_u32..=16, skew in any::<u64>(), sizes in prop::collection::vec(1_usize..1500, 1..5),
            long in 1_u64..300, writes in prop::collection::vec((any::<u64>(), any::<u64>()), 4000),
        ) {
            let (mut together, mut alone) = (disk(width, skew), disk(width, skew));
            let capacity = together.spec.capacity.get();
            let mut number = 0;
            let mut writes = writes.iter().map(|&(start, len)| {
                number += 1;
                let start = start % capacity;
                let len = (1 + len % long).min(capacity - start);
                (PbaExtent::new(Pba(start), Sectors(len)), Stamp { write: number, ..Stamp::default() })
            });
            for size in sizes {
                let batch: Vec<_> = writes.by_ref().take(size).collect();
                together.settle_batch(&batch);
                batch.iter().for_each(|one| alone.settle_batch(std::slice::from_ref(one)));
                let fragments = |disk: &Swd| disk.map.iter().collect::<Vec<_>>();
                prop_assert_eq!(fragments(&together), fragments(&alone));
                prop_assert_eq!(states(&mut together), states(&mut alone));
                prop_assert_eq!(together.counters(), alone.counters());
            }
        }

        #[test]
        fn an_order_is_by_address(starts in prop::collection::vec(any::<u64>(), 1..3000), bits in 0_u32..42) {
            let mut order = Order::default();
            for (number, start) in starts.iter().enumerate() {
                order.push(Pba((start >> 1) >> (63 - bits)), number);
            }
            let mut sorted = order.keys.clone();
            sorted.sort_unstable();
            order.sort();
            prop_assert_eq!(order.keys, sorted);
        }
    }
}
