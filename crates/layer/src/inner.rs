//! The inner nodes of the extent map: from an address to the leaf that would hold it.
//!
//! Borders between leaves lie at whole granules of 64 sectors, so that a border fits 32 bits and processors
//! compare many at once: a look-up costs three short passes over a column, whatever the number of entries. A
//! granule has at most as many extents as a leaf has room for, so a full leaf can always be divided.
//!
//! Invariants: borders rise within a node; the first border of a node is not used, so that the first child
//! takes everything below the second; every leaf is a child of exactly one node.

/// Children of a node.
const FANOUT: usize = 64;
/// Levels that no map reaches: 32^8 leaves.
pub(crate) const MAX_HEIGHT: usize = 8;
/// A border past all others, for children that are not there.
const UNUSED: i32 = i32::MAX;
/// Sectors in a granule, as a power of two.
const GRANULE_SHIFT: u32 = 6;

/// The granule of a sector, which must lie below 2^38 (140 TB), as a signed number in the same order.
#[inline]
pub(crate) fn granule(start: u64) -> i32 {
    debug_assert!(start >> GRANULE_SHIFT < u64::from(u32::MAX), "the map reaches 140 TB");
    ((start >> GRANULE_SHIFT) as u32 ^ (1 << 31)).cast_signed()
}

/// The first sector of the granule that holds one.
pub(crate) fn granule_start(start: u64) -> u64 {
    start >> GRANULE_SHIFT << GRANULE_SHIFT
}

#[derive(Clone)]
struct Inner {
    borders: [i32; FANOUT],
    children: [u32; FANOUT],
    len: usize,
}

impl Inner {
    fn new() -> Self {
        Self { borders: [UNUSED; FANOUT], children: [0; FANOUT], len: 0 }
    }

    /// The child that is responsible for a granule.
    #[inline]
    fn child_for(&self, granule: i32) -> usize {
        let below: i32 = self.borders.iter().map(|&border| i32::from(border <= granule)).sum();
        // The first border is not used: what lies below it is the first child's too.
        below.max(1) as usize - 1
    }

    fn insert(&mut self, index: usize, border: i32, child: u32) {
        self.borders.copy_within(index..self.len, index + 1);
        self.children.copy_within(index..self.len, index + 1);
        self.borders[index] = border;
        self.children[index] = child;
        self.len += 1;
    }

    fn remove(&mut self, index: usize) {
        self.borders.copy_within(index + 1..self.len, index);
        self.children.copy_within(index + 1..self.len, index);
        self.len -= 1;
        self.borders[self.len] = UNUSED;
        self.first_takes_all_below();
    }

    /// What lies below the first border is the first child's: else a border put behind it later could be
    /// lower than it, and a search that counts borders would miss that child.
    fn first_takes_all_below(&mut self) {
        if self.len > 0 {
            self.borders[0] = i32::MIN;
        }
    }
}

