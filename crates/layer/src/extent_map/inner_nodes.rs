//! The inner nodes of the extent map: find the leaf for an address.
//!
//! Borders between leaves are multiples of a granule of 64 sectors, so that a border fits in 32 bits and SIMD
//! instructions compare many at once: a look-up scans one short array for each level, usually three. A
//! granule has at most as many extents as fit in a leaf, so a full leaf can always be split.
//!
//! Invariants: borders increase within a node; the first border of a node is not used, so that the first
//! child covers everything below the second; every leaf is a child of exactly one node.

/// Children of a node.
const FANOUT: usize = 64;
/// An upper bound on the levels of any map: 32^8 leaves.
pub(crate) const MAX_HEIGHT: usize = 8;
/// The border of an unused child: above all others.
const UNUSED: i32 = i32::MAX;
/// Log2 of the sectors in a granule.
const GRANULE_SHIFT: u32 = 6;

/// The granule of a sector below 2^38 (140 TB), as a signed number in the same order.
#[inline]
pub(crate) fn granule(start: u64) -> i32 {
    debug_assert!(start >> GRANULE_SHIFT < u64::from(u32::MAX), "the map is limited to 140 TB");
    ((start >> GRANULE_SHIFT) as u32 ^ (1 << 31)).cast_signed()
}

/// The first sector of the granule that contains a sector.
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

    /// The index of the child that covers a granule.
    #[inline]
    fn child_for(&self, granule: i32) -> usize {
        let below: i32 = self.borders.iter().map(|&border| i32::from(border <= granule)).sum();
        // The first border is not used: the first child covers everything below the second.
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
        self.clear_first_border();
    }

    /// Sets the first border below all others. Otherwise a border inserted after it could be lower, and a
    /// search, which counts borders, would miss that child.
    fn clear_first_border(&mut self) {
        if self.len > 0 {
            self.borders[0] = i32::MIN;
        }
    }
}

/// Prefetches the first `bytes` bytes of a value into the processor's cache.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..bytes).step_by(64) {
        let address = std::ptr::from_ref(value).cast::<i8>().wrapping_add(line);
        // SAFETY: a prefetch has no visible effect on the program, for any address.
        unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// A path from the root: the node and the index of the child at each level.
type Path = [(u32, usize); MAX_HEIGHT];

/// The inner nodes of a map.
pub(crate) struct Inners {
    nodes: Vec<Inner>,
    free: Vec<u32>,
    /// A node, or the only leaf if there are no levels.
    root: u32,
    height: usize,
    /// Number of structural changes: a [`Parent`] found before the latest one is invalid.
    changes: u32,
}

/// The parent of the leaf for some sector.
#[derive(Clone, Copy)]
pub(crate) struct Parent {
    node: u32,
    changes: u32,
}

impl Inners {
    /// A tree of one leaf.
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

    /// Finds and prefetches the parent of the leaf for a sector.
    #[inline]
    pub(crate) fn find_parent(&self, start: u64) -> Parent {
        let granule = granule(start);
        let mut at = self.root;
        for _ in 1..self.height {
            let node = &self.nodes[at as usize];
            at = node.children[node.child_for(granule)];
        }
        if self.height > 0 {
            prefetch(&self.nodes[at as usize], size_of::<Inner>());
        }
        Parent { node: at, changes: self.changes }
    }

    /// The leaf for a sector, given the result of [`Inners::find_parent`] for the same sector.
    #[inline]
    pub(crate) fn find_from(&self, start: u64, from: Parent) -> u32 {
        if self.height == 0 || from.changes != self.changes {
            return self.find(start);
        }
        let node = &self.nodes[from.node as usize];
        node.children[node.child_for(granule(start))]
    }

    fn path(&self, granule: i32) -> Path {
        let mut path = [(0, 0); MAX_HEIGHT];
        let mut at = self.root;
        for step in path.iter_mut().take(self.height) {
            let node = &self.nodes[at as usize];
            let child = node.child_for(granule);
            *step = (at, child);
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

    /// Inserts a leaf that covers the granules from `border` to the next border.
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
        // Sequential insertions leave full nodes behind.
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
        right.clear_first_border();
        self.nodes[added as usize] = right;
        (right_border, added)
    }

    /// Moves the lower border of a leaf, which covers granule `old`. Returns `false` if the leaf is the first
    /// of its node, since the border is then stored further up.
    pub(crate) fn move_border(&mut self, old: i32, leaf: u32, new: i32) -> bool {
        let Some(level) = self.height.checked_sub(1) else {
            return false;
        };
        let (node, index) = self.path(old)[level];
        let node = &mut self.nodes[node as usize];
        debug_assert_eq!(node.children[index], leaf, "the leaf covers the granule");
        if index == 0 {
            return false;
        }
        node.borders[index] = new;
        true
    }

    /// Removes a leaf that covers `granule`. The previous leaf takes over its range, or the next one if the
    /// leaf is the first of its node.
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
    fn a_range_below_the_first_border_can_be_split() {
        let [start, first, low, high] = [0u64, 2, 4, 6].map(|granule| granule << GRANULE_SHIFT);
        let mut inners = Inners::new(0);
        inners.insert(granule(low), 1);
        inners.insert(granule(high), 2);
        // Leaf 1, whose border is higher, takes over the range of leaf 0.
        inners.remove(granule(start), 0);
        inners.insert(granule(first), 3);
        assert_eq!([start, first, low, high].map(|at| inners.find(at)), [1, 3, 3, 2]);
    }
}
