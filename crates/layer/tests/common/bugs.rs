//! Faults between a layer and its shadow, as a bug in the layer would make them: what a shadow is worth.
//!
//! A fault is planted in every plan, after some operations, that has a place for it, as a bug in the code would
//! be: one that a later command undoes is to be seen the next time. A plan is changed after the layer made it;
//! a lost exception is a trim that the layer is given and the shadow is not.

use std::panic::{AssertUnwindSafe, catch_unwind};

use skylight_disk::{Direction, Lba, LbaExtent, Pba, Sectors};
use skylight_layer::{Command, CommandId, Layer, MapChange, Medium, Op, Piece, Plan, Purpose, Queue, Step};

use super::host::Host;
use super::layer_and_shadow::{Pair, Shadow};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// An access for a purpose is a band farther out or in than it has to be.
    OffByOneBand(Direction, Purpose),
    /// The map has lost what it knew of an extent in the cache.
    LostException,
    /// An access for a purpose is not done.
    DroppedStage(Direction, Purpose),
    /// A change of the map is not made known.
    DroppedCommit,
    /// What a commit says is a block beside the truth.
    CommitOffByABlock,
    /// A command is answered and nothing of it was done.
    AnsweredOnly,
}

/// A fault to be planted.
pub struct Plant {
    bug: Bug,
    /// Sectors of a band.
    band: u64,
    /// Operations before it.
    after: u64,
    pub planted: bool,
}

impl Plant {
    /// Plants the fault if it has a place here.
    pub fn plant<L: Layer>(&mut self, layer: &mut L, plan: &mut Plan, host: &mut Host) {
        if host.issued() < self.after {
            return;
        }
        if self.bug == Bug::LostException {
            self.planted |= lose_exception(layer, host);
            return;
        }
        let mut steps = plan.steps().to_vec();
        self.planted |= change(self.bug, self.band, &mut steps);
        plan.clear();
        steps.into_iter().for_each(|step| plan.push(step));
    }
}

/// Has the layer forget a cached piece of some extent; whether it had one.
fn lose_exception<L: Layer>(layer: &mut L, host: &mut Host) -> bool {
    let (extent, mut pieces): (LbaExtent, Vec<Piece>) = (host.extent(), Vec::new());
    layer.locate(extent, &mut pieces);
    let mut at = extent.start;
    for piece in pieces {
        if piece.cached {
            let lost = LbaExtent::new(at, piece.extent.len);
            let trim = Command::new(CommandId(u32::MAX), Op::Trim, lost);
            layer.take(Queue { waiting: &[trim], next: 0 }, &mut Plan::default());
            return true;
        }
        at += piece.extent.len;
    }
    false
}

/// Changes the first step that the bug is about; whether there was one.
fn change(bug: Bug, band: u64, steps: &mut Vec<Step>) -> bool {
    let access = |step: &Step, way: Direction, what: Purpose| matches!(*step, Step::Access { direction, purpose, .. } if direction == way && purpose == what);
    match bug {
        Bug::LostException => false,
        Bug::OffByOneBand(way, what) => {
            let Some(index) = steps.iter().position(|step| access(step, way, what)) else { return false };
            if let Step::Access { extent, .. } = &mut steps[index] {
                let start = extent.start.get();
                extent.start = Pba(if start >= band { start - band } else { start + band });
            }
            true
        }
        Bug::DroppedStage(way, what) => {
            let Some(index) = steps.iter().position(|step| access(step, way, what)) else { return false };
            steps.remove(index);
            // A layer that forgets an access does not count it either.
            if let Some(Step::AnyOrder { accesses }) = steps[..index].last_mut() {
                *accesses -= 1;
            }
            true
        }
        Bug::DroppedCommit => {
            let index = steps.iter().position(|step| matches!(step, Step::Commit(_)));
            index.map(|index| steps.remove(index)).is_some()
        }
        Bug::CommitOffByABlock => steps.iter_mut().any(|step| match step {
            Step::Commit(MapChange::Cached { pba, .. } | MapChange::Remapped { pba, .. }) => {
                *pba = (Pba::from(*pba) + Sectors(8)).into();
                true
            }
            _ => false,
        }),
        Bug::AnsweredOnly => {
            let before = steps.len();
            let moves =
                |step: &Step| matches!(step, Step::Access { medium: Medium::Platter | Medium::Flash, .. });
            if !steps.iter().any(|step| matches!(step, Step::Complete { .. })) || !steps.iter().any(moves) {
                return false;
            }
            steps.retain(|step| matches!(step, Step::Complete { .. }));
            steps.len() < before
        }
    }
}

/// Plants each fault in many drives; every one that found a place must be seen, and each must find some.
pub fn all_are_seen<S: Shadow>(bugs: &[Bug], band: u64, drive: impl Fn(u64) -> Pair<S>) {
    const DRIVES: u64 = 24;
    const OPERATIONS: u64 = 4_000;
    for &bug in bugs {
        let (mut planted, mut unseen) = (0, Vec::new());
        for seed in 0..DRIVES {
            let mut pair = drive(seed);
            pair.plant = Some(Plant { bug, band, after: 20 + 37 * seed, planted: false });
            let seen = catch_unwind(AssertUnwindSafe(|| pair.run(OPERATIONS))).is_err();
            if pair.plant.is_some_and(|plant| plant.planted) {
                planted += 1;
                unseen.extend((!seen).then_some(seed));
            } else {
                assert!(!seen, "seed {seed} fails without {bug:?}");
            }
        }
        println!("{bug:?}: planted in {planted} of {DRIVES} drives, unseen in {unseen:?}");
        assert!(planted * 2 > DRIVES, "{bug:?} found a place in {planted} of {DRIVES} drives only");
        assert!(unseen.is_empty(), "{bug:?} is not seen with seeds {unseen:?}");
    }
}

/// The whole address space as one band, for drives that have none.
pub fn one_band(capacity: u64) -> Vec<LbaExtent> {
    vec![LbaExtent::new(Lba(0), Sectors(capacity))]
}
