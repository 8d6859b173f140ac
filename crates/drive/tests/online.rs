//! A drive that takes one command at a time gives the same nanoseconds as one that runs a batch, regardless
//! of how the time between commands is divided.

use proptest::prelude::*;
use skylight_command::code::Code;
use skylight_command::{Command, CommandId, Op, Outcome};
use skylight_disk::{Lba, LbaExtent, Nanos, Sectors, Time};
use skylight_drive::online::{Answered, ExecutionResult, Origin, PlanExecutor};
use skylight_drive::profile::Profile;
use skylight_drive::random::{Kind, random_profile};
use skylight_drive::{Batch, Drive, Online};
use skylight_layer::{Layer, Plan};

/// Checks that all callbacks are consistent.
#[derive(Default)]
struct Ledger {
    /// Numbers of host writes in the volatile cache, and of those that left it.
    cached: Vec<CommandId>,
    left: Vec<CommandId>,
    completed: Vec<CommandId>,
    decided: Vec<CommandId>,
    idle: usize,
}

impl PlanExecutor for Ledger {
    fn executed(&mut self, origin: Origin, plan: &Plan, _layer: &mut dyn Layer) -> ExecutionResult {
        let completes = plan.completions().map(|(id, _)| id);
        match origin {
            Origin::Host => self.completed.extend(completes),
            Origin::Cache => self.left.extend(completes),
            Origin::Idle => self.idle += 1,
        }
        ExecutionResult::Done
    }

    fn cached(&mut self, host: CommandId, cache: CommandId) {
        self.completed.push(host);
        self.cached.push(cache);
    }

    fn decided(&mut self, id: CommandId, outcome: Outcome, _layer: &mut dyn Layer) -> Outcome {
        self.decided.push(id);
        outcome
    }
}

const NAMES: [&str; 4] = ["st5000as0011", "emulated-smr-1", "emulated-smr-2", "st4000nc001"];

/// The profile with a host that takes some time between a completion and its next command. A host without a
/// gap would submit at the very nanosecond of the completion, which is impossible with a clock.
fn with_host_gap(text: &str, origin: &str) -> Profile {
    let gap = "host_gap = \"0.003 ms\"";
    let lines = text.lines().filter(|line| !line.starts_with("host_gap"));
    let lines = lines.flat_map(|line| if line == "[interface]" { vec![line, gap] } else { vec![line] });
    let text = lines.collect::<Vec<_>>().join("\n");
    assert!(text.contains(gap), "{origin} has no interface");
    Profile::from_toml(&text, origin).unwrap_or_else(|error| panic!("{error}"))
}

