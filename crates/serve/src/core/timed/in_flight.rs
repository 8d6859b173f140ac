//! The commands between their arrival and their answer, by the numbers that the drive knows them by.
//!
//! Invariant: a number is that of one command until it is answered; numbers of answered commands are used again, so the
//! table is as long as the deepest queue.

use skylight_disk::{LbaExtent, Time};
use skylight_layer::{Command, CommandId};

use crate::core::Job;

/// A command between its arrival and its answer.
pub(super) struct InFlight {
    pub(super) job: Job,
    pub(super) came: Time,
    /// The zeroes of which it is a part.
    pub(super) part_of: Option<u32>,
    /// Of a raw shingled disk: what its layer's plan has read, and which parts of it are errors.
    pub(super) planned: Option<Vec<LbaExtent>>,
}

/// See the module page.
#[derive(Default)]
pub(super) struct CommandTable {
    slots: Vec<Option<InFlight>>,
    free: Vec<u32>,
}

impl CommandTable {
    /// A command came and gets its number.
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

    /// A command is answered: its number is free.
    pub(super) fn finish(&mut self, id: CommandId) -> Option<InFlight> {
        let in_flight = self.slots.get_mut(id.0 as usize)?.take()?;
        self.free.push(id.0);
        Some(in_flight)
    }

    /// The command of a number.
    pub(super) fn get(&self, id: CommandId) -> Option<&InFlight> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, id: CommandId) -> Option<&mut InFlight> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }
}
