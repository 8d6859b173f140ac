//! A drive in model time, without a clock: each command is submitted with its arrival time, and the caller advances the
//! time. In a server the pacer does that with the wall clock (`pacer.rs`); tests advance it as fast as possible
//! ([`ModelDrive::run_to`]).
//!
//! The drive has no command for zeroes, so they are written in parts, one after another. A later command whose order with
//! a pending part matters ([`Order`]) waits for it here, as such commands wait inside the drive.
//!
//! Invariants: commands whose order matters take effect in the order of their submission; a completion is sent ahead of its model
//! time by at most the [`WakeLatency`] of its client, and commands that arrive in between count as arriving at that time;
//! every command completes once.

use std::collections::VecDeque;
use std::sync::mpsc::channel;
use std::time::Duration;

use skylight_disk::{LbaExtent, Nanos, Sectors, Time};
use skylight_drive::online::Answered;
use skylight_drive::{Drive, Online};
use skylight_image::Interpreter;
use skylight_layer::Order;

use super::drive_data::Bytes;
use super::in_flight::InFlight;
use super::wake_latency::WakeLatency;
use crate::core::planted_bugs::{Planted, Plants};
use crate::core::zone_settings::ZoneChange;
use crate::core::{Command, Failure, Job, OnComplete, Op, Outcome};

/// The longest part of zeroes, 1 MiB: as the longest piece of a client's write.
const ZEROES: Sectors = Sectors(2048);
/// Parts of zeroes outstanding in the drive: bounded, so that other commands need not wait for all of them.
const MOST_ZEROING: usize = 2;

/// Time to reload a layer per entry of its map, ns: measured, 0.8 to 1.1 us for 1,000 to 20,000 entries
/// (`image/examples/reopen_time.rs`).
const TAKE_UP_NS: u64 = 1000;
/// While writes are refused, at most one part in this many of the time goes to reloading the layer.
const TAKE_UP_SHARE: u64 = 8;

/// A completed command.
pub struct Done {
    job: Job,
    outcome: Outcome,
    /// When it completes according to the model.
    pub at: Time,
    /// When the completion is to be sent.
    pub due: Time,
}

impl Done {
    /// Sends the completion.
    pub fn finish(self) {
        self.job.finish(self.outcome);
    }
}

/// A zeroes command with pending parts.
struct Zeroing {
    number: u32,
    job: Job,
    came: Time,
    /// The rest, which has not been submitted.
    rest: LbaExtent,
    /// Whether a part of it is outstanding in the drive.
    in_flight: bool,
}

/// See the module documentation.
pub struct ModelDrive {
    pub(super) online: Online,
    pub(super) bytes: Bytes,
    /// The command of the last written part comes last.
    zeroing: VecDeque<Zeroing>,
    next_zeroing: u32,
    /// Whether the drive is shutting down: no part is started any more.
    ending: bool,
    /// Commands that wait for zeroes, with their arrival times, oldest first.
    behind: Vec<(Job, Time)>,
    answers: Vec<Answered>,
    /// Outstanding commands, and their maximum number so far.
    pub(super) outstanding: usize,
    pub(super) deepest: usize,
    /// The latest model time of a completion that was sent.
    answered_until: Time,
    pub(super) wake_latency: WakeLatency,
    plants: Plants,
    /// [`ZEROES`], or less for small drives.
    zeroes: Sectors,
    /// Until when writes that need the media are refused without an attempt, because the last one was refused.
    full_until: Time,
    /// Refused commands, and cancelled zeroes.
    refused: Vec<Done>,
}

/// How far ahead of its time a completion is sent: its client has slept since the request, or since the completion before.
fn lead(wake_latency: &WakeLatency, bytes: &Bytes, answered_until: Time, answer: Answered) -> Nanos {
    let asked = bytes.commands.get(answer.id).map_or(answer.at, |in_flight| in_flight.came);
    let asleep = Nanos(answer.at.get().saturating_sub(asked.max(answered_until).get()));
    let lead = wake_latency.lead(Duration::from_nanos(asleep.get()));
    Nanos(lead.as_nanos() as u64).min(asleep)
}

impl Zeroing {
    /// The pending rest as a command.
    fn rest(&self) -> Command {
        Command { extent: self.rest, ..self.job.command }
    }
}

