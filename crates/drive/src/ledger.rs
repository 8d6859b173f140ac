//! The ledger: what every media access was for.
//!
//! Invariant: host sectors are counted when their command completes, media sectors when their access ends;
//! nothing else is counted, so sums of the ledger are sums of the plan's steps.

use skylight_disk::{Direction, Nanos, Sectors};
use skylight_layer::{HostOp, Medium, Purpose};

/// Sectors and time of one kind of access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Sectors moved.
    pub sectors: u64,
    /// Accesses.
    pub accesses: u64,
    /// Time spent, with seeks and rotational delay.
    pub time: Nanos,
}

/// Counters of a drive since it was switched on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// By purpose, direction and medium.
    accounts: [[[Account; 2]; 2]; Purpose::ALL.len()],
    /// Host sectors read and written.
    host_sectors: [u64; 2],
    /// Host commands by operation.
    host_commands: [u64; 4],
}

impl Ledger {
    #[inline]
    pub(crate) fn access(
        &mut self,
        purpose: Purpose,
        way: Direction,
        medium: Medium,
        sectors: Sectors,
        time: Nanos,
    ) {
        let account = &mut self.accounts[purpose as usize][way as usize][medium as usize];
        account.sectors += sectors.get();
        account.accesses += 1;
        account.time += time;
    }

    #[inline]
    pub(crate) fn complete(&mut self, op: HostOp, sectors: Sectors) {
        self.host_commands[op as usize] += 1;
        match op {
            HostOp::Read => self.host_sectors[0] += sectors.get(),
            HostOp::Write => self.host_sectors[1] += sectors.get(),
            HostOp::Flush | HostOp::Trim => {}
        }
    }

    /// One account.
    pub fn account(&self, purpose: Purpose, way: Direction, medium: Medium) -> Account {
        self.accounts[purpose as usize][way as usize][medium as usize]
    }

    /// Bytes that the host read or wrote.
    pub fn host_bytes(&self, way: Direction) -> u64 {
        Sectors(self.host_sectors[way as usize]).bytes()
    }

    /// Commands that the host completed.
    pub fn host_commands(&self, op: HostOp) -> u64 {
        self.host_commands[op as usize]
    }

    /// Bytes that went from or to the media, for all purposes.
    pub fn media_bytes(&self, way: Direction) -> u64 {
        let sectors = self.accounts.iter().flat_map(|by_way| &by_way[way as usize]).map(|a| a.sectors).sum();
        Sectors(sectors).bytes()
    }

    /// Bytes written to the media for each byte that the host wrote, or `None` before it wrote any.
    pub fn write_amplification(&self) -> Option<f64> {
        let host = self.host_bytes(Direction::Write);
        (host > 0).then(|| self.media_bytes(Direction::Write) as f64 / host as f64)
    }
}