/// Asks the processor to fetch the first bytes of a value.
#[inline]
pub(crate) fn prefetch<T: ?Sized>(value: &T, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..bytes).step_by(64) {
        let address = std::ptr::from_ref(value).cast::<i8>().wrapping_add(line);
        // SAFETY: a prefetch neither reads nor writes as far as the program can see, for any address.
        unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// A way down: for each level the node and the child taken.
type Path = [(u32, usize); MAX_HEIGHT];

/// All inner nodes.
pub(crate) struct Inners {
    nodes: Vec<Inner>,
    free: Vec<u32>,
    /// A node, or the only leaf when there are no levels.
    root: u32,
    height: usize,
    /// How often nodes were made, divided or taken out: a way down that was begun before is void.
    changes: u32,
}

/// A way down as far as the node above the leaves.
#[derive(Clone, Copy)]
pub(crate) struct Approach {
    node: u32,
    changes: u32,
}

impl Inners {
    /// No nodes, one leaf.
    pub(crate) fn new(leaf: u32) -> Self {
        Self { nodes: Vec::new(), free: Vec::new(), root: leaf, height: 0, changes: 0 }
    }

    pub(crate) fn height(&self) -> usize {
        self.height
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.nodes.capacity() * size_of::<Inner>() + self.free.capacity() * size_of::<u32>()) as u64
    }

    /// The leaf for a sector.
    #[inline]
    pub(crate) fn find(&self, start: u64) -> u32 {
        let granule = granule(start);
        let mut at = self.root;
        for _ in 0..self.height {
            let node = &self.nodes[at as usize];
            at = node.children[node.child_for(granule)];
        }
        at
    }

    /// Goes down to the node above the leaf for a sector, and has it fetched into the processor's cache.
    #[inline]
    pub(crate) fn approach(&self, start: u64) -> Approach {
        let granule = granule(start);
        let mut at = self.root;
        for _ in 1..self.height {
            let node = &self.nodes[at as usize];
            at = node.children[node.child_for(granule)];
        }
        if self.height > 0 {
            prefetch(&self.nodes[at as usize], size_of::<Inner>());
        }
        Approach { node: at, changes: self.changes }
    }

    /// The leaf for a sector, from where [`Inners::approach`] came to for the same one.
    #[inline]
    pub(crate) fn arrive(&self, start: u64, from: Approach) -> u32 {
        if self.height == 0 || from.changes != self.changes {
            return self.find(start);
        }
        let node = &self.nodes[from.node as usize];
        node.children[node.child_for(granule(start))]
    }

    fn path(&self, granule: i32) -> Path {
        let mut path = [(0, 0); MAX_HEIGHT];
        let mut at = self.root;
        for slot in path.iter_mut().take(self.height) {
            let node = &self.nodes[at as usize];
            let child = node.child_for(granule);
            *slot = (at, child);
            at = node.children[child];
        }
        path
    }

    fn add_node(&mut self) -> u32 {
        if let Some(number) = self.free.pop() {
            self.nodes[number as usize] = Inner::new();
            return number;
        }
        self.nodes.push(Inner::new());
        (self.nodes.len() - 1) as u32
    }

    /// Makes a leaf responsible for the granules from `border` up to the next border.
    pub(crate) fn insert(&mut self, border: i32, leaf: u32) {
        let path = self.path(border);
        let (mut border, mut child) = (border, leaf);
        for level in (0..self.height).rev() {
            let (node, index) = path[level];
            if self.nodes[node as usize].len < FANOUT {
                self.nodes[node as usize].insert(index + 1, border, child);
                return;
            }
            (border, child) = self.split(node, index + 1, border, child);
        }
        self.changes = self.changes.wrapping_add(1);
        let root = self.add_node();
        let old = self.root;
        self.nodes[root as usize].insert(0, i32::MIN, old);
        self.nodes[root as usize].insert(1, border, child);
        self.root = root;
        self.height += 1;
    }

    /// Splits a full node while adding a child; returns the new node and its border.
    fn split(&mut self, node: u32, index: usize, border: i32, child: u32) -> (i32, u32) {
        self.changes = self.changes.wrapping_add(1);
        let added = self.add_node();
        let mut right = Inner::new();
        let left = &mut self.nodes[node as usize];
        // Borders that only grow fill the left node and leave the right one to grow.
        let half = if index == FANOUT { FANOUT - 1 } else { FANOUT / 2 };
        right.len = FANOUT - half;
        right.borders[..right.len].copy_from_slice(&left.borders[half..]);
        right.children[..right.len].copy_from_slice(&left.children[half..]);
        left.borders[half..].fill(UNUSED);
        left.len = half;
        if index <= half {
            left.insert(index, border, child);
        } else {
            right.insert(index - half, border, child);
        }
        let right_border = right.borders[0];
        right.first_takes_all_below();
        self.nodes[added as usize] = right;
        (right_border, added)
    }

    /// Moves the border before a leaf, which `old` leads to, unless the leaf is the first of its node: then
    /// the border is kept further up and `false` is returned.
    pub(crate) fn move_border(&mut self, old: i32, leaf: u32, new: i32) -> bool {
        let Some(level) = self.height.checked_sub(1) else {
            return false;
        };
        let (node, index) = self.path(old)[level];
        let node = &mut self.nodes[node as usize];
        debug_assert_eq!(node.children[index], leaf, "the granule leads to its leaf");
        if index == 0 {
            return false;
        }
        node.borders[index] = new;
        true
    }

    /// Takes out a leaf that `granule` leads to; its range goes to the leaf before, or to the next if it is
    /// the first of its node.
    pub(crate) fn remove(&mut self, granule: i32, leaf: u32) {
        let path = self.path(granule);
        for level in (0..self.height).rev() {
            let (number, index) = path[level];
            let node = &mut self.nodes[number as usize];
            debug_assert!(level + 1 < self.height || node.children[index] == leaf);
            node.remove(index);
            self.changes = self.changes.wrapping_add(1);
            if node.len > 0 {
                break;
            }
            self.free.push(number);
        }
        while self.height > 0 && self.nodes[self.root as usize].len == 1 {
            let only = self.nodes[self.root as usize].children[0];
            self.free.push(self.root);
            self.root = only;
            self.height -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_below_the_first_border_can_be_divided() {
        let [start, first, low, high] = [0u64, 2, 4, 6].map(|granule| granule << GRANULE_SHIFT);
        let mut inners = Inners::new(0);
        inners.insert(granule(low), 1);
        inners.insert(granule(high), 2);
        // What was leaf 0's is leaf 1's now, whose border was higher.
        inners.remove(granule(start), 0);
        inners.insert(granule(first), 3);
        assert_eq!([start, first, low, high].map(|at| inners.find(at)), [1, 3, 3, 2]);
    }
}
