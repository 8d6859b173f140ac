//! A layer and its shadow, driven by a host.

use std::collections::BTreeMap;

use skylight_disk::{Lba, LbaExtent, Pba, Sectors};
use skylight_layer::{Command, CommandId, Idle, Layer, Medium, Op, Piece, Plan, Queue};

use super::bugs::Plant;
use super::host::{Host, Sizes};

/// Follows the plans of a layer, from which alone it learns, and panics where a drive that did just this would
/// have lost something or broken a rule.
pub trait Shadow {
    type Layer: Layer;

    /// A new drive.
    fn erase(&mut self, layer: &Self::Layer);

    /// Looks at the layer before it takes a command.
    fn before(&mut self, _layer: &Self::Layer) {}

    /// Follows the plan for a queue: the commands that it completes. `pieces` is what the layer said of a read
    /// before.
    fn take(&mut self, queue: Queue<'_>, plan: &Plan, pieces: &[Piece]) -> Vec<CommandId>;

    /// Follows the plan of an idle step.
    fn idle(&mut self, plan: &Plan);

    /// Whether there is something to clean in idle time.
    fn can_clean(&self, layer: &Self::Layer) -> bool;

    /// What a scheduler was told of the command to serve is where its plan begins, if that can be known.
    fn check_announced(&self, queue: Queue<'_>, announced: (Medium, Pba), plan: &Plan);

    /// What the layer says of an extent and of its cache is true.
    fn check(&self, layer: &Self::Layer, extent: LbaExtent, pieces: &mut Vec<Piece>);

    /// All else that can be checked.
    fn check_all(&self, _layer: &Self::Layer) {}
}

pub struct Pair<S: Shadow> {
    pub layer: S::Layer,
    pub shadow: S,
    pub host: Host,
    pub plant: Option<Plant>,
    plan: Plan,
    pieces: Vec<Piece>,
    full_checks_every: u64,
}

impl<S: Shadow> Pair<S> {
    pub fn new(layer: S::Layer, shadow: S, sizes: Sizes, seed: u64, deepest: u64) -> Self {
        // A few sectors an operation, however large the drive.
        let full_checks_every = 50 + sizes.capacity / 2;
        Self {
            layer,
            shadow,
            host: Host::new(sizes, seed, deepest),
            plant: None,
            plan: Plan::default(),
            pieces: Vec::new(),
            full_checks_every,
        }
    }

    /// Submits at least so many operations, follows and checks each; how many they were.
    pub fn run(&mut self, operations: u64) -> u64 {
        while self.host.issued() < operations {
            self.step();
        }
        self.check_all();
        self.host.issued()
    }

    /// Lets the layer take from its queue; follows and checks the plan.
    fn step(&mut self) {
        self.host.submit_some();
        if self.host.stream.once_in(5_000) {
            self.layer.erase();
            self.shadow.erase(&self.layer);
        }
        if self.host.stream.once_in(30) {
            for _ in 0..self.host.stream.below(12) {
                self.idle();
            }
        }
        let chosen = self.host.choose();
        let Command { op, extent, .. } = self.host.queue(chosen).next_command();
        if self.host.stream.once_in(2) {
            let other = self.host.stream.below(self.host.capacity());
            self.layer.hint(extent.start);
            self.layer.hint(Lba(other));
        }
        self.shadow.before(&self.layer);
        self.check_log(chosen);
        self.pieces.clear();
        if op == Op::Read {
            self.layer.locate(extent, &mut self.pieces);
        }
        let announced = match op {
            Op::Flush => None,
            _ => Some(self.layer.locate_first(extent, op == Op::Write)),
        };
        self.plan.clear();
        self.layer.take(self.host.queue(chosen), &mut self.plan);
        self.plant_bug();
        let queue = self.host.queue(chosen);
        if let Some(announced) = announced {
            self.shadow.check_announced(queue, announced, &self.plan);
        }
        let completed = self.shadow.take(queue, &self.plan, &self.pieces);
        assert!(!completed.is_empty(), "a plan completes a command at least");
        self.host.completed(&completed);
        self.check(extent);
    }

    /// What a layer declares to the scheduler: where writes of one length to its log are located.
    fn check_log(&self, chosen: (usize, usize)) {
        let mut by_len = BTreeMap::new();
        for &command in self.host.queue(chosen).waiting.iter().filter(|command| command.op == Op::Write) {
            let first = *by_len.entry(command.extent.len).or_insert(command);
            if self.layer.all_go_to_log(&[first, command]) {
                let [expected, location] =
                    [first, command].map(|command| self.layer.locate_first(command.extent, true));
                assert_eq!(
                    location, expected,
                    "{command:?} is located where no other write of its length is"
                );
            }
        }
    }

    /// One step of what the layer does when left alone.
    fn idle(&mut self) {
        self.plan.clear();
        let can = self.layer.idle_after().is_some() && self.shadow.can_clean(&self.layer);
        let expected = if can { Idle::Worked } else { Idle::Nothing };
        assert_eq!(self.layer.idle(&mut self.plan), expected, "work to do or none");
        assert_eq!(self.plan.steps().is_empty(), !can, "an idle step is work");
        self.plant_bug();
        self.shadow.idle(&self.plan);
        let extent = self.host.extent();
        self.check(extent);
    }

    fn plant_bug(&mut self) {
        if let Some(plant) = &mut self.plant {
            plant.plant(&mut self.layer, &mut self.plan, &mut self.host);
        }
    }

    fn check(&mut self, extent: LbaExtent) {
        let other = self.host.extent();
        // A flush names nothing.
        for extent in [extent, other].into_iter().filter(|extent| !extent.is_empty()) {
            self.shadow.check(&self.layer, extent, &mut self.pieces);
        }
        if self.host.stream.once_in(self.full_checks_every) {
            self.check_all();
        }
    }

    fn check_all(&mut self) {
        let all = LbaExtent::new(Lba(0), Sectors(self.host.capacity()));
        self.shadow.check(&self.layer, all, &mut self.pieces);
        self.shadow.check_all(&self.layer);
    }
}
