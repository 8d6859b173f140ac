//! How long an answer is on its way to a client that sleeps until it comes: measured, all the time, on this machine.
//!
//! A client that waits for a disk sleeps, and the longer it has slept the longer it takes to wake: its processor
//! has gone to rest, and on a virtual machine has been given to others. That is up to some
//! tens of microseconds. So an answer leaves ahead of its time by what the way
//! takes mostly: the median of what a thread of our own needs, that sleeps on a socket as a client does, after
//! sleeps of several lengths. What a network takes is not known here and not made up for.
//!
//! Invariants: never ahead by more than [`MOST`], nor by anything before enough was measured; the measurement
//! sends five messages a second.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The lengths of sleep that are measured: answers from a cache, and up to what a turn and a seek take.
const SLEEPS: [Duration; 4] = [
    Duration::from_micros(250),
    Duration::from_millis(1),
    Duration::from_millis(4),
    Duration::from_millis(16),
];
/// An answer leaves ahead of its time by so much at most, whatever was measured: an overloaded machine wakes nobody
/// in time, and its clients should see that.
pub const MOST: Duration = Duration::from_micros(150);
/// Rounds of all lengths that are measured at once when a drive begins to be served.
const FIRST: usize = 8;
/// Who answers has watched the clock for so long: a client that is woken by a thread that sleeps again at once would get
/// that thread's processor, which is awake.
const AWAKE: Duration = Duration::from_micros(100);
/// Between two rounds after that.
const PAUSE: Duration = Duration::from_secs(1);
/// Of so many last rounds the median is taken.
const KEPT: usize = 16;

/// The last measurements after sleeps of one length, ns.
#[derive(Debug, Default)]
struct Slept {
    last: Vec<u64>,
    next: usize,
}

impl Slept {
    /// Keeps a measurement; the median of those kept, 0 while they are few.
    fn keep(&mut self, way_ns: u64) -> u64 {
        if self.last.len() < KEPT {
            self.last.push(way_ns);
        } else {
            self.last[self.next] = way_ns;
            self.next = (self.next + 1) % KEPT;
        }
        let mut sorted = self.last.clone();
        sorted.sort_unstable();
        if sorted.len() < FIRST { 0 } else { sorted[sorted.len() / 2] }
    }
}

/// The way after each length of sleep, ns.
#[derive(Debug, Default)]
struct Ways([AtomicU64; SLEEPS.len()]);

impl Ways {
    /// Between two lengths in proportion, to nothing for a client that has not slept.
    fn after(&self, asleep: Duration) -> Duration {
        let (mut from, mut way_from) = (Duration::ZERO, 0.0);
        for (&to, way) in SLEEPS.iter().zip(&self.0) {
            let way_to = way.load(Ordering::Relaxed) as f64;
            if asleep < to {
                let part = (asleep - from).as_secs_f64() / (to - from).as_secs_f64();
                let way = way_from + (way_to - way_from) * part;
                return Duration::from_nanos(way as u64).min(MOST);
            }
            (from, way_from) = (to, way_to);
        }
        Duration::from_nanos(way_from as u64).min(MOST)
    }
}

/// See the module page.
#[derive(Debug)]
pub struct Way {
    ways: Arc<Ways>,
    over: Option<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Way {
    /// Begins to measure.
    ///
    /// # Errors
    /// When the system has no more threads or sockets.
    pub fn measured() -> std::io::Result<Self> {
        let (to, from) = UnixStream::pair()?;
        let (over, ends) = channel();
        let (ways, began) = (Arc::new(Ways::default()), Instant::now());
        let kept = ways.clone();
        let client =
            Builder::new().name("way-client".to_owned()).spawn(move || sleep_and_wake(from, began, &kept))?;
        let server = Builder::new().name("way".to_owned()).spawn(move || send(to, began, &ends))?;
        Ok(Self { ways, over: Some(over), threads: vec![server, client] })
    }

    /// No way at all: answers leave at their times.
    pub fn none() -> Self {
        Self { ways: Arc::default(), over: None, threads: Vec::new() }
    }

    /// How far ahead of its time an answer should leave, to a client that will have slept so long.
    pub fn ahead(&self, asleep: Duration) -> Duration {
        self.ways.after(asleep)
    }

    /// The lengths of sleep that are measured, and how far ahead an answer leaves after each.
    pub fn table(&self) -> impl Iterator<Item = (Duration, Duration)> {
        SLEEPS.iter().map(|&asleep| (asleep, self.ahead(asleep)))
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.over = None;
        for thread in self.threads.drain(..) {
            // They hold nothing that a panic could spoil.
            let _ = thread.join();
        }
    }
}

/// Sends the time, ns since `began`, at once and after each length of sleep: `FIRST` rounds one after the other, then one
/// in a while, until `ends` is closed.
fn send(mut to: UnixStream, began: Instant, ends: &Receiver<()>) {
    for round in 1.. {
        for sleep in std::iter::once(Duration::ZERO).chain(SLEEPS) {
            std::thread::sleep(sleep.saturating_sub(AWAKE));
            let awake = Instant::now();
            while awake.elapsed() < sleep.min(AWAKE) {
                std::hint::spin_loop();
            }
            if to.write_all(&since(began).to_ne_bytes()).is_err() {
                return;
            }
        }
        let pause = if round < FIRST { Duration::ZERO } else { PAUSE };
        if ends.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

/// Sleeps until a time comes, and keeps how long it was on its way, until nobody sends. The first of a round ends a
/// pause, which is no length that is measured.
fn sleep_and_wake(mut from: UnixStream, began: Instant, ways: &Ways) {
    let (mut slept, mut sent) = ([const { Slept { last: Vec::new(), next: 0 } }; SLEEPS.len()], [0; 8]);
    for message in 0.. {
        if from.read_exact(&mut sent).is_err() {
            return;
        }
        let way_ns = since(began) - u64::from_ne_bytes(sent);
        if let Some(length) = (message % (SLEEPS.len() + 1)).checked_sub(1) {
            ways.0[length].store(slept[length].keep(way_ns), Ordering::Relaxed);
        }
    }
}

fn since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(us: [u64; 4]) -> Ways {
        Ways(us.map(|us| AtomicU64::new(us * 1000)))
    }

    #[test]
    fn between_two_lengths_the_way_is_in_proportion() {
        let ways = ways([10, 20, 40, 80]);
        let cases = [
            (0, 0),
            (125, 5),
            (250, 10),
            (1_000, 20),
            (2_500, 30),
            (10_000, 60),
            (16_000, 80),
            (900_000, 80),
        ];
        for (asleep_us, ahead_us) in cases {
            let ahead = ways.after(Duration::from_micros(asleep_us));
            assert_eq!(ahead, Duration::from_micros(ahead_us), "asleep for {asleep_us} us");
        }
    }

    #[test]
    fn an_overloaded_machine_is_not_made_up_for() {
        assert_eq!(ways([9_000; 4]).after(Duration::from_secs(1)), MOST);
    }

    #[test]
    fn few_measurements_say_nothing_and_old_ones_go() {
        let mut slept = Slept::default();
        for _ in 1..FIRST {
            assert_eq!(slept.keep(7), 0);
        }
        assert_eq!(slept.keep(7), 7);
        let after = (0..=KEPT).map(|_| slept.keep(50)).last();
        assert_eq!(after, Some(50));
        assert_eq!(slept.last.len(), KEPT);
    }

    #[test]
    fn it_measures_and_ends() {
        let way = Way::measured().expect("a machine with sockets");
        let begun = Instant::now();
        while way.ahead(SLEEPS[3]).is_zero() {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing was measured");
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(way);
    }
}
