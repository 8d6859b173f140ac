//! The table of commands in flight, by the ID that the drive uses.
//!
//! Invariant: an ID belongs to one command until it completes; IDs of completed commands are reused, so the table is as
//! long as the deepest queue.

use skylight_disk::{LbaExtent, Time};
use skylight_layer::{Command, CommandId};

use crate::core::Job;

/// A command in flight.
pub(super) struct InFlight {
    pub(super) job: Job,
    /// When it arrived.
    pub(super) came: Time,
    /// The zeroes command of which it is a part.
    pub(super) part_of: Option<u32>,
    /// For a read whose plan was executed, of a drive with zones or one whose sectors can be overwritten: the parts that
    /// the plan fails.
    pub(super) planned: Option<Vec<LbaExtent>>,
}

/// See the module documentation.
#[derive(Default)]
pub(super) struct CommandTable {
    slots: Vec<Option<InFlight>>,
    free: Vec<u32>,
}

impl CommandTable {
    /// Adds a command and gives it an ID.
    pub(super) fn start(&mut self, mut job: Job, came: Time, part_of: Option<u32>) -> Command {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        job.command.id = CommandId(id);
        let command = job.command;
        self.slots[id as usize] = Some(InFlight { job, came, part_of, planned: None });
        command
    }

    /// Removes a completed command; its ID is free again.
    pub(super) fn finish(&mut self, id: CommandId) -> Option<InFlight> {
        let in_flight = self.slots.get_mut(id.0 as usize)?.take()?;
        self.free.push(id.0);
        Some(in_flight)
    }

    /// The command with an ID.
    pub(super) fn get(&self, id: CommandId) -> Option<&InFlight> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    /// The same, mutable.
    pub(super) fn get_mut(&mut self, id: CommandId) -> Option<&mut InFlight> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }
}
