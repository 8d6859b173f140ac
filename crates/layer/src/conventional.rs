//! The conventional layer: every sector at its native location, no cache, nothing to do when idle.
//!
//! It is the mapping of a CMR drive, the baseline that shingled drives are compared with
//! (Skylight, section 3.2: Seagate-CMR).

use skylight_disk::{Direction, LbaExtent, Pba, PbaExtent, Sectors};

use crate::plan::{HostOp, Idle, Layer, Medium, Piece, Plan, Purpose, Queue, Step};

/// LBA and PBA are the same number.
#[derive(Clone, Debug)]
pub struct Conventional {
    capacity: Sectors,
}

impl Conventional {
    /// A drive of `capacity`.
    pub fn new(capacity: Sectors) -> Self {
        Self { capacity }
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
            HostOp::Read => plan.access(Medium::Platter, Direction::Read, extent, Purpose::Host),
            HostOp::Write => plan.access(Medium::Platter, Direction::Write, extent, Purpose::Host),
            HostOp::Flush | HostOp::Trim => {}
        }
        plan.push(Step::Complete(command.id));
    }

    fn idle(&mut self, _plan: &mut Plan) -> Idle {
        Idle::Nothing
    }

    fn locate(&self, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        pieces.push(Piece { medium: Medium::Platter, extent: native(extent), cached: false });
    }

    fn locate_first(&self, extent: LbaExtent, _write: bool) -> (Medium, Pba) {
        (Medium::Platter, native(extent).start)
    }

    fn erase(&mut self) {}
}
