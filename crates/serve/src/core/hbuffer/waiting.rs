//! The host's commands that wait for the buffer, with their data.
//!
//! Zeros are written, and long trims done, in parts, so that other commands come in between.
//!
//! Invariants: conflicting commands take effect in the order in which they came; every command completes once.

use std::collections::VecDeque;

use skylight_command::{CommandId, Outcome};
use skylight_disk::{LbaExtent, Sectors};
use skylight_layer::hbuffer::device::HostData;

use crate::core::{Command, Job, Op};

/// The longest part of zeros, 1 MiB: as the longest piece of a client's write.
const ZEROS: Sectors = Sectors(2048);
/// The most zones that a part of a trim empties. Chosen: a reset takes a drive some revolutions.
const TRIM_ZONES: u64 = 8;
/// The most commands that the buffer chooses from: as many extents as an entry of its log has, and some more.
const MOST_SHOWN: usize = 64;

/// A command, and what is left of it.
struct Pending {
    job: Job,
    /// Its number in the order of arrival.
    arrival: u64,
    rest: LbaExtent,
}

/// See the module page.
pub(super) struct Waiting {
    /// By the number of the command that the buffer uses.
    slots: Vec<Option<Pending>>,
    free: Vec<u32>,
    /// In the order in which they are to be served.
    order: VecDeque<u32>,
    arrivals: u64,
    /// Sectors of a home zone.
    zone: Sectors,
    zeros: Vec<u8>,
}

impl Pending {
    /// All that is left to do, as a command.
    fn rest(&self) -> Command {
        Command { extent: self.rest, ..self.job.command }
    }
}

impl Waiting {
    /// No command waits. Home zones have `zone` sectors.
    pub fn new(zone: Sectors) -> Self {
        let zeros = vec![0; ZEROS.bytes() as usize];
        Self { slots: Vec::new(), free: Vec::new(), order: VecDeque::new(), arrivals: 0, zone, zeros }
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The commands that wait.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Adds a command. Its data has [`Command::data_bytes`] bytes.
    pub fn push(&mut self, mut job: Job) {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        job.command.id = CommandId(id);
        let (arrival, rest) = (self.arrivals, job.command.extent);
        self.arrivals += 1;
        self.slots[id as usize] = Some(Pending { job, arrival, rest });
        self.order.push_back(id);
    }

    fn pending(&self) -> impl Iterator<Item = &Pending> {
        self.order.iter().filter_map(|&id| self.slots[id as usize].as_ref())
    }

    /// The next part of a command, as the buffer does it. What it promises counts when the last part is done.
    fn part(&self, pending: &Pending) -> Command {
        let rest = pending.rest();
        let LbaExtent { start, len } = rest.extent;
        let (op, most) = match rest.op {
            Op::WriteZeroes => (Op::Write, ZEROS),
            // Parts end where zones do, so that these are emptied.
            Op::Trim => {
                let zone = self.zone.get();
                (Op::Trim, Sectors((start.get() / zone + TRIM_ZONES) * zone - start.get()))
            }
            op => (op, len),
        };
        let extent = LbaExtent::new(start, len.min(most));
        Command { op, extent, ..rest }.with_fua(rest.flags.fua && extent.len == len)
    }

    /// Puts the commands that can be served next into `shown`: none conflicts with one that came before it.
    pub fn show(&self, shown: &mut Vec<Command>) {
        shown.clear();
        for pending in self.pending() {
            let waits = |older: &Pending| {
                older.arrival < pending.arrival && older.rest().conflicts_with(&pending.rest())
            };
            if !self.pending().any(waits) {
                shown.push(self.part(pending));
            }
            if shown.len() == MOST_SHOWN {
                return;
            }
        }
    }

    /// Drops the commands whose clients are gone.
    pub fn drop_cancelled(&mut self) {
        self.drop_where(|pending| pending.job.is_cancelled());
    }

    /// Drops the commands that are done in parts: the server shuts down.
    pub fn drop_partial(&mut self) {
        self.drop_where(|pending| matches!(pending.job.command.op, Op::WriteZeroes | Op::Trim));
    }

    fn drop_where(&mut self, unwanted: impl Fn(&Pending) -> bool) {
        let Self { slots, free, order, .. } = self;
        order.retain(|&id| {
            let slot = &mut slots[id as usize];
            let keeps = !slot.as_ref().is_none_or(&unwanted);
            if !keeps {
                // Dropping its job completes it.
                *slot = None;
                free.push(id);
            }
            keeps
        });
    }
}

impl HostData for Waiting {
    fn data(&self, id: CommandId) -> &[u8] {
        match &self.slots[id.0 as usize] {
            Some(Pending { job, .. }) if job.command.op != Op::WriteZeroes => &job.data,
            _ => &self.zeros,
        }
    }

