//! The physical disk: units, geometry, mechanics. It has no notion of hosts, host LBAs or translation layers.
//!
//! * [`units`]: addresses, counts, time and angle as types.
//! * [`geometry`], [`layout`]: map a physical block address to surface, track and angle, and back.
//! * [`shingling`]: which sectors of the following tracks a write overwrites.
//! * [`mechanics`]: seek, rotation and transfer: how long an access takes and where it leaves the head.
//! * [`seek`], [`seek_floor`]: seek time by distance, and the lower bound with which a scheduler prunes
//!   candidates.
//! * [`mod@splitmix64`]: seeded pseudorandom numbers.
//!
//! Invariants: no clock, no file, no thread, no hash order; the same input gives the same result.
//! Sources: Ruemmler and Wilkes' model of a drive as used by Skylight (FAST'15, section 4); layouts after
//! Krevat et al. and Skylight section 4.9.

pub mod divisor;
pub mod geometry;
pub mod layout;
pub mod mechanics;
pub mod seek;
pub mod seek_floor;
pub mod shingling;
pub mod splitmix64;
pub mod units;

pub use divisor::Divisor;
pub use geometry::{Geometry, GeometryError, SectorPosition, SegmentSpec, Track};
pub use layout::{Layout, RecordingZone, Skews};
pub use mechanics::{AccessStart, AccessTiming, Direction, Disk, Head, Mechanics, Rotation};
pub use seek::SeekCurve;
pub use seek_floor::SeekFloor;
pub use shingling::Shingling;
pub use splitmix64::{SPLITMIX64_STEP, splitmix64};
pub use units::{Angle, BLOCK_SECTORS, Lba, LbaExtent, Nanos, Pba, PbaExtent, SECTOR_BYTES, Sectors, Time};
