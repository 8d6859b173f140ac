//! Which regions of the media were written since all of them was durable, and which a power cut has left unsure.
//!
//! A region is marked *dirty*, durably, before its first write. It is *clean* again when a sync came after its last
//! write; that is written down some time later, for a mark that is set and cleared all the time costs a sync each time.
//! Random writes would make a sync for each region, so each mark since the last clearing takes twice as many
//! neighbours along as the one before; those that nobody writes to are cleared first.
//!
//! Invariants: a region that is not marked on the media holds nothing that a power cut could take or tear; what was
//! dirty when the power failed stays *unsure* until its entries were computed anew and these are durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::format::sums::{BootId, MARK_BLOCKS, Marks, REGIONS};

/// The regions that are unsure; readers look at it too.
pub(super) struct Unsure(Vec<AtomicU64>);

impl Unsure {
    fn new(regions: usize) -> Self {
        Self((0..regions.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    pub fn holds(&self, region: usize) -> bool {
        let word = self.0.get(region / 64).map_or(0, |word| word.load(Ordering::Acquire));
        word >> (region % 64) & 1 == 1
    }

    fn set(&self, region: usize, unsure: bool) {
        let bit = 1 << (region % 64);
        match self.0.get(region / 64) {
            Some(word) if unsure => drop(word.fetch_or(bit, Ordering::AcqRel)),
            Some(word) => drop(word.fetch_and(!bit, Ordering::AcqRel)),
            None => {}
        }
    }

    pub fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.load(Ordering::Acquire).count_ones())).sum()
    }
}

/// See the module page.
pub(super) struct Regions {
    boot: BootId,
    shift: u32,
    count: usize,
    dirty: Vec<bool>,
    /// Written since the last clearing.
    touched: Vec<bool>,
    unsure: Arc<Unsure>,
    /// How many neighbours the next mark takes along.
    ahead: usize,
}

impl Regions {
    /// Regions of media of so many bytes, as the blocks of marks have them; a block that does not add up marks nothing, so
    /// what it marked is an error where data and entries differ.
    pub fn new(media_bytes: u64, shift: u32, boot: BootId, blocks: &[Option<Marks>]) -> Self {
        let count = (media_bytes.div_ceil(1 << shift) as usize).min(REGIONS * MARK_BLOCKS);
        let (mut dirty, unsure) = (vec![false; count], Unsure::new(count));
        for (index, marks) in blocks.iter().enumerate() {
            let right = |marks: &&Marks| marks.index == index as u32 && marks.region_shift == shift;
            let Some(marks) = marks.as_ref().filter(right) else { continue };
            for region in 0..REGIONS.min(count.saturating_sub(index * REGIONS)) {
                let is = |bits: &[u8]| bits[region / 8] >> (region % 8) & 1 == 1;
                let whole = index * REGIONS + region;
                // Another start of the system: what was not durable may be gone.
                let cut = marks.boot != boot && is(&marks.dirty);
                unsure.set(whole, cut || is(&marks.unsure));
                dirty[whole] = is(&marks.dirty) && !cut;
            }
        }
        let touched = dirty.clone();
        Self { boot, shift, count, dirty, touched, unsure: Arc::new(unsure), ahead: 0 }
    }

    /// Whether nothing is marked.
    pub fn is_clean(&self) -> bool {
        !self.dirty.contains(&true)
    }

    pub fn bytes(&self) -> u64 {
        1 << self.shift
    }

    pub fn unsure(&self) -> &Arc<Unsure> {
        &self.unsure
    }

    /// Takes note of a write to bytes of the media; the regions that must be marked before it, if there are any.
    pub fn touch(&mut self, offset: u64, len: u64) -> Option<Vec<usize>> {
        let last = ((offset + len.max(1) - 1) >> self.shift) as usize;
        let mut clean = Vec::new();
        for region in (offset >> self.shift) as usize..=last.min(self.count.saturating_sub(1)) {
            self.touched[region] = true;
            if !self.dirty[region] {
                clean.push(region);
            }
        }
        if clean.is_empty() {
            return None;
        }
        self.take_neighbours(&mut clean);
        clean.iter().for_each(|&region| self.dirty[region] = true);
        Some(clean)
    }

