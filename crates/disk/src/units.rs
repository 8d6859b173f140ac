//! Units of a disk: addresses, counts, time and angle, each a type of its own.
//!
//! Invariants: addresses are never added to each other; the 512-byte *sector* is the unit of every address
//! and extent; time is an integer number of nanoseconds that only the model advances; an angle is a 0.64
//! fixed-point fraction of a revolution, so that it wraps as the platter does.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Bytes in a sector, the unit of every address.
pub const SECTOR_BYTES: u64 = 512;
/// Sectors in a block, the mapping unit of translation layers (Skylight, section 4).
pub const BLOCK_SECTORS: u64 = 8;

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The bare number, for arithmetic that the type does not provide.
            #[inline]
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

unit!(
    /// A logical block address: a sector of the host's address space.
    Lba
);
unit!(
    /// A physical block address: a sector of a medium.
    Pba
);
unit!(
    /// A count of 512-byte sectors.
    Sectors
);
unit!(
    /// A duration in nanoseconds.
    Nanos
);
unit!(
    /// A point in time: nanoseconds since power-on of the drive.
    Time
);
unit!(
    /// A fraction of a revolution in 0.64 fixed point: 2^64 is one revolution. Sums and differences wrap.
    Angle
);

impl Sectors {
    /// The count in bytes.
    #[inline]
    pub const fn bytes(self) -> u64 {
        self.0 * SECTOR_BYTES
    }
}

/// `$name + $count` is a `$name`, the difference of two of them a `$count`.
macro_rules! arithmetic {
    ($name:ident, $count:ident) => {
        impl Add<$count> for $name {
            type Output = Self;
            #[inline]
            fn add(self, count: $count) -> Self {
                Self(self.0 + count.0)
            }
        }

        impl AddAssign<$count> for $name {
            #[inline]
            fn add_assign(&mut self, count: $count) {
                self.0 += count.0;
            }
        }

        impl Sub for $name {
            type Output = $count;
            #[inline]
            fn sub(self, earlier: Self) -> $count {
                $count(self.0 - earlier.0)
            }
        }
    };
}

arithmetic!(Lba, Sectors);
arithmetic!(Pba, Sectors);
arithmetic!(Sectors, Sectors);
arithmetic!(Time, Nanos);
arithmetic!(Nanos, Nanos);

macro_rules! extent {
    ($extent:ident, $address:ident, $what:literal) => {
        #[doc = concat!("A run of sectors on ", $what, ": start and length.")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $extent {
            /// The first sector.
            pub start: $address,
            /// Number of sectors.
            pub len: Sectors,
        }

        impl $extent {
            /// The extent of `len` sectors from `start`.
            #[inline]
            pub const fn new(start: $address, len: Sectors) -> Self {
                Self { start, len }
            }

            /// The first address after the extent.
            #[inline]
            pub fn end(self) -> $address {
                self.start + self.len
            }

            /// Whether the extent is empty.
            #[inline]
            pub const fn is_empty(self) -> bool {
                self.len.0 == 0
            }

            /// Whether the two extents, neither of them empty, have a sector in common.
            #[inline]
            pub fn overlaps(self, other: Self) -> bool {
                self.start < other.end() && other.start < self.end()
            }
        }
    };
}

extent!(LbaExtent, Lba, "the host's address space");
extent!(PbaExtent, Pba, "a medium");

impl Angle {
    /// The angle of forward rotation from `earlier` to `self`.
    #[inline]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.wrapping_sub(earlier.0))
    }

    /// This angle rotated forward by `by`.
    #[inline]
    pub const fn advanced(self, by: Self) -> Self {
        Self(self.0.wrapping_add(by.0))
    }

    /// The angle as a number of revolutions, 0 to 1, for display.
    pub fn as_revolutions(self) -> f64 {
        self.0 as f64 / 18_446_744_073_709_551_616.0
    }

    /// The angle nearest to a number of revolutions; whole revolutions are dropped.
    pub fn from_revolutions(revolutions: f64) -> Self {
        let fraction = revolutions - revolutions.floor();
        Self((fraction * 18_446_744_073_709_551_616.0) as u64)
    }
}
