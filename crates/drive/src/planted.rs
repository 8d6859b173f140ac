//! Bugs planted for tests of the tests: one in each place where commands wait. Whoever compares bytes has to notice
//! each of them.
//!
//! Invariant: only the feature `planted` makes a bug take effect, and only dev-dependencies switch it on (`make lint`
//! holds that). Without it [`Plants`] is empty, [`Plants::has`] is constantly false, and the compiler leaves out what a
//! bug would do.

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

/// The bug that is planted, if any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plants {
    #[cfg(feature = "planted")]
    bug: Option<Planted>,
}

impl Plants {
    /// That one bug; none without the feature.
    pub(crate) fn only(bug: Planted) -> Self {
        #[cfg(feature = "planted")]
        return Self { bug: Some(bug) };
        #[cfg(not(feature = "planted"))]
        {
            let _ = bug;
            Self {}
        }
    }

    /// Whether a bug is planted.
    #[inline]
    pub(crate) fn has(self, bug: Planted) -> bool {
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
        let plants = Plants::only(Planted::NearestLeaves);
        assert!(plants.has(Planted::NearestLeaves), "tests are built with the feature");
        assert!(!plants.has(Planted::NewestFirst));
        assert!(!Plants::default().has(Planted::NearestLeaves));
    }
}