impl ModelDrive {
    /// A drive whose layer is that of the image behind `interpreter`; completions are sent ahead of their time by the
    /// wake-up latency of their clients.
    pub fn new(mut drive: Drive, interpreter: Interpreter, wake_latency: WakeLatency) -> Self {
        let shingles = super::shingles_of(&mut drive);
        let zones = drive.layer_mut().zoned().map(|zoned| *zoned.layout());
        let (answered_until, write_cache) = (drive.now(), drive.write_cache());
        Self {
            online: Online::new(drive),
            bytes: Bytes::new(interpreter, write_cache, shingles, zones),
            zeroing: VecDeque::new(),
            ending: false,
            next_zeroing: 0,
            behind: Vec::new(),
            answers: Vec::new(),
            outstanding: 0,
            deepest: 0,
            answered_until,
            wake_latency,
            full_until: answered_until,
            refused: Vec::new(),
            plants: Plants::default(),
            zeroes: ZEROES,
        }
    }

    /// Writes zeroes in parts of `len`: for tests on small drives.
    #[doc(hidden)]
    pub fn write_zeroes_in(&mut self, len: Sectors) {
        self.zeroes = len;
    }

    /// Plants a bug.
    #[cfg(feature = "planted")]
    #[doc(hidden)]
    pub fn plant(&mut self, planted: Planted) {
        self.plants = Some(planted).into();
        self.bytes.cached.plants = self.plants;
        if let Planted::Drive(planted) = planted {
            self.online.drive_mut().plant(planted);
        }
    }

    /// The status of a drive whose sectors can be overwritten.
    pub(super) fn shingled(&mut self) -> Option<serde_json::Value> {
        let shingles = self.bytes.shingles.as_ref()?;
        Some(shingles.status(self.online.drive_mut().layer_mut().overwriting()?))
    }

    /// The time of the next event if no command arrives.
    pub fn next(&self) -> Option<Time> {
        self.online.next(|answer| lead(&self.wake_latency, &self.bytes, self.answered_until, answer))
    }

    /// The time up to which all events have been processed.
    pub fn clock(&self) -> Time {
        self.online.clock()
    }

    /// Submits a command that arrived at `at`; its data has [`Command::data_bytes`] bytes.
    pub fn submit(&mut self, job: Job, at: Time) {
        self.outstanding += 1;
        self.deepest = self.deepest.max(self.outstanding);
        // The client may have received a completion ahead of its time: its next command arrives after that time.
        let at = at.max(self.answered_until);
        let refused = match job.command.op {
            // Its bytes would be at a place that is known only when a plan has it, and `drive_data.rs` knows no such bytes.
            Op::Append => Failure::Unsupported,
            _ if at < self.full_until && self.bytes.waits_for_media(&job.command) => Failure::NoSpace,
            _ => return self.place(job, at),
        };
        self.outstanding -= 1;
        self.refused.push(Done { job, outcome: Outcome::Failed(refused), at, due: at });
    }

    /// After a refused write the layer was reloaded: writes that follow at once are refused without another reload.
    fn note_refused(&mut self) {
        if std::mem::take(&mut self.bytes.refused_host) {
            let entries = self.online.drive().cache_use().map_entries;
            self.full_until = self.online.clock() + Nanos(entries * TAKE_UP_NS * TAKE_UP_SHARE);
        }
    }

    /// Submits a command to the drive, unless it has to wait for zeroes.
    fn place(&mut self, job: Job, came: Time) {
        let order = Order::of(self.bytes.zones.as_ref(), &job.command);
        let waits = self.zeroing.iter().any(|zeroing| order.matters_to(&zeroing.rest()))
            || order.matters_to_any(self.behind.iter().map(|(older, _)| &older.command));
        if waits && !self.plants.has(Planted::ZeroesAnyTime) {
            return self.behind.push((job, came));
        }
        if job.command.op != Op::WriteZeroes {
            return self.feed(job, came, came, None);
        }
        let (number, rest) = (self.next_zeroing, job.command.extent);
        self.next_zeroing = self.next_zeroing.wrapping_add(1);
        let zeroing = Zeroing { number, job, came, rest, in_flight: false };
        self.zeroing.push_back(zeroing);
        self.zero_on(came);
    }

    fn feed(&mut self, job: Job, came: Time, at: Time, part_of: Option<u32>) {
        let command = self.bytes.commands.start(job, came, part_of);
        self.online.submit(command, at, &mut self.bytes);
    }

    /// Starts the next parts of zeroes, of each command in turn; cancelled commands end.
    fn zero_on(&mut self, at: Time) {
        while self.zeroing.iter().filter(|zeroing| zeroing.in_flight).count() < MOST_ZEROING {
            let waits = self.zeroing.iter().position(|zeroing| !zeroing.in_flight);
            let Some(mut zeroing) = waits.and_then(|index| self.zeroing.remove(index)) else {
                return;
            };
            if self.ending || zeroing.job.is_cancelled() {
                self.outstanding -= 1;
                let outcome = Outcome::Failed(Failure::Aborted);
                self.refused.push(Done { job: zeroing.job, outcome, at, due: at });
                continue;
            }
            let LbaExtent { start, len } = zeroing.rest;
            let here = LbaExtent::new(start, len.min(self.zeroes));
            let part = Command { op: Op::Write, extent: here, ..zeroing.job.command };
            zeroing.rest = LbaExtent::new(here.end(), len - here.len);
            zeroing.in_flight = true;
            let (came, number) = (zeroing.came, zeroing.number);
            self.zeroing.push_back(zeroing);
            // The last part completes the command.
            let job = Job::new(part, vec![0; part.len_bytes() as usize], Box::new(|_| {}));
            self.feed(job, came, at, Some(number));
        }
    }