fn named(name: &str) -> Profile {
    let path = format!("{}/../../python/skylight/profiles/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    with_host_gap(&text, &path)
}

fn profile(choice: usize, seed: u64) -> Profile {
    if let Some(name) = NAMES.get(choice) {
        return named(name);
    }
    let kinds = ["conventional", "set-associative", "fully-associative", "journaled"];
    let kind: Kind = kinds[choice % kinds.len()].parse().unwrap_or_else(|error| panic!("{error}"));
    let text = random_profile(seed, Some(kind)).unwrap_or_else(|error| panic!("{error}"));
    with_host_gap(&text, "random.toml")
}

/// An operation, a position within the used area, a size in blocks, and a pause before one in a thousand.
type Drawn = (Code, u64, u32, u16);

fn commands() -> impl Strategy<Value = Vec<Drawn>> {
    let op = prop_oneof![
        4 => Just(Code::Write),
        3 => Just(Code::Read),
        1 => Just(Code::Flush),
        1 => Just(Code::Trim),
        1 => Just(Code::WriteFua),
    ];
    proptest::collection::vec((op, 0u64..20_000, 1u32..40, 0u16..1000), 1..300)
}

/// The columns of a batch.
type Columns = (Vec<Code>, Vec<u64>, Vec<u32>);

fn columns(drawn: &[Drawn]) -> Columns {
    let flush = |&(op, ..): &Drawn| op == Code::Flush;
    let size = |row: &Drawn| if flush(row) { 0 } else { row.2 * 4096 };
    (
        drawn.iter().map(|row| row.0).collect(),
        drawn.iter().map(|row| if flush(row) { 0 } else { row.1 * 4096 }).collect(),
        drawn.iter().map(size).collect(),
    )
}

/// Runs the commands in stretches with pauses between; returns submit and complete times.
fn run(drive: &mut Drive, columns: &Columns, depth: usize, pauses: &[(usize, Nanos)]) -> Vec<(u64, u64)> {
    let mut times = Vec::new();
    let mut from = 0;
    for &(len, pause) in pauses {
        let to = (from + len).min(columns.0.len());
        let batch =
            Batch { op: &columns.0[from..to], offset: &columns.1[from..to], size: &columns.2[from..to] };
        let (mut submit, mut complete) = (vec![0; to - from], vec![0; to - from]);
        drive.run(&batch, depth, &mut submit, &mut complete).unwrap_or_else(|error| panic!("{error}"));
        times.extend(submit.into_iter().zip(complete));
        drive.pause(pause);
        from = to;
    }
    times
}

fn command(columns: &Columns, index: usize) -> Command {
    let (op, flags) = columns.0[index].operation();
    let bytes = Command::of_bytes(op, columns.1[index], columns.2[index].into());
    Command { id: CommandId(index as u32), flags, ..bytes }
}

/// Submits the same commands at the same times, and advances the time between them in steps.
fn feed(
    online: &mut Online,
    columns: &Columns,
    times: &[(u64, u64)],
    cuts: &[Drawn],
) -> (Vec<Answered>, Ledger) {
    let (mut answers, mut ledger) = (Vec::new(), Ledger::default());
    for (index, &(submit, _)) in times.iter().enumerate() {
        let (now, part) = (online.clock().get(), u64::from(cuts[index].3));
        if part > 300 && submit > now {
            for share in [1000 - part, part] {
                let until = Time(now + (submit - now) / 1000 * share);
                if share % 2 == 0 {
                    let before = answers.len();
                    online.report_early(until, |_| Nanos(0), &mut answers);
                    assert!(answers[before..].iter().all(|answer| answer.at <= until), "before its time");
                }
                online.advance(until, &mut ledger, &mut answers);
            }
        }
        online.submit(command(columns, index), Time(submit), &mut ledger);
    }
    let end = times.iter().map(|&(_, complete)| complete).max().unwrap_or(0);
    online.advance(Time(end + 1), &mut ledger, &mut answers);
    (answers, ledger)
}

fn check(choice: usize, seed: u64, drawn: &[Drawn], depth: usize, cache: bool) -> Result<(), TestCaseError> {
    let profile = profile(choice, seed);
    let new = || {
        let mut drive = Drive::new(&profile, seed).unwrap_or_else(|error| panic!("{error}"));
        drive.set_write_cache(cache);
        drive
    };
    let columns = columns(drawn);
    // A batch ends when all its commands have completed, so stretches followed by a pause run one at a time.
    let pauses: Vec<(usize, Nanos)> = match depth {
        1 => drawn.iter().map(|row| (1, Nanos(u64::from(row.3 / 990) * 3_000_000_000))).collect(),
        _ => vec![(drawn.len(), Nanos(0))],
    };
    let expected = run(&mut new(), &columns, depth, &pauses);
    let mut online = Online::new(new());
    let (answers, ledger) = feed(&mut online, &columns, &expected, drawn);
    let mut got = vec![0; drawn.len()];
    for pair in answers.windows(2) {
        prop_assert!(pair[0].at <= pair[1].at, "answers in the order of their times");
    }
    for answer in &answers {
        got[answer.id.0 as usize] = answer.at.get();
    }
    let wrong = got.iter().zip(&expected).enumerate().find(|(_, (got, (_, complete)))| *got != complete);
    prop_assert_eq!(wrong, None, "the first that differs");
    prop_assert_eq!(ledger.decided.len(), drawn.len());
    // Flushes and reads that the volatile cache completes are in no plan.
    let others = drawn.iter().filter(|row| matches!(row.0, Code::Read | Code::Flush)).count();
    let planned = ledger.completed.len();
    prop_assert!(planned + others >= drawn.len() && planned <= drawn.len(), "{} of {}", planned, drawn.len());
    prop_assert!(ledger.left.iter().all(|id| ledger.cached.contains(id)));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn one_command_at_a_time_agrees_with_a_batch(
        choice in 0usize..8,
        seed in 0u64..1000,
        drawn in commands(),
        depth in prop_oneof![Just(1usize), 2usize..40],
        cache: bool,
    ) {
        check(choice, seed, &drawn, depth, cache)?;
    }
}

#[test]
fn an_idle_drive_cleans_and_then_rests() {
    let mut online = Online::new(Drive::new(&named("st5000as0011"), 1).unwrap());
    let mut ledger = Ledger::default();
    let write = LbaExtent::new(Lba(80_000), Sectors(8));
    let command = Command::new(CommandId(7), Op::Write, write);
    online.submit(command, Time(1_000_000), &mut ledger);
    let mut answers = Vec::new();
    let mut steps = 0;
    while let Some(next) = online.next(|_| Nanos(0)) {
        online.advance(next + Nanos(1), &mut ledger, &mut answers);
        steps += 1;
        assert!(steps < 1000, "it never rests");
    }
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].id, CommandId(7));
    assert_eq!(online.drive().cache_use().live_sectors, 0, "cleaned");
    assert!(ledger.idle > 0);
}

/// Behind a drive that keeps data, a layer notes when something happened by the clock of the wall, in a simulation by virtual
/// time.
#[test]
fn a_layer_is_told_the_time_since_the_epoch() {
    const EPOCH_NS: u64 = 1_700_000_000_000_000_000;
    let stamps = |epoch: Nanos| {
        let mut drive = Drive::new(&named("swd-160gb"), 1).unwrap_or_else(|error| panic!("{error}"));
        drive.set_epoch(epoch);
        // Two writes and a flush.
        let (op, offset, size) = ([Code::Write, Code::Write, Code::Flush], [0, 1 << 30, 0], [4096, 4096, 0]);
        let (mut submit, mut complete) = ([0; 3], [0; 3]);
        let batch = Batch { op: &op, offset: &offset, size: &size };
        drive.run(&batch, 1, &mut submit, &mut complete).unwrap_or_else(|error| panic!("{error}"));
        let all = LbaExtent::new(Lba(0), drive.capacity());
        let losses = drive.layer_mut().overwriting().expect("a raw shingled disk").losses(all);
        losses.iter().map(|loss| (loss.by.write, loss.by.at.get())).collect::<Vec<_>>()
    };
    let virtual_times = stamps(Nanos(0));
    assert!(!virtual_times.is_empty() && virtual_times.iter().all(|&(_, at)| at < 1_000_000_000));
    let since_epoch = virtual_times.iter().map(|&(write, at)| (write, EPOCH_NS + at)).collect::<Vec<_>>();
    assert_eq!(stamps(Nanos(EPOCH_NS)), since_epoch);
}
