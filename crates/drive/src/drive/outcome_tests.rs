//! Tests of outcomes: what a layer, or whoever moves the bytes, says of a command reaches its completion.

use skylight_command::{Command, CommandId, Failure, Op, Outcome};
use skylight_disk::{Lba, LbaExtent, Nanos, Pba, PbaExtent, Sectors, Time};
use skylight_layer::{Conventional, Idle, Layer, MediaUse, Medium, Piece, Plan, Purpose, Queue, Source};

use super::Drive;
use crate::Online;
use crate::online::{Answered, ExecutionResult, Origin, PlanExecutor};
use crate::profile::Profile;

/// A disk that appends at its write pointer: what no layer does yet.
struct Appending {
    inner: Conventional,
    write_pointer: Lba,
}

impl Layer for Appending {
    fn capacity(&self) -> Sectors {
        self.inner.capacity()
    }

    fn take(&mut self, queue: Queue<'_>, plan: &mut Plan) {
        let Command { id, op, extent, .. } = queue.next_command();
        if op != Op::Append {
            return self.inner.take(queue, plan);
        }
        let at = self.write_pointer;
        self.write_pointer += extent.len;
        let place = PbaExtent::new(Pba(at.get()), extent.len);
        plan.write(Medium::Platter, place, Purpose::Host, Source::Host(at.into()));
        plan.push(skylight_layer::Step::Complete { command: id, outcome: Outcome::Appended(at) });
    }

    fn idle(&mut self, plan: &mut Plan) -> Idle {
        self.inner.idle(plan)
    }

    fn locate(&self, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        self.inner.locate(extent, pieces);
    }

    fn locate_first(&self, extent: LbaExtent, write: bool) -> (Medium, Pba) {
        self.inner.locate_first(extent, write)
    }

    fn erase(&mut self) {
        self.inner.erase();
    }

    fn media_use(&self) -> MediaUse {
        self.inner.media_use()
    }

    fn initial_locations(&self, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent)) {
        self.inner.initial_locations(extent, visit);
    }
}

/// Moves no bytes: plans of the host end in one way, those of the volatile cache in another.
struct Moves {
    host: ExecutionResult,
    cache: ExecutionResult,
}

impl PlanExecutor for Moves {
    fn executed(&mut self, origin: Origin, _plan: &Plan, _layer: &mut dyn Layer) -> ExecutionResult {
        if origin == Origin::Cache { self.cache } else { self.host }
    }
}

const DONE: Moves = Moves { host: ExecutionResult::Done, cache: ExecutionResult::Done };

macro_rules! packaged {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../python/skylight/profiles/", $name, ".toml")))
    };
}

const CONVENTIONAL: (&str, &str) = packaged!("st4000nc001");
const JOURNALED: (&str, &str) = packaged!("st5000as0011");

fn drive((name, text): (&str, &str)) -> Drive {
    Drive::new(&Profile::from_toml(text, name).expect("a valid profile"), 1).expect("a drive")
}

fn run(drive: Drive, commands: &[Command], mut moves: Moves) -> Vec<Answered> {
    let (mut online, mut answers) = (Online::new(drive), Vec::new());
    for command in commands {
        online.submit(*command, online.clock(), &mut moves);
    }
    let end = online.clock() + Nanos(60_000_000_000);
    while let Some(next) = online.next(|_| Nanos(0)).filter(|&next| next < Time(end.get())) {
        online.advance(next + Nanos(1), &mut moves, &mut answers);
    }
    answers.sort_unstable_by_key(|answer| answer.id);
    answers
}

fn command(id: u32, op: Op, offset: u64) -> Command {
    Command { id: CommandId(id), ..Command::of_bytes(op, offset, 4096) }
}

fn outcomes(answers: &[Answered]) -> Vec<Outcome> {
    answers.iter().map(|answer| answer.outcome).collect()
}

#[test]
fn every_layer_refuses_what_it_has_no_way_to_do() {
    for profile in [JOURNALED, packaged!("emulated-smr-1"), packaged!("emulated-smr-2"), CONVENTIONAL] {
        let commands =
            [Op::Append, Op::WriteZeroes, Op::Cache, Op::Read].map(|op| command(op.index() as u32, op, 0));
        let answers = run(drive(profile), &commands, DONE);
        for answer in answers {
            let refused = answer.id != CommandId(Op::Read.index() as u32);
            let expected = if refused { Outcome::Failed(Failure::Unsupported) } else { Outcome::Done };
            assert_eq!(answer.outcome, expected, "{}: {:?}", profile.0, answer.id);
        }
    }
}

#[test]
fn an_append_returns_where_it_went_and_keeps_its_place_in_the_order() {
    let mut appending = drive(CONVENTIONAL);
    let inner = Conventional::new(Medium::Platter, appending.capacity());
    appending.layer = Box::new(Appending { inner, write_pointer: Lba(64) });
    appending.set_write_cache(false);
    let commands = [command(0, Op::Append, 0), command(1, Op::Append, 0), command(2, Op::Read, 1 << 30)];
    let answers = run(appending, &commands, DONE);
    let mut places = outcomes(&answers[..2]);
    places.sort_unstable();
    assert_eq!(places, [Outcome::Appended(Lba(64)), Outcome::Appended(Lba(72))]);
    assert_eq!(answers[2].outcome, Outcome::Done);
    assert!(
        answers[..2].iter().all(|append| append.at < answers[2].at),
        "the read is behind both: {answers:?}"
    );
}

#[test]
fn a_command_fails_for_the_reason_that_its_bytes_give() {
    for moved in [ExecutionResult::Failed(Failure::Medium), ExecutionResult::Refused(Failure::NotPermitted)] {
        let mut uncached = drive(CONVENTIONAL);
        uncached.set_write_cache(false);
        let (ExecutionResult::Failed(failure) | ExecutionResult::Refused(failure)) = moved else {
            panic!("{moved:?}")
        };
        let answers =
            run(uncached, &[command(0, Op::Write, 0)], Moves { host: moved, cache: ExecutionResult::Done });
        assert_eq!(outcomes(&answers), [Outcome::Failed(failure)], "{moved:?}");
    }
    let mut cached = drive(JOURNALED);
    assert!(cached.set_write_cache(true), "the drive has a volatile cache");
    let refuses = Moves { host: ExecutionResult::Done, cache: ExecutionResult::Refused(Failure::Medium) };
    let flush = Command { id: CommandId(1), ..Command::FLUSH };
    let mut online = Online::new(cached);
    let (mut moves, mut answers) = (refuses, Vec::new());
    online.submit(command(0, Op::Write, 0), Time(1_000), &mut moves);
    online.advance(Time(1_000_000_000), &mut moves, &mut answers);
    online.submit(flush, Time(1_000_000_001), &mut moves);
    online.advance(Time(3_000_000_000), &mut moves, &mut answers);
    assert_eq!(outcomes(&answers), [Outcome::Done, Outcome::Failed(Failure::Medium)]);
}