    /// Takes the completions that are due at `now`; if there are none, advances the time to it.
    pub fn pass(&mut self, now: Time, done: &mut Vec<Done>) {
        done.append(&mut self.refused);
        let mut answers = std::mem::take(&mut self.answers);
        let Self { online, bytes, answered_until, wake_latency, .. } = self;
        online.report_early(now, |answer| lead(wake_latency, bytes, *answered_until, answer), &mut answers);
        if answers.is_empty() {
            online.advance(now, bytes, &mut answers);
        }
        let answered_until = self.answered_until;
        for answer in answers.drain(..) {
            let due =
                Time(answer.at.get() - lead(&self.wake_latency, &self.bytes, answered_until, answer).get());
            self.answered_until = self.answered_until.max(answer.at);
            if let Some(in_flight) = self.bytes.commands.finish(answer.id) {
                self.answered(in_flight, answer, due, done);
            }
        }
        self.answers = answers;
        self.note_refused();
    }

    /// Processes all events up to a time.
    pub fn run_to(&mut self, until: Time, done: &mut Vec<Done>) {
        while let Some(next) = self.next().filter(|&next| next < until) {
            self.pass(next + Nanos(1), done);
        }
        self.pass(until, done);
    }

    /// Brings a zone into a state, durably; what was done in words, or why it was not in one line. `None` if the drive
    /// has no zones.
    pub(super) fn change_zone(&mut self, change: ZoneChange) -> Option<Result<String, String>> {
        let layer = self.online.drive_mut().layer_mut();
        let done = change.apply(layer.zoned()?);
        Some(done.and_then(|words| {
            let kept = self.bytes.keep_zones(layer);
            kept.map(|()| words).map_err(|failure| format!("{change}: {failure}"))
        }))
    }

    /// Shuts the drive down in order when no command is outstanding: cached writes reach the media, and the next start
    /// replays no log.
    ///
    /// # Errors
    /// One line, when the store fails.
    pub fn close(mut self) -> Result<(), String> {
        let flushed = self.run_out();
        self.bytes
            .interpreter
            .close(self.online.drive_mut().layer_mut())
            .map_err(|error| error.to_string())?;
        flushed.map_err(|failure| format!("cannot flush: {failure}"))
    }

    /// Advances virtual time until all commands have completed and are flushed, except for pending zeroes; returns the
    /// result of the flush.
    pub(super) fn run_out(&mut self) -> Result<(), Failure> {
        self.ending = true;
        let (sender, receiver) = channel();
        let answer: OnComplete = Box::new(move |completion| {
            // The receiver is read below.
            let _ = sender.send(completion.outcome.status());
        });
        let flush = Job::new(Command::FLUSH, Vec::new(), answer);
        self.submit(flush, self.online.clock());
        let mut done = Vec::new();
        while self.outstanding > 0
            && let Some(next) = self.next()
        {
            self.pass(next + Nanos(1), &mut done);
            done.drain(..).for_each(Done::finish);
        }
        self.refused.drain(..).for_each(Done::finish);
        receiver.try_recv().unwrap_or(Err(Failure::Internal))
    }

    fn answered(&mut self, in_flight: InFlight, answer: Answered, due: Time, done: &mut Vec<Done>) {
        let InFlight { mut job, came, part_of, .. } = in_flight;
        let Answered { at, outcome, .. } = answer;
        let whose = |zeroing: &Zeroing| Some(zeroing.number) == part_of;
        let Some(index) = self.zeroing.iter().position(whose) else {
            job.model_ns = Some((at - came).get());
            self.outstanding -= 1;
            return done.push(Done { job, outcome, at, due });
        };
        let zeroing = &mut self.zeroing[index];
        zeroing.in_flight = false;
        if outcome.status().is_ok() && !zeroing.rest.is_empty() {
            self.zero_on(at);
        } else if let Some(Zeroing { mut job, came, .. }) = self.zeroing.remove(index) {
            job.model_ns = Some((at - came).get());
            self.outstanding -= 1;
            done.push(Done { job, outcome, at, due });
            self.zero_on(at);
        }
        // Commands may have waited for this part.
        for (job, came) in std::mem::take(&mut self.behind) {
            self.place(job, came);
        }
    }
}
