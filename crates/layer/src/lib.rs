//! Translation layers: pure state machines from host commands to plans.
//!
//! * [`plan`]: steps, plans, and the [`Layer`] trait.
//! * [`extent_map`]: which host extents lie elsewhere, and where.
//! * [`conventional`], [`set_associative`]: the layers.
//!
//! Invariants: no clock, no file, no thread, no hash order, no randomness; the same commands give the same
//! plans. See DESIGN idea 1 in `docs/architecture.md`.

pub mod conventional;
pub mod extent_map;
mod inner;
mod leaf;
pub mod plan;
pub mod set_associative;

pub use conventional::Conventional;
pub use extent_map::{ExtentMap, Mapped};
pub use plan::{
    CacheUse, Command, CommandId, HostOp, Idle, Layer, MapChange, Medium, Piece, Plan, Purpose, Queue, Step,
};
pub use set_associative::{SetAssociative, SetAssociativeSpec};