    fn take_neighbours(&mut self, clean: &mut Vec<usize>) {
        let needed = clean.len();
        let (first, last) = (clean[0], clean[needed - 1]);
        let around = (last + 1..self.count).chain((0..first).rev());
        clean.extend(around.filter(|&region| !self.dirty[region]).take(self.ahead));
        self.ahead = (self.ahead * 2 + 1).min(self.count);
    }

    /// The mark was not written after all.
    pub fn unmark(&mut self, regions: &[usize]) {
        regions.iter().for_each(|&region| self.dirty[region] = false);
    }

    /// After a sync: clears what nobody wrote to since the last clearing, or all of it; the regions that this was.
    pub fn clear(&mut self, all: bool) -> Vec<usize> {
        let done = |region: &usize| self.dirty[*region] && (all || !self.touched[*region]);
        let cleared: Vec<usize> = (0..self.count).filter(done).collect();
        self.unmark(&cleared);
        self.touched.fill(false);
        self.ahead = 0;
        cleared
    }

    /// A region counts again.
    pub fn make_sure(&mut self, region: usize) {
        self.unsure.set(region, false);
    }

    /// The first unsure region from one on.
    pub fn unsure_from(&self, region: usize) -> Option<usize> {
        (region..self.count).find(|&region| self.unsure.holds(region))
    }

    /// The block of marks that a region is in.
    pub fn block_of(region: usize) -> usize {
        region / REGIONS
    }

    /// A block of marks as it is now.
    pub fn marks(&self, index: usize) -> Marks {
        let mut marks = Marks::new(self.boot, index as u32, self.shift);
        for region in 0..REGIONS.min(self.count.saturating_sub(index * REGIONS)) {
            let (whole, bit) = (index * REGIONS + region, 1 << (region % 8));
            marks.dirty[region / 8] |= if self.dirty[whole] { bit } else { 0 };
            marks.unsure[region / 8] |= if self.unsure.holds(whole) { bit } else { 0 };
        }
        marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn random_writes_need_few_marks() {
        let mut regions = Regions::new(3000 * MIB, 20, [1; 16], &[]);
        let marks = (0..3000).filter(|k| regions.touch(k * 1777 % 3000 * MIB, 512).is_some()).count();
        assert!(marks <= 13, "{marks}");
        assert!(regions.clear(false).is_empty(), "all were written to");
        assert_eq!(regions.touch(5 * MIB, MIB), None);
        assert_eq!(regions.clear(false).len(), 2999);
        assert_eq!(regions.touch(5 * MIB, MIB + 1), Some(vec![6]));
    }

    #[test]
    fn another_start_of_the_system_makes_dirty_regions_unsure() {
        let mut before = Regions::new(5000 * MIB, 21, [1; 16], &[]);
        before.touch(8 * MIB, 512);
        before.touch(4990 * MIB, 512);
        let blocks = [Some(before.marks(0)), Some(before.marks(1))];
        let same = Regions::new(5000 * MIB, 21, [1; 16], &blocks);
        assert!(same.dirty[4] && same.unsure.count() == 0);
        let other = Regions::new(5000 * MIB, 21, [2; 16], &blocks);
        assert!(other.unsure.holds(4) && other.unsure.holds(2495) && !other.dirty[4]);
        assert_eq!(
            other.unsure_from(5),
            before.dirty.iter().skip(5).position(|&dirty| dirty).map(|at| at + 5)
        );
        // It stays so through another kill, and another cut in the middle of writing the blocks.
        let blocks = [Some(other.marks(0)), blocks[1]];
        let third = Regions::new(5000 * MIB, 21, [2; 16], &blocks);
        assert!(third.unsure.holds(4) && third.unsure.holds(2495));
    }
}
