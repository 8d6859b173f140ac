//! The conventional layer: every sector at its own address, no cache, nothing to do when idle.
//!
//! On the platters it is the mapping of a CMR drive, the baseline that shingled drives are compared with
//! (Skylight, section 3.2: Seagate-CMR). On flash it is what tells a test for shingled disks apart from a
//! device that does not rotate; what a real SSD does behind its address (pages, blocks, its own cleaning) is
//! not modelled: its latencies vary by jitter.
//!
//! Invariant: no access is on any other medium.

use skylight_command::{Failure, Op};
use skylight_disk::{LbaExtent, Pba, PbaExtent, Sectors};

use crate::plan::{Idle, Layer, Medium, Piece, Plan, Purpose, Queue, Source};
use crate::restore::Room;

/// LBA and PBA are the same number.
#[derive(Clone, Debug)]
pub struct Conventional {
    medium: Medium,
    capacity: Sectors,
}

impl Conventional {
    /// A drive of `capacity` on one medium.
    pub fn new(medium: Medium, capacity: Sectors) -> Self {
        Self { medium, capacity }
    }
}

fn native(extent: LbaExtent) -> PbaExtent {
    PbaExtent::new(Pba(extent.start.get()), extent.len)
}

impl Layer for Conventional {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    #[inline]
    fn take(&mut self, queue: Queue<'_>, plan: &mut Plan) {
        let command = queue.next_command();
        let extent = native(command.extent);
        match command.op {
            Op::Read => plan.read(self.medium, extent, Purpose::Host),
            Op::Write => {
                plan.write(self.medium, extent, Purpose::Host, Source::Host(command.extent.start));
            }
            Op::Flush | Op::Trim => {}
            Op::WriteZeroes | Op::Cache | Op::Append => return plan.fail(command.id, Failure::Unsupported),
        }
        plan.complete(command.id);
    }

    fn idle(&mut self, _plan: &mut Plan) -> Idle {
        Idle::Nothing
    }

    fn locate(&self, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        pieces.push(Piece { medium: self.medium, extent: native(extent), cached: false });
    }

    fn locate_first(&self, extent: LbaExtent, _write: bool) -> (Medium, Pba) {
        (self.medium, native(extent).start)
    }

    fn erase(&mut self) {}

    fn room(&self) -> Room {
        match self.medium {
            Medium::Platter => Room { platter: self.capacity, ..Room::default() },
            Medium::Flash => Room { flash: self.capacity, ..Room::default() },
        }
    }

    fn home(&self, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent)) {
        visit(native(extent));
    }
}
