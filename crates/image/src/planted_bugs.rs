//! Bugs planted for tests of the tests: each must be noticed by the tests of power cuts, of damage, or of kills.
//!
//! Invariant: without the feature `planted` none takes effect ([`skylight_drive::planted_bugs`]).

/// A bug, by what is not done, or done too soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Recovery believes a tag without looking at its data.
    TagWithoutData,
    /// The tag of a band is written with the band.
    BandTagFirst,
    /// Recovery takes tags in the order of the log.
    NoSequence,
    /// What the map gives back is written over at once.
    ReuseAtOnce,
    /// A flush does not sync.
    NoSync,
    /// A drive whose sectors can be overwritten writes no tags.
    NoRecord,
    /// The tag of a write that is answered when durable is made durable with its bytes, not before.
    RecordWithData,
    /// A mark speaks of a sync that is still to come.
    MarkFirst,
    /// Recovery does not look at marks.
    NoMark,
    /// Recovery does not look at the generation of parts.
    NoPartGeneration,
    /// An image of which durable tags are lost is used all the same.
    LostIgnored,
    /// After a plan that was refused in the middle, the layer stays as it was at the end of it.
    LayerKept,
    /// A flush takes tags for durable that came while its sync was under way.
    DurableTooSoon,
    /// A flush lets go of what was given back while its sync was under way.
    FreedTooSoon,
    /// Recovery of an image in place takes tags behind one that is missing.
    GapIgnored,
    /// The bytes of an image in place are looked for where the layer has a band.
    PlacesFollow,
    /// What a reset of a zone gives up is written over at once.
    ResetForgets,
    /// What moves within the cache is not written where it goes.
    MoveWithoutData,
    /// Recovery believes how far a zone is written without looking at its data.
    ZoneWithoutData,
    /// Recovery takes the tag of a zone without those that it continues.
    ZoneAlone,
    /// Marks of regions are written, and durable with the next sync.
    RegionMarkLater,
    /// A write of data that has checksums has no intent.
    NoIntent,
    /// A region that is marked is cleared at every sync, whether that came after its last write or not.
    RegionClearedBeforeSync,
}

/// The bug that is planted, if any.
pub type Plants = skylight_drive::planted_bugs::Plants<Planted>;
