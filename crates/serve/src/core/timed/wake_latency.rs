//! Wake-up latency of clients: how long a thread that sleeps until an answer comes takes to have it, measured all the time
//! on this machine.
//!
//! A client that waits for a disk sleeps, and the longer it has slept the longer it takes to wake: its processor has gone
//! to rest, and on a virtual machine has been given to others. That is up to some tens of microseconds. So an answer leaves
//! ahead of its time by the wake-up latency: the median of what a thread of our own needs, that sleeps on a socket as a
//! client does, after sleeps of several lengths. The latency of a network is not known here and not compensated.
//! `docs/serve.md`, *Timing*, has what that is worth.
//!
//! Invariants: never ahead by more than [`MAX_LEAD`], nor by anything before enough was measured; the measurement
//! sends five messages a second.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The lengths of sleep that are measured: answers from a cache, and up to what a revolution and a seek take.
const SLEEPS: [Duration; 4] = [
    Duration::from_micros(250),
    Duration::from_millis(1),
    Duration::from_millis(4),
    Duration::from_millis(16),
];
/// An answer leaves ahead of its time by at most this, whatever was measured: an overloaded machine wakes nobody in time,
/// and its clients should see that.
pub const MAX_LEAD: Duration = Duration::from_micros(150);
/// Rounds of all lengths that are measured at once when a drive begins to be served.
const FIRST: usize = 8;
/// The responder spins this long before it answers, so that the woken client does not inherit its warm CPU.
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
    fn keep(&mut self, latency_ns: u64) -> u64 {
        if self.last.len() < KEPT {
            self.last.push(latency_ns);
        } else {
            self.last[self.next] = latency_ns;
            self.next = (self.next + 1) % KEPT;
        }
        let mut sorted = self.last.clone();
        sorted.sort_unstable();
        if sorted.len() < FIRST { 0 } else { sorted[sorted.len() / 2] }
    }
}

/// The wake-up latency after each length of sleep, ns.
#[derive(Debug, Default)]
struct Latencies([AtomicU64; SLEEPS.len()]);

impl Latencies {
    /// Between two lengths in proportion, to nothing for a client that has not slept.
    fn after(&self, asleep: Duration) -> Duration {
        let (mut from, mut latency_from) = (Duration::ZERO, 0.0);
        for (&to, latency) in SLEEPS.iter().zip(&self.0) {
            let latency_to = latency.load(Ordering::Relaxed) as f64;
            if asleep < to {
                let part = (asleep - from).as_secs_f64() / (to - from).as_secs_f64();
                let latency = latency_from + (latency_to - latency_from) * part;
                return Duration::from_nanos(latency as u64).min(MAX_LEAD);
            }
            (from, latency_from) = (to, latency_to);
        }
        Duration::from_nanos(latency_from as u64).min(MAX_LEAD)
    }
}

/// See the module page.
#[derive(Debug)]
pub struct WakeLatency {
    latencies: Arc<Latencies>,
    over: Option<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl WakeLatency {
    /// Begins to measure.
    ///
    /// # Errors
    /// When the system has no more threads or sockets.
    pub fn measured() -> std::io::Result<Self> {
        let (to, from) = UnixStream::pair()?;
        let (over, ends) = channel();
        let (latencies, began) = (Arc::new(Latencies::default()), Instant::now());
        let kept = latencies.clone();
        let client = Builder::new()
            .name("wake-client".to_owned())
            .spawn(move || sleep_and_wake(from, began, &kept))?;
        let server = Builder::new().name("wake-server".to_owned()).spawn(move || send(to, began, &ends))?;
        Ok(Self { latencies, over: Some(over), threads: vec![server, client] })
    }

    /// None: answers leave at their times.
    pub fn none() -> Self {
        Self { latencies: Arc::default(), over: None, threads: Vec::new() }
    }

    /// How far ahead of its time an answer should leave, to a client that will have slept so long.
    pub fn lead(&self, asleep: Duration) -> Duration {
        self.latencies.after(asleep)
    }

    /// The lengths of sleep that are measured, and how far ahead an answer leaves after each.
    pub fn table(&self) -> impl Iterator<Item = (Duration, Duration)> {
        SLEEPS.iter().map(|&asleep| (asleep, self.lead(asleep)))
    }
}

impl Drop for WakeLatency {
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

/// Sleeps until a message comes, and keeps how long that took since it was sent, until nobody sends. The first of a round ends a
/// pause, which is no length that is measured.
fn sleep_and_wake(mut from: UnixStream, began: Instant, latencies: &Latencies) {
    let (mut slept, mut sent) = ([const { Slept { last: Vec::new(), next: 0 } }; SLEEPS.len()], [0; 8]);
    for message in 0.. {
        if from.read_exact(&mut sent).is_err() {
            return;
        }
        let latency_ns = since(began) - u64::from_ne_bytes(sent);
        if let Some(length) = (message % (SLEEPS.len() + 1)).checked_sub(1) {
            latencies.0[length].store(slept[length].keep(latency_ns), Ordering::Relaxed);
        }
    }
}

fn since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(us: [u64; 4]) -> Latencies {
        Latencies(us.map(|us| AtomicU64::new(us * 1000)))
    }

    #[test]
    fn between_two_lengths_the_latency_is_interpolated() {
        let latencies = latencies([10, 20, 40, 80]);
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
            let lead = latencies.after(Duration::from_micros(asleep_us));
            assert_eq!(lead, Duration::from_micros(ahead_us), "asleep for {asleep_us} us");
        }
    }

    #[test]
    fn an_overloaded_machine_is_not_compensated() {
        assert_eq!(latencies([9_000; 4]).after(Duration::from_secs(1)), MAX_LEAD);
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
        let latency = WakeLatency::measured().expect("a machine with sockets");
        let begun = Instant::now();
        while latency.lead(SLEEPS[3]).is_zero() {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing was measured");
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(latency);
    }
}
