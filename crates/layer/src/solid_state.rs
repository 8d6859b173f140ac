//! The layer of a drive that is all flash: every sector lies on flash at its own address.
//!
//! It is what tells a test for shingled disks apart from a device that does not rotate. What a real SSD does
//! behind its address (pages, blocks, its own cleaning) is not modelled: its latencies vary by jitter.
//!
//! Invariant: no access is on the platters.

use skylight_disk::{Direction, LbaExtent, Pba, PbaExtent, Sectors};

use crate::plan::{HostOp, Idle, Layer, Medium, Piece, Plan, Purpose, Queue, Step};

/// LBA and PBA are the same number, on flash.
#[derive(Clone, Debug)]
pub struct SolidState {
    capacity: Sectors,
}

impl SolidState {
    /// A drive of `capacity`.
    pub fn new(capacity: Sectors) -> Self {
        Self { capacity }
    }
}

fn native(extent: LbaExtent) -> PbaExtent {
    PbaExtent::new(Pba(extent.start.get()), extent.len)
}

impl Layer for SolidState {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    #[inline]
    fn take(&mut self, queue: Queue<'_>, plan: &mut Plan) {
        let command = queue.next_command();
        let extent = native(command.extent);
        match command.op {
            HostOp::Read => plan.access(Medium::Flash, Direction::Read, extent, Purpose::Host),
            HostOp::Write => plan.access(Medium::Flash, Direction::Write, extent, Purpose::Host),
            HostOp::Flush | HostOp::Trim => {}
        }
        plan.push(Step::Complete(command.id));
    }

    fn idle(&mut self, _plan: &mut Plan) -> Idle {
        Idle::Nothing
    }

    fn locate(&self, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        pieces.push(Piece { medium: Medium::Flash, extent: native(extent), cached: false });
    }

    fn locate_first(&self, extent: LbaExtent, _write: bool) -> (Medium, Pba) {
        (Medium::Flash, native(extent).start)
    }

    fn erase(&mut self) {}
}
