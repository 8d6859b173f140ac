//! Commands and plans as tests write them out, step by step.

use skylight_disk::{Direction, Lba, LbaExtent, Pba, PbaExtent, Sectors};
use skylight_layer::{Command, CommandId, Layer, Medium, Op, Plan, Purpose, Queue, Source, Step};

pub fn command(id: u32, op: Op, start: u64, len: u64) -> Command {
    Command::new(CommandId(id), op, LbaExtent::new(Lba(start), Sectors(len)))
}

/// The steps with which a layer answers the queue's next command.
pub fn take(layer: &mut impl Layer, waiting: &[Command], next: usize) -> Vec<Step> {
    let mut plan = Plan::default();
    layer.take(Queue { waiting, next }, &mut plan);
    placed(&plan)
}

/// What a layer does with idle time.
pub fn idle(layer: &mut impl Layer) -> Vec<Step> {
    let mut plan = Plan::default();
    layer.idle(&mut plan);
    placed(&plan)
}

/// The steps as [`access`] writes them; `restore.rs` has the test of where bytes come from.
fn placed(plan: &Plan) -> Vec<Step> {
    let mut steps = plan.steps().to_vec();
    for step in &mut steps {
        if let Step::Access { source, .. } = step {
            *source = Source::Medium;
        }
    }
    steps
}

pub fn access(direction: Direction, start: u64, len: u64, purpose: Purpose) -> Step {
    let extent = PbaExtent::new(Pba(start), Sectors(len));
    Step::Access { medium: Medium::Platter, direction, extent, purpose, source: Source::Medium }
}
