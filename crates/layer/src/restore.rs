//! The state from which a layer restores its map after a power cut.
//!
//! For every extent in the persistent cache, an image stores its location and the *access* that wrote it: the
//! extent of the medium that the write occupied, which may be longer than the data, and the total length of
//! all earlier accesses to the cache, in sectors (`taken`). A journal derives its slots from `taken`, and
//! every layer the order of the writes.
//!
//! Invariant: after [`Layer::restore`] every sector in [`Recovered`] is at the location given there, and
//! every other sector at its initial location; later writes of the layer overwrite none of them.
//!
//! [`Layer::restore`]: crate::Layer::restore

use skylight_disk::{Lba, LbaExtent, Pba, PbaExtent, Sectors};

/// A host extent whose data is in the persistent cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedExtent {
    /// The host extent.
    pub lba: LbaExtent,
    /// The location of its first sector; the others follow.
    pub pba: Pba,
    /// The extent of the medium that the write occupied.
    pub access: PbaExtent,
    /// Total sectors of the accesses to the cache before that write.
    pub taken: u64,
}

impl CachedExtent {
    /// Sort key for the order of the writes.
    #[inline]
    pub fn order(&self) -> u64 {
        self.taken + (self.pba - self.access.start).get()
    }
}

/// The mapping found on the media.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovered<'a> {
    /// The extents in the cache, in the order of their writes ([`CachedExtent::order`]); no sector twice.
    pub cached: &'a [CachedExtent],
    /// Bands that have left their initial location, with their current one.
    pub moved: &'a [(LbaExtent, Pba)],
}

/// The recorded location of a sector is one that this drive never uses for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the recorded location of sector {0} is one that this drive never uses for it")]
pub struct Misplaced(pub Lba);

/// The space on the media that a layer uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaUse {
    /// Sectors of the platters, from address 0.
    pub platter: Sectors,
    /// One extent of the platters that never holds data: a store may omit it.
    pub gap: PbaExtent,
    /// Sectors of flash, from address 0.
    pub flash: Sectors,
    /// The maximum number of sectors in the persistent cache.
    pub cached: Sectors,
    /// The maximum number of bands outside their initial location.
    pub movable: u64,
    /// The maximum number of sectors that writes to other sectors overwrite, on a raw shingled disk.
    pub overwritable: Sectors,
    /// The number of zones of which an image keeps a record.
    pub zones: u64,
}
