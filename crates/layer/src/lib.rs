//! Translation layers: pure state machines from host commands to plans.
//!
//! * [`plan`]: steps, plans, and the [`Layer`] trait.
//! * [`capabilities`]: what only some drives can do, a trait each.
//! * [`extent_map`]: which host extents lie elsewhere, and where.
//! * [`restore`]: what a layer takes up from what was found after a power cut.
//! * [`bands`]: how the host's address space lies in bands on the platters.
//! * [`raw_shingled`]: the raw shingled disk, which has no translation.
//! * [`hbuffer`]: an ordinary block device of a drive with zones.
//! * [`zone_set`]: a set of zones.
//! * [`conventional`], [`set_associative`], [`fully_associative`], [`journaled`], [`zoned`]: the layers.
//!
//! Invariants: no clock, no file, no thread, no hash order, no randomness; the same commands give the same
//! plans. See idea 1 of `docs/architecture.md`.

pub mod bands;
pub mod capabilities;
pub mod conventional;
pub mod extent_map;
pub mod fully_associative;
pub mod hbuffer;
pub mod journaled;
pub mod plan;
pub mod raw_shingled;
pub mod restore;
pub mod set_associative;
pub mod zone_set;
pub mod zoned;

pub use bands::{Bands, StretchSpec};
pub use capabilities::overwriting::Overwriting;
pub use capabilities::zoned::{
    Order, Preparation, ZoneCondition, ZoneDescriptor, ZoneFilter, ZoneKind, ZoneLayout, ZoneModel,
    ZoneRecord, Zoned,
};
pub use conventional::Conventional;
pub use extent_map::{ExtentMap, MAX_ADDRESS, Mapped};
#[cfg(feature = "audit")]
pub use fully_associative::ZoneUse;
pub use fully_associative::{FullyAssociative, FullyAssociativeSpec};
pub use journaled::{Journaled, JournaledSpec};
pub use plan::{
    CacheUse, Idle, Layer, Lba48, MapChange, Medium, Pba48, Piece, Plan, Purpose, Queue, Room, Source, Step,
};
pub use raw_shingled::{Swd, SwdSpec};
pub use restore::{CachedExtent, MediaUse, Misplaced, Recovered};
pub use set_associative::{SetAssociative, SetAssociativeSpec};
pub use zone_set::ZoneSet;
pub use zoned::{ZonedLayer, ZonedSpec};

// What the trait speaks of.
pub use skylight_command::{Command, CommandId, Failure, Flags, Op, Outcome, ZoneAction};
