//! What a front door may ask about the blocks of an extent, and the answers.

/// What is asked about the blocks of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatusQuery {
    /// Which blocks are holes, and so read as zeroes.
    Allocation,
    /// Which blocks lie in the persistent cache, and which at their native location.
    Cached,
    /// Which blocks of a raw shingled disk were overwritten by a write to another track.
    Overwritten,
}

impl StatusQuery {
    /// Every query.
    pub const ALL: [Self; 3] = [Self::Allocation, Self::Cached, Self::Overwritten];
}

/// What a block is, within the bounds of one [`StatusQuery`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockState {
    /// Nothing that the query is about.
    Ordinary,
    /// Not allocated, and reads as zeroes ([`StatusQuery::Allocation`]).
    Hole,
    /// In the persistent cache ([`StatusQuery::Cached`]).
    Cached,
    /// What was written there is gone ([`StatusQuery::Overwritten`]).
    Overwritten,
}

/// A run of blocks in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub len: u64,
    /// What all of it is.
    pub state: BlockState,
}

/// Appends a run of blocks, to the one before it if that is in the same state.
pub fn push_extent(extents: &mut Vec<Extent>, len: u64, state: BlockState) {
    match extents.last_mut() {
        Some(last) if last.state == state => last.len += len,
        _ if len > 0 => extents.push(Extent { len, state }),
        _ => {}
    }
}
