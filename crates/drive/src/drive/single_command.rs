//! One command at a time, from a part of Skylight that has a [`Command`] and no columns, and waits for each.
//!
//! Invariant: it takes the nanoseconds that it takes as a batch of one command.

use skylight_command::{Command, CommandId, Failure, Outcome};
use skylight_disk::{Lba, Time};

use super::Drive;
use crate::events::{Answered, Observer, PlanExecutor};
use crate::pending::Served;

/// A host that waits for one command.
#[derive(Default)]
struct Waits {
    outcome: Option<Outcome>,
}

impl PlanExecutor for Waits {}

impl Observer for Waits {
    fn answered(&mut self, answer: Answered, _free: Time) {
        self.outcome = Some(answer.outcome);
    }
}

impl Drive {
    /// Runs a command when those before it are done; its number is ignored.
    pub fn run_command(&mut self, command: Command) -> Outcome {
        if command.extent.end() > Lba(0) + self.capacity() {
            return Outcome::Failed(Failure::OutOfRange);
        }
        let command = Command { id: CommandId(0), ..command };
        let (at, mut host) = (self.host_time + self.link().out, Waits::default());
        while let Some((time, event)) = self.next_event().filter(|&(time, _)| time < at) {
            self.process(time, event, &mut host);
        }
        if self.is_idle_before(at) {
            self.idle_until(at, &mut host);
        }
        if self.pending.is_empty() {
            self.wake(at);
        }
        let served = match self.swallows(command.op) {
            true => Served::OnArrival,
            false => self.pending.served(&command, &mut self.cache),
        };
        self.pending.submit(served, command, at);
        while !self.pending.is_empty()
            && let Some((time, event)) = self.next_event()
        {
            self.process(time, event, &mut host);
        }
        debug_assert!(host.outcome.is_some(), "an outstanding command waits for an event");
        host.outcome.unwrap_or(Outcome::Failed(Failure::Internal))
    }
}

#[cfg(test)]
mod tests {
    use skylight_command::code::Code;
    use skylight_command::{Op, ZoneAction};
    use skylight_disk::{LbaExtent, Nanos, Sectors};

    use super::*;
    use crate::batch::Batch;
    use crate::profile::Profile;

    fn drive(text: &str, cached: bool) -> Drive {
        let profile = Profile::from_toml(text, "test").unwrap_or_else(|error| panic!("{error}"));
        let mut drive = Drive::new(&profile, 7).expect("it is a drive");
        drive.set_write_cache(cached);
        drive
    }

    #[test]
    fn a_command_takes_as_long_as_a_batch_of_one() {
        const ZONE: u64 = (256 << 20) / 512;
        for text in [
            include_str!("../../../../python/skylight/profiles/st8000as0022.toml"),
            include_str!("../../../../python/skylight/profiles/emulated-smr-1.toml"),
        ] {
            for cached in [false, true] {
                let (mut alone, mut batched) = (drive(text, cached), drive(text, cached));
                let mut outcomes = Vec::new();
                for step in 0..600_u64 {
                    let at = skylight_disk::splitmix64(1, step) % 4_000_000 * 8;
                    let (code, op, extent) = match step % 6 {
                        0 => (Code::Flush, Op::Flush, LbaExtent::default()),
                        1 => {
                            let zone = LbaExtent::new(Lba(at / ZONE * ZONE), Sectors(ZONE));
                            (Code::ResetZone, Op::Zone(ZoneAction::Reset), zone)
                        }
                        2 | 3 => (Code::Read, Op::Read, LbaExtent::new(Lba(at), Sectors(8 + step % 64))),
                        _ => (Code::Write, Op::Write, LbaExtent::new(Lba(at), Sectors(8 + step % 64))),
                    };
                    let outcome = alone.run_command(Command::new(CommandId(9), op, extent));
                    let (offset, size) = (extent.start.get() * 512, extent.len.bytes() as u32);
                    let batch = Batch { op: &[code], offset: &[offset], size: &[size] };
                    batched.run(&batch, 1, &mut [0], &mut [0]).expect("it is valid");
                    let due = batched.results().first().map_or(Outcome::Done, |result| result.outcome);
                    assert_eq!((alone.now(), outcome), (batched.now(), due), "{op} {extent:?}, step {step}");
                    outcomes.push(outcome);
                    if step % 50 == 0 {
                        alone.pause(Nanos(3_000_000_000));
                        batched.pause(Nanos(3_000_000_000));
                    }
                }
                assert!(outcomes.iter().filter(|&&outcome| outcome == Outcome::Done).count() > 400);
                let behind =
                    Command::new(CommandId(0), Op::Read, LbaExtent::new(Lba(u64::MAX / 2), Sectors(8)));
                assert_eq!(alone.run_command(behind), Outcome::Failed(Failure::OutOfRange));
            }
        }
    }
}
