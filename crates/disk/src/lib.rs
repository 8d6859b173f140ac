//! The disk itself: units, geometry, mechanics. It knows nothing of hosts, LBAs or translation layers.
//!
//! * [`units`]: addresses, counts, time and angle as types.
//! * [`geometry`], [`layout`]: from a physical block address to surface, track and angle, and back.
//! * [`shingling`]: what a write destroys of the tracks behind it.
//! * [`mechanics`]: seek, rotation and transfer: how long an access takes and where it leaves the head.
//! * [`turn_floor`]: what a scheduler may pass over.
//!
//! Invariants: no clock, no file, no thread, no hash order; same input, same answer.
//! Sources: Ruemmler and Wilkes' classical model of a drive as used by Skylight (FAST'15, section 4);
//! layouts after Krevat et al. and Skylight section 4.9.

pub mod divisor;
pub mod geometry;
pub mod layout;
pub mod lot;
pub mod mechanics;
pub mod seek;
pub mod shingling;
pub mod turn_floor;
pub mod units;

pub use divisor::Divisor;
pub use geometry::{Geometry, GeometryError, Place, SegmentSpec, Track};
pub use layout::{Layout, RecordingZone, Skews};
pub use lot::{LOT_STEP, lot};
pub use mechanics::{AccessTiming, Beginning, Direction, Disk, Head, Mechanics, Rotation};
pub use seek::SeekCurve;
pub use shingling::Shingling;
pub use turn_floor::TurnFloor;
pub use units::{Angle, BLOCK_SECTORS, Lba, LbaExtent, Nanos, Pba, PbaExtent, SECTOR_BYTES, Sectors, Time};
