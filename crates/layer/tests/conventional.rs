//! The conventional layer, on platters and on flash, against a shadow: each command is one access, at its own
//! address.

mod common;

use common::bugs::{self, Bug};
use common::host::Sizes;
use common::layer_and_shadow::{Pair, Shadow};
use common::operation_count::half_share;
use common::truth::{Spot, Truth, written};
use proptest::prelude::*;
use skylight_disk::{Direction, LbaExtent, Pba, Sectors};
use skylight_layer::{CommandId, Conventional, Medium, Op, Piece, Plan, Purpose, Queue, Step};

struct Whole {
    medium: Medium,
    truth: Truth,
    writes: u64,
}

impl Shadow for Whole {
    type Layer = Conventional;

    fn erase(&mut self, _layer: &Conventional) {
        // A conventional drive forgets nothing.
    }

    fn take(&mut self, queue: Queue<'_>, plan: &Plan, pieces: &[Piece]) -> Vec<CommandId> {
        let command = queue.next_command();
        let (start, len) = (command.extent.start.get(), command.extent.len.get());
        let (complete, steps) = plan.steps().split_last().expect("a plan has steps");
        assert_eq!(*complete, Step::done(command.id));
        match (command.op, steps) {
            (Op::Flush | Op::Trim, []) => {}
            (Op::Read, [Step::Access { medium, direction, extent, purpose: Purpose::Host, .. }]) => {
                assert_eq!(*direction, Direction::Read);
                assert_eq!(pieces, [Piece { medium: *medium, extent: *extent, cached: false }]);
                assert_eq!(self.truth.read(*medium, *extent, start), start + len, "all of it is read");
            }
            (Op::Write, [Step::Access { medium, direction, extent, purpose: Purpose::Host, .. }]) => {
                assert_eq!((*medium, *direction, extent.len.get()), (self.medium, Direction::Write, len));
                self.writes += 1;
                for k in 0..len {
                    let (spot, sector) = (Spot { medium: *medium, pba: extent.start.get() + k }, start + k);
                    assert_eq!(spot, self.truth.native(sector), "sector {sector} is written in its place");
                    let content = written(self.writes, sector);
                    self.truth.rewrite(sector, content);
                    self.truth.commit_write(sector, content, spot);
                }
            }
            other => panic!("{other:?} makes no sense"),
        }
        vec![command.id]
    }

    fn idle(&mut self, plan: &Plan) {
        assert!(plan.steps().is_empty(), "there is nothing to do");
    }

    fn can_clean(&self, _layer: &Conventional) -> bool {
        false
    }

    fn check_announced(&self, queue: Queue<'_>, announced: (Medium, Pba), _plan: &Plan) {
        let first = self.truth.native(queue.next_command().extent.start.get());
        assert_eq!(announced, (first.medium, Pba(first.pba)), "what a scheduler is told");
    }

    fn check(&self, layer: &Conventional, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        self.truth.check_pieces(layer, extent, pieces);
        self.truth.check_cache_use(layer);
    }
}

fn pair(medium: Medium, capacity: u64, seed: u64, deepest: u64) -> Pair<Whole> {
    let truth = Truth::on(medium, (0..capacity).collect(), 2 * capacity);
    let sizes = Sizes { capacity, bands: bugs::one_band(capacity), unit: 1 + capacity / 8 };
    let layer = Conventional::new(medium, Sectors(capacity));
    Pair::new(layer, Whole { medium, truth, writes: 0 }, sizes, seed, deepest)
}

fn any_drive() -> impl Strategy<Value = (Medium, u64, u64)> {
    (prop_oneof![Just(Medium::Platter), Just(Medium::Flash)], 1u64..2_000, any::<u64>())
}

#[test]
fn lone_commands_keep_every_write() {
    half_share("conventional", "lone commands", &any_drive(), |(medium, capacity, seed)| {
        pair(medium, capacity, seed, 1).run(common::operation_count::LONG)
    });
}

#[test]
fn deep_queues_keep_every_write() {
    half_share("conventional", "deep queues", &any_drive(), |(medium, capacity, seed)| {
        pair(medium, capacity, seed, 40).run(common::operation_count::LONG)
    });
}

#[test]
fn planted_bugs_are_seen() {
    let bugs = [
        Bug::OffByOneBand(Direction::Write, Purpose::Host),
        Bug::OffByOneBand(Direction::Read, Purpose::Host),
        Bug::DroppedStage(Direction::Write, Purpose::Host),
        Bug::DroppedStage(Direction::Read, Purpose::Host),
        Bug::AnsweredOnly,
    ];
    bugs::all_are_seen(&bugs, 8, |seed| pair(Medium::Platter, 500 + seed, seed, 1 + seed % 32));
}
