//! Counters of a drive: media accesses by purpose, and what its host asked for.
//!
//! Invariant: host sectors are counted when their command completes, media sectors when their access ends,
//! and nothing else is counted, so the sums are those of the executed plans.

use skylight_command::Op;
use skylight_disk::{Direction, Nanos, Sectors};
use skylight_layer::{Medium, Purpose};

/// Totals of one kind of access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Sectors moved.
    pub sectors: u64,
    /// Accesses.
    pub accesses: u64,
    /// Time spent, including seeks and rotational delay.
    pub time: Nanos,
}

/// Counters of a drive since power-on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriveCounters {
    /// By purpose, direction and medium.
    accounts: [[[Account; 2]; 2]; Purpose::ALL.len()],
    /// Host sectors read and written.
    host_sectors: [u64; 2],
    /// Host commands by operation.
    host_commands: [u64; Op::COUNT],
}

impl DriveCounters {
    #[inline]
    pub(crate) fn access(
        &mut self,
        purpose: Purpose,
        direction: Direction,
        medium: Medium,
        sectors: Sectors,
        time: Nanos,
    ) {
        let account = &mut self.accounts[purpose as usize][direction as usize][medium as usize];
        account.sectors += sectors.get();
        account.accesses += 1;
        account.time += time;
    }

    #[inline]
    pub(crate) fn complete(&mut self, op: Op, sectors: Sectors) {
        self.host_commands[op.index()] += 1;
        match op {
            Op::Read => self.host_sectors[0] += sectors.get(),
            Op::Write | Op::Append => self.host_sectors[1] += sectors.get(),
            Op::Flush | Op::Trim | Op::WriteZeroes | Op::Cache | Op::Zone(_) => {}
        }
    }

    /// The totals of one kind of access.
    pub fn account(&self, purpose: Purpose, direction: Direction, medium: Medium) -> Account {
        self.accounts[purpose as usize][direction as usize][medium as usize]
    }

    /// Bytes that the host read or wrote.
    pub fn host_bytes(&self, direction: Direction) -> u64 {
        Sectors(self.host_sectors[direction as usize]).bytes()
    }

    /// Commands that the host completed.
    pub fn host_commands(&self, op: Op) -> u64 {
        self.host_commands[op.index()]
    }

    /// Bytes transferred from or to the media, for all purposes.
    pub fn media_bytes(&self, direction: Direction) -> u64 {
        let sectors = self
            .accounts
            .iter()
            .flat_map(|by_direction| &by_direction[direction as usize])
            .map(|a| a.sectors)
            .sum();
        Sectors(sectors).bytes()
    }
}
