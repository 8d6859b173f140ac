//! The commands between their arrival and their answer, by the numbers that the drive knows them by.
//!
//! Invariant: a number is that of one command until it is answered; numbers of answered commands are used again, so the
//! table is as long as the deepest queue.

use skylight_disk::{LbaExtent, Time};
use skylight_layer::CommandId;

use crate::core::{Errno, Job};

/// A command between its arrival and its answer.
pub(super) struct InFlight {
    pub(super) job: Job,
    pub(super) came: Time,
    pub(super) result: Result<(), Errno>,
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
    /// A command came; its number.
    pub(super) fn start(&mut self, job: Job, came: Time, part_of: Option<u32>) -> u32 {
        let in_flight = Some(InFlight { job, came, result: Ok(()), part_of, planned: None });
        match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = in_flight;
                id
            }
            None => {
                self.slots.push(in_flight);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// A command is answered: its number is free.
    pub(super) fn finish(&mut self, id: u32) -> Option<InFlight> {
        let in_flight = self.slots.get_mut(id as usize)?.take()?;
        self.free.push(id);
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

    /// Fails commands.
    pub(super) fn fail(&mut self, ids: &[CommandId], errno: Errno) {
        for &id in ids {
            if let Some(in_flight) = self.get_mut(id) {
                in_flight.result = Err(errno);
            }
        }
    }
}
