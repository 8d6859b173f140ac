//! Wake-up latency of clients, measured continuously on this machine: the time from sending a reply until the
//! sleeping client thread runs.
//!
//! A client that waits for a disk sleeps, and the longer it has slept the longer it takes to wake, up to some
//! tens of microseconds: its processor has entered a deeper idle state, and on a virtual machine has been
//! given to others. To compensate, a reply is sent ahead of its due time by the wake-up latency: the median
//! for a thread of this process that sleeps on a socket as a client does, after sleeps of several lengths.
//! Network latency is unknown here and not compensated. `docs/serve.md`, *Timing*, says what this is worth.
//!
//! Invariants: the lead never exceeds [`MAX_LEAD`] and is zero until enough samples exist; the measurement
//! sends five messages per second.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The measured lengths of sleep: from a cache hit up to a seek and a revolution.
const SLEEPS: [Duration; 4] = [
    Duration::from_micros(250),
    Duration::from_millis(1),
    Duration::from_millis(4),
    Duration::from_millis(16),
];
/// Upper bound of the lead: on an overloaded machine no thread wakes in time, and its clients should see
/// that.
pub const MAX_LEAD: Duration = Duration::from_micros(150);
/// Samples per length that are taken at once at start-up, and the minimum for a median.
const MIN_SAMPLES: usize = 8;
/// The responder spins this long before it answers, so that the woken client does not inherit its warm CPU.
const SPIN: Duration = Duration::from_micros(100);
/// Interval between later rounds.
const INTERVAL: Duration = Duration::from_secs(1);
/// Samples per length that are kept for the median.
const MAX_SAMPLES: usize = 16;

/// The last samples for one length of sleep, ns.
#[derive(Debug, Default)]
struct Samples {
    last: Vec<u64>,
    next: usize,
}

impl Samples {
    /// Adds a sample and returns the median, or 0 while there are too few.
    fn push(&mut self, latency_ns: u64) -> u64 {
        if self.last.len() < MAX_SAMPLES {
            self.last.push(latency_ns);
        } else {
            self.last[self.next] = latency_ns;
            self.next = (self.next + 1) % MAX_SAMPLES;
        }
        let mut sorted = self.last.clone();
        sorted.sort_unstable();
        if sorted.len() < MIN_SAMPLES { 0 } else { sorted[sorted.len() / 2] }
    }
}

/// Wake-up latency for each length of sleep, ns.
#[derive(Debug, Default)]
struct Latencies([AtomicU64; SLEEPS.len()]);

impl Latencies {
    /// Interpolates linearly between the measured lengths, down to zero for a client that has not slept.
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
    /// Starts the measurement.
    ///
    /// # Errors
    /// When the system has no more threads or sockets.
    pub fn measured() -> std::io::Result<Self> {
        let (to, from) = UnixStream::pair()?;
        let (over, stop) = channel();
        let (latencies, began) = (Arc::new(Latencies::default()), Instant::now());
        let kept = latencies.clone();
        let client = Builder::new()
            .name("wake-client".to_owned())
            .spawn(move || sleep_and_wake(from, began, &kept))?;
        let server = Builder::new().name("wake-server".to_owned()).spawn(move || send(to, began, &stop))?;
        Ok(Self { latencies, over: Some(over), threads: vec![server, client] })
    }

    /// No compensation: replies are sent at their due times.
    pub fn none() -> Self {
        Self { latencies: Arc::default(), over: None, threads: Vec::new() }
    }

    /// The lead of a reply to a client that will have slept for this long.
    pub fn lead(&self, asleep: Duration) -> Duration {
        self.latencies.after(asleep)
    }

    /// The measured lengths of sleep with their leads.
    pub fn table(&self) -> impl Iterator<Item = (Duration, Duration)> {
        SLEEPS.iter().map(|&asleep| (asleep, self.lead(asleep)))
    }
}

impl Drop for WakeLatency {
    fn drop(&mut self) {
        self.over = None;
        for thread in self.threads.drain(..) {
            // A panic in these threads affects nothing else.
            let _ = thread.join();
        }
    }
}

/// Sends the current time, ns since `began`, at once and after each length of sleep: `MIN_SAMPLES` rounds
/// back to back, then one per interval, until `stop` is closed.
fn send(mut to: UnixStream, began: Instant, stop: &Receiver<()>) {
    for round in 1.. {
        for sleep in std::iter::once(Duration::ZERO).chain(SLEEPS) {
            std::thread::sleep(sleep.saturating_sub(SPIN));
            let spin_start = Instant::now();
            while spin_start.elapsed() < sleep.min(SPIN) {
                std::hint::spin_loop();
            }
            if to.write_all(&ns_since(began).to_ne_bytes()).is_err() {
                return;
            }
        }
        let pause = if round < MIN_SAMPLES { Duration::ZERO } else { INTERVAL };
        if stop.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

/// Sleeps until a message arrives and records its latency, until the sender exits. The first message of a
/// round ends an interval of no measured length.
fn sleep_and_wake(mut from: UnixStream, began: Instant, latencies: &Latencies) {
    let (mut samples, mut sent) = ([const { Samples { last: Vec::new(), next: 0 } }; SLEEPS.len()], [0; 8]);
    for message in 0.. {
        if from.read_exact(&mut sent).is_err() {
            return;
        }
        let latency_ns = ns_since(began) - u64::from_ne_bytes(sent);
        if let Some(length) = (message % (SLEEPS.len() + 1)).checked_sub(1) {
            latencies.0[length].store(samples[length].push(latency_ns), Ordering::Relaxed);
        }
    }
}

fn ns_since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(us: [u64; 4]) -> Latencies {
        Latencies(us.map(|us| AtomicU64::new(us * 1000)))
    }

    #[test]
    fn latency_is_interpolated() {
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
    fn the_median_needs_enough_samples_and_forgets_old_ones() {
        let mut samples = Samples::default();
        for _ in 1..MIN_SAMPLES {
            assert_eq!(samples.push(7), 0);
        }
        assert_eq!(samples.push(7), 7);
        let after = (0..=MAX_SAMPLES).map(|_| samples.push(50)).last();
        assert_eq!(after, Some(50));
        assert_eq!(samples.last.len(), MAX_SAMPLES);
    }

    #[test]
    fn it_measures_and_stops() {
        let latency = WakeLatency::measured().expect("a machine with sockets");
        let begun = Instant::now();
        while latency.lead(SLEEPS[3]).is_zero() {
            assert!(begun.elapsed() < Duration::from_secs(60), "no measurement in time");
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(latency);
    }
}
