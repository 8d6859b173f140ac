//! Block status: what a front door can query about the blocks of an extent.

/// A query about the blocks of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatusQuery {
    /// Which blocks are holes and therefore read as zeroes.
    Allocation,
    /// Which blocks lie in the persistent cache and which at their native location.
    Cached,
    /// Which blocks were overwritten by a write to another track.
    Overwritten,
}

impl StatusQuery {
    /// Every query.
    pub const ALL: [Self; 3] = [Self::Allocation, Self::Cached, Self::Overwritten];
}

/// The state of a block with respect to one [`StatusQuery`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockState {
    /// None of the states that the query reports.
    Ordinary,
    /// Not allocated; reads as zeroes ([`StatusQuery::Allocation`]).
    Hole,
    /// In the persistent cache ([`StatusQuery::Cached`]).
    Cached,
    /// Its data has been overwritten ([`StatusQuery::Overwritten`]).
    Overwritten,
}

/// Adjacent blocks in the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length, bytes.
    pub len: u64,
    /// The state of all its blocks.
    pub state: BlockState,
}

/// Appends an extent, merging it with the previous one if both are in the same state.
pub fn push_extent(extents: &mut Vec<Extent>, len: u64, state: BlockState) {
    match extents.last_mut() {
        Some(last) if last.state == state => last.len += len,
        _ if len > 0 => extents.push(Extent { len, state }),
        _ => {}
    }
}

/// How far extents reach from where the first begins, bytes.
pub fn reported_bytes(extents: &[Extent]) -> u64 {
    extents.iter().map(|extent| extent.len).sum()
}
