//! Bugs planted for tests of the tests: one in each place where commands wait. Whoever compares bytes has to notice
//! each of them. Crates above plant theirs by the same [`Plants`].
//!
//! Invariant: only the feature `planted` makes a bug take effect, and only dev-dependencies switch it on (`make lint`
//! holds that). Without it [`Plants`] is empty, [`Plants::has`] is constantly false, and the compiler leaves out what a
//! bug would do.

use std::marker::PhantomData;

/// A bug, by the place where it is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A command that needs the media has the first write leave that it touches, whatever that one overlaps.
    LeavesBeforeOlder,
    /// The write that the heads reach first leaves, whatever it overlaps.
    NearestLeaves,
    /// The layer is shown the writes of the volatile cache newest first.
    NewestFirst,
    /// Commands that conflict do not wait for each other.
    NoConflicts,
}

/// The bug of one kind that is planted, if any.
#[derive(Clone, Copy, Debug)]
pub struct Plants<Bug> {
    #[cfg(feature = "planted")]
    bug: Option<Bug>,
    kind: PhantomData<Bug>,
}

impl<Bug> Plants<Bug> {
    /// None.
    pub const NONE: Self = Self {
        #[cfg(feature = "planted")]
        bug: None,
        kind: PhantomData,
    };
}

impl<Bug> Default for Plants<Bug> {
    fn default() -> Self {
        Self::NONE
    }
}

#[cfg(feature = "planted")]
impl<Bug> From<Option<Bug>> for Plants<Bug> {
    fn from(bug: Option<Bug>) -> Self {
        Self { bug, kind: PhantomData }
    }
}

impl<Bug: Copy + PartialEq> Plants<Bug> {
    /// Whether a bug is planted.
    #[inline]
    pub fn has(self, bug: Bug) -> bool {
        #[cfg(feature = "planted")]
        return self.bug == Some(bug);
        #[cfg(not(feature = "planted"))]
        {
            let _ = bug;
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_is_planted_in_its_own_place_only() {
        let plants = Plants::from(Some(Planted::NearestLeaves));
        assert!(plants.has(Planted::NearestLeaves), "tests are built with the feature");
        assert!(!plants.has(Planted::NewestFirst));
        assert!(!Plants::default().has(Planted::NearestLeaves));
    }
}
