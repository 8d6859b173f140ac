//! The events of a drive, for what moves its bytes and for its host: plans that are executed, writes that the volatile
//! cache accepts, commands that complete.
//!
//! Invariant: nothing happens on the drive before the callee of an event returns.

use skylight_command::{CommandId, Failure, Outcome};
use skylight_disk::Time;
use skylight_layer::{Layer, Plan};

/// Whose commands a plan completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The host's.
    Host,
    /// Writes from the volatile cache, by the numbers that the cache assigned.
    Cache,
    /// None: background work of the drive.
    Idle,
}

/// Result of moving the bytes of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionResult {
    /// All bytes are on the media.
    Done,
    /// The plan is done, but its commands fail.
    Failed(Failure),
    /// Some could not be written: the backing storage has no space. The layer reflects what is there, and the
    /// commands of the plan fail.
    Refused(Failure),
}

/// A completed command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answered {
    /// When it completes.
    pub at: Time,
    /// The number it was submitted with.
    pub id: CommandId,
    /// How it ended.
    pub outcome: Outcome,
}

/// Moves the bytes of the executed plans. What is not overridden is right for a drive without bytes.
pub trait PlanExecutor {
    /// A plan is executed; `layer` is in the state after the plan. Nothing happens on the drive before this
    /// returns. If the backing storage has no space, the callee must restore the layer to what is on the
    /// media. Writes then stay in the volatile cache, and the drive retries later; commands of the host
    /// complete regardless.
    #[inline]
    fn executed(&mut self, _origin: Origin, _plan: &Plan, _layer: &mut dyn Layer) -> ExecutionResult {
        ExecutionResult::Done
    }

    /// The volatile cache accepted the write `host`; a plan of [`Origin::Cache`] completes it as `cache`.
    #[inline]
    fn cached(&mut self, _host: CommandId, _cache: CommandId) {}

    /// The completion of a command is decided. A read returns the data as of now; a flush covers all writes
    /// that have completed. Returns how it ends: `outcome` is how it does for the drive, which knows no bytes.
    #[inline]
    fn decided(&mut self, _id: CommandId, outcome: Outcome, _layer: &mut dyn Layer) -> Outcome {
        outcome
    }
}

/// Callbacks for the events of a drive.
pub(crate) trait Observer: PlanExecutor {
    /// A command completes at a time as the host sees it; the host can submit its next command at `free`.
    fn answered(&mut self, answer: Answered, free: Time);
}

/// No host is connected.
pub(crate) struct NoHost;

impl PlanExecutor for NoHost {}

impl Observer for NoHost {
    fn answered(&mut self, _answer: Answered, _free: Time) {
        debug_assert!(false, "no command is outstanding");
    }
}
