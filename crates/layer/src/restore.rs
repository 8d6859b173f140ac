//! What a layer takes up from what was found on the media after a power cut.
//!
//! An image keeps, for every extent in the persistent cache, where it lies and the *access* that wrote it: the
//! extent of the medium that the write took, which may be longer than the data, and how much the cache had
//! *taken* before, counted in sectors of such accesses. From the last a journal knows its places, and every
//! layer the order of the writes.
//!
//! Invariant: after [`Layer::restore`] every sector is located where [`Recovered`] says, and elsewhere at home;
//! what the layer writes next lies on nothing that it locates.
//!
//! [`Layer::restore`]: crate::Layer::restore

use skylight_disk::{Lba, LbaExtent, Pba, PbaExtent, Sectors};

/// An extent that lies in the persistent cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedExtent {
    /// What the host calls it.
    pub lba: LbaExtent,
    /// Where its first sector lies; the others follow.
    pub pba: Pba,
    /// The access that wrote it.
    pub access: PbaExtent,
    /// Sectors that accesses to the cache had taken before that one.
    pub taken: u64,
}

impl CachedExtent {
    /// Its place in the order of writes.
    #[inline]
    pub fn order(&self) -> u64 {
        self.taken + (self.pba - self.access.start).get()
    }
}

/// All that was found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovered<'a> {
    /// What lies in the cache, in the order in which it was written ([`CachedExtent::order`]); no sector twice.
    pub cached: &'a [CachedExtent],
    /// Bands that lie elsewhere than on a new drive, and where.
    pub moved: &'a [(LbaExtent, Pba)],
}

/// Something was found where this drive never puts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sector {0} is said to lie where this drive never puts it")]
pub struct Misplaced(pub Lba);

/// The room on the media that a layer uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaUse {
    /// Sectors of the platters, from address 0.
    pub platter: Sectors,
    /// Sectors of the platters that nothing ever lies in, if they lie together: a store may leave them out.
    pub gap: PbaExtent,
    /// Sectors of flash, from address 0.
    pub flash: Sectors,
    /// The most sectors that ever lie in the persistent cache.
    pub cached: Sectors,
    /// The most bands that ever lie elsewhere than on a new drive.
    pub movable: u64,
    /// The most sectors of the platters that writes to others ever overwrite: those of a raw shingled disk.
    pub overwritable: Sectors,
}
