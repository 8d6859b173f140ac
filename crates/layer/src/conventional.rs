//! The conventional layer: fixed locations, no cache, no background work.
//!
//! On the platters it is the mapping of a CMR drive, the baseline for shingled drives (Skylight, section 3.2:
//! Seagate-CMR). On flash it is a device that does not rotate, from which tests must distinguish shingled
//! disks. The translation layer inside a real SSD (pages, blocks, garbage collection) is not modelled; only
//! jitter varies the latencies.
//!
//! Invariant: all accesses are to a single medium.

use skylight_command::{Failure, Op};
use skylight_disk::{LbaExtent, Pba, PbaExtent, Sectors};

use crate::plan::{Layer, Medium, Piece, Plan, Purpose, Queue, Source};
use crate::restore::MediaUse;

/// LBA and PBA are the same number.
#[derive(Clone, Debug)]
pub struct Conventional {
    medium: Medium,
    capacity: Sectors,
}

impl Conventional {
    /// A drive of `capacity` on `medium`.
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
                plan.write(self.medium, extent, Purpose::Host, Source::Host(command.extent.start.into()));
            }
            Op::Flush | Op::Trim => {}
            Op::WriteZeroes | Op::Cache | Op::Append | Op::Zone(_) => {
                return plan.fail(command.id, Failure::Unsupported);
            }
        }
        plan.complete(command.id);
    }

    fn locate(&self, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        pieces.push(Piece { medium: self.medium, extent: native(extent), cached: false });
    }

    fn locate_first(&self, extent: LbaExtent, _write: bool) -> (Medium, Pba) {
        (self.medium, native(extent).start)
    }

    fn erase(&mut self) {}

    fn media_use(&self) -> MediaUse {
        match self.medium {
            Medium::Platter => MediaUse { platter: self.capacity, ..MediaUse::default() },
            Medium::Flash => MediaUse { flash: self.capacity, ..MediaUse::default() },
        }
    }

    fn initial_locations(&self, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent)) {
        visit(native(extent));
    }
}
