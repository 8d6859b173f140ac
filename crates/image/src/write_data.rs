//! The data of the host's writes that a plan takes.
//!
//! Invariant: a layer's plan has the data of the writes that it takes in the order in which it completes them.

use skylight_disk::{LbaExtent, Sectors};
use skylight_layer::{CommandId, Plan};

/// The bytes of a host write that waits.
#[derive(Clone, Copy, Debug)]
pub struct HostWrite<'a> {
    /// Its number in the plan.
    pub id: CommandId,
    /// What the host calls it.
    pub extent: LbaExtent,
    /// As long as the extent.
    pub data: &'a [u8],
}

/// The host's bytes of a plan, taken in the order in which it completes commands.
pub(crate) struct HostData<'a> {
    rest: Vec<HostWrite<'a>>,
    next: usize,
    /// Sectors of the next one that were taken.
    into: Sectors,
}

impl<'a> HostData<'a> {
    pub fn of(plan: &Plan, writes: &[HostWrite<'a>]) -> Self {
        let done = plan.completions().filter(|(_, outcome)| outcome.status().is_ok());
        let completed = done.filter_map(|(id, _)| {
            // Most callers number their writes from 0 on.
            let there = writes.get(id.0 as usize).filter(|write| write.id == id);
            there.or_else(|| writes.iter().find(|write| write.id == id)).copied()
        });
        Self { rest: completed.collect(), next: 0, into: Sectors(0) }
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        self.rest.iter().map(|write| write.data.len() as u64).sum()
    }

    /// The next piece of at most `len` sectors.
    pub fn take(&mut self, len: Sectors) -> Option<(LbaExtent, &'a [u8])> {
        let write = self.rest.get(self.next)?;
        let here = len.min(write.extent.len - self.into);
        let from = self.into.bytes() as usize;
        let piece = LbaExtent::new(write.extent.start + self.into, here);
        self.into += here;
        if self.into == write.extent.len {
            (self.next, self.into) = (self.next + 1, Sectors(0));
        }
        Some((piece, &write.data[from..from + here.bytes() as usize]))
    }
}