    fn buffer(&mut self, id: CommandId) -> &mut [u8] {
        self.slots[id.0 as usize].as_mut().map_or(&mut [], |pending| &mut pending.job.data)
    }

    fn complete(&mut self, id: CommandId, outcome: Outcome) {
        let Some(mut pending) = self.slots[id.0 as usize].take() else { return };
        self.order.retain(|&waiting| waiting != id.0);
        let done = self.part(&pending).extent;
        if outcome == Outcome::Done && done.end() < pending.rest.end() {
            pending.rest = LbaExtent::new(done.end(), pending.rest.len - done.len);
            self.slots[id.0 as usize] = Some(pending);
            self.order.push_back(id.0);
            return;
        }
        self.free.push(id.0);
        pending.job.finish(outcome);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::core::{Completion, Failure};

    fn push(waiting: &mut Waiting, op: Op, offset: u64, len: u64) -> Receiver<Completion> {
        let (sender, receiver) = channel();
        let command = Command::of_bytes(op, offset, len);
        let data = vec![1; command.data_bytes() as usize];
        let answer = move |completion| sender.send(completion).expect("somebody receives");
        waiting.push(Job::new(command, data, Box::new(answer)));
        receiver
    }

    fn shown(waiting: &Waiting) -> Vec<Command> {
        let mut shown = Vec::new();
        waiting.show(&mut shown);
        shown
    }

    #[test]
    fn zeros_are_written_in_parts_and_what_overlaps_the_rest_waits() {
        const MIB: u64 = 1 << 20;
        let mut waiting = Waiting::new(Sectors(8192));
        let zeros = push(&mut waiting, Op::WriteZeroes, 0, 2 * MIB + 512);
        let above = push(&mut waiting, Op::Read, 2 * MIB, 512);
        let beside = push(&mut waiting, Op::Read, 3 * MIB, 512);
        for (part, len) in [MIB, MIB, 512].into_iter().enumerate() {
            let now = shown(&waiting);
            let zeroing = now.iter().find(|command| command.op == Op::Write).expect("zeros are written");
            assert_eq!((zeroing.offset_bytes(), zeroing.len_bytes()), (part as u64 * MIB, len));
            assert!(!now.iter().any(|command| command.offset_bytes() == 2 * MIB && command.op == Op::Read));
            assert!(waiting.data(zeroing.id)[..len as usize].iter().all(|&byte| byte == 0));
            if part == 0 {
                assert_eq!(now.len(), 2, "what is beside them need not wait");
                waiting.complete(now[1].id, Outcome::Done);
                assert!(beside.try_recv().is_ok());
            }
            assert!(zeros.try_recv().is_err(), "they are done when the last part is");
            waiting.complete(zeroing.id, Outcome::Done);
        }
        assert_eq!(zeros.try_recv().map(|completion| completion.outcome), Ok(Outcome::Done));
        let [read] = shown(&waiting)[..] else { panic!("the read is next") };
        let failed = Outcome::Failed(Failure::ReadInvalidData);
        waiting.complete(read.id, failed);
        assert_eq!(above.try_recv().map(|completion| completion.outcome), Ok(failed));
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_trim_ends_parts_where_zones_end_and_promises_at_the_last() {
        let mut waiting = Waiting::new(Sectors(100));
        let command = Command::of_bytes(Op::Trim, 150 * 512, 1000 * 512).with_fua(true);
        waiting.push(Job::new(command, Vec::new(), Box::new(|_| {})));
        let mut parts = Vec::new();
        while let Some(&part) = shown(&waiting).first() {
            parts.push((part.extent.start.get(), part.extent.len.get(), part.flags.fua));
            waiting.complete(part.id, Outcome::Done);
        }
        assert_eq!(parts, [(150, 750, false), (900, 250, true)]);
    }
}
