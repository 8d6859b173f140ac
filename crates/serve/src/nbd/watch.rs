//! Looking for bytes for a little before sleeping until they come.
//!
//! A client that asks one thing at a time asks again some microseconds after its answer. To sleep meanwhile costs
//! a wake-up, which on a virtual machine takes longer than the whole request; so whoever waits looks for as long
//! as such a client needs, and sleeps after that.
//!
//! Invariants: only so many threads look at a time that a processor is left for the clients, none on a machine
//! with one; a client that lets a few looks pass without a request is slept on from then on, until it is quick again.
//! Nothing is yielded meanwhile: on a busy machine a turn given away comes back milliseconds later, where
//! a thread that slept is woken at once.
//! Source of the idea: busy polling of sockets in the kernel, and halt polling of KVM, whose rule for the window
//! this is (grow to the most when it would have been enough, halve it when not).

use std::io;
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use crate::nbd::channel::Channel;

/// The longest look: about what going to sleep and being woken costs a client and a server together.
const MOST: Duration = Duration::from_micros(50);
/// The longest look after an answer that another thread gave: the client has to be woken by it first.
const MOST_RUNG: Duration = Duration::from_micros(150);
/// A shorter look is not worth its beginning.
const LEAST: Duration = Duration::from_micros(2);

static LOOKING: AtomicUsize = AtomicUsize::new(0);

fn most_looking() -> usize {
    static MOST_LOOKING: OnceLock<usize> = OnceLock::new();
    *MOST_LOOKING.get_or_init(|| available_parallelism().map_or(0, |cores| NonZero::get(cores) / 2))
}

/// A place among those that look at a time.
struct Place;

impl Place {
    fn take() -> Option<Self> {
        let before = LOOKING.fetch_add(1, Ordering::Relaxed);
        // Given back by the drop also when it was one too many.
        let place = Self;
        (before < most_looking()).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        LOOKING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a thread that answers wakes the one that receives with: the client's next request is near.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// A bell.
    ///
    /// # Errors
    /// When the system has no more descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Wakes who waits for it.
    pub fn ring(&self) {
        // It fails when it was rung 2^64 times and nobody came.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    fn silence(&self) {
        // It fails when it does not ring.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

/// How long it is worth looking for what one client sends.
#[derive(Debug, Default)]
pub struct Watch {
    window: Duration,
    /// Where others answer: looked for is after an answer.
    bell: Option<Arc<Bell>>,
    rung_at: Option<Instant>,
}

impl Watch {
    /// Looks from now on when the bell rings, and not before.
    pub fn listen(&mut self, bell: Arc<Bell>) {
        self.bell = Some(bell);
    }

    /// Waits for bytes as [`Channel::receive`] does.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn receive(&mut self, channel: &dyn Channel, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(bell) = self.bell.clone() {
            return self.receive_rung(&bell, channel, buffer);
        }
        let began = Instant::now();
        if let Some(count) = self.look(channel, buffer, began)? {
            return Ok(count);
        }
        let received = channel.receive(buffer);
        self.learn(began.elapsed(), MOST);
        received
    }

    /// Sleeps until something comes or an answer went out, and looks for a little after an answer.
    fn receive_rung(&mut self, bell: &Bell, channel: &dyn Channel, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(socket) = channel.socket() else {
            return channel.receive(buffer);
        };
        loop {
            let mut waits = [PollFd::new(&socket, PollFlags::IN), PollFd::new(&bell.0, PollFlags::IN)];
            match poll(&mut waits, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let [came, rung] = waits.map(|wait| !wait.revents().is_empty());
            if rung {
                bell.silence();
                self.rung_at = Some(Instant::now());
            }
            if came {
                if let Some(rung_at) = self.rung_at.take() {
                    self.learn(rung_at.elapsed(), MOST_RUNG);
                }
                return channel.receive(buffer);
            }
            if let Some(count) = self.look(channel, buffer, Instant::now())? {
                self.rung_at = None;
                return Ok(count);
            }
        }
    }

    /// Looks until something comes or the window is over.
    fn look(&self, channel: &dyn Channel, buffer: &mut [u8], began: Instant) -> io::Result<Option<usize>> {
        if self.window.is_zero() {
            return Ok(None);
        }
        let Some(_place) = Place::take() else {
            return Ok(None);
        };
        loop {
            if let Some(count) = channel.receive_now(buffer)? {
                return Ok(Some(count));
            }
            if began.elapsed() >= self.window {
                return Ok(None);
            }
            std::hint::spin_loop();
        }
    }

    fn learn(&mut self, waited: Duration, most: Duration) {
        self.window = match self.window / 2 {
            _ if waited <= most => most,
            shorter if shorter >= LEAST => shorter,
            _ => Duration::ZERO,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_client_is_looked_for_and_a_slow_one_slept_on() {
        let mut watch = Watch::default();
        assert!(watch.window.is_zero(), "nothing is known of it yet");
        watch.learn(Duration::from_micros(20), MOST);
        assert_eq!(watch.window, MOST);
        for _ in 0..5 {
            watch.learn(Duration::from_millis(1), MOST);
        }
        assert!(watch.window.is_zero());
        watch.learn(Duration::from_micros(49), MOST);
        assert_eq!(watch.window, MOST);
    }

    #[test]
    fn no_more_look_than_leave_a_processor_free() {
        let places: Vec<_> = (0..10_000).map_while(|_| Place::take()).collect();
        assert!(places.len() <= most_looking());
        drop(places);
    }

    #[test]
    fn what_comes_is_received_looked_for_or_not() {
        use std::os::unix::net::UnixStream;
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut buffer = [0; 8];
        for window in [Duration::ZERO, MOST] {
            let mut watch = Watch { window, ..Watch::default() };
            theirs.send(b"word").unwrap();
            assert_eq!(watch.receive(&ours, &mut buffer).unwrap(), 4);
        }
        let mut watch = Watch { window: MOST, ..Watch::default() };
        let later = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            theirs.send(b"later").unwrap();
        });
        assert_eq!(watch.receive(&ours, &mut buffer).unwrap(), 5);
        assert!(watch.window < MOST, "20 ms are no time to look through");
        later.join().unwrap();
        assert_eq!(watch.receive(&ours, &mut buffer).unwrap(), 0, "the other end is gone");
    }

    #[test]
    fn an_answer_wakes_who_receives_and_bytes_do_too() {
        use std::os::unix::net::UnixStream;
        let (ours, theirs) = UnixStream::pair().unwrap();
        let bell = Arc::new(Bell::new().unwrap());
        for window in [Duration::ZERO, MOST_RUNG] {
            let mut watch = Watch { window, ..Watch::default() };
            watch.listen(bell.clone());
            let (rings, sends) = (bell.clone(), theirs.try_clone().unwrap());
            let client = std::thread::spawn(move || {
                for _ in 0..50 {
                    rings.ring();
                    std::thread::sleep(Duration::from_micros(300));
                    sends.send(b"word").unwrap();
                }
            });
            let (mut buffer, mut count) = ([0; 64], 0);
            while count < 50 * 4 {
                count += watch.receive(&ours, &mut buffer).unwrap();
            }
            client.join().unwrap();
        }
        drop(theirs);
        let mut watch = Watch::default();
        watch.listen(bell);
        assert_eq!(watch.receive(&ours, &mut [0; 4]).unwrap(), 0, "the other end is gone");
    }
}
