//! Looking for bytes for a little before sleeping until they come.
//!
//! A client that asks one thing at a time asks again some microseconds after its answer. To sleep meanwhile costs
//! a wake-up, which on a virtual machine takes longer than the whole request; so whoever waits looks for as long
//! as such a client needs, and sleeps after that.
//!
//! Invariants: only so many threads look at a time that a processor is left for the clients, none on a machine
//! with one; a client that lets a few looks pass without a request is slept on from then on, until it is quick again.
//! Who answers after milliseconds wakes nobody to look: that thread would take the client's processor.
//! Nothing is yielded meanwhile: on a busy machine a turn given away comes back milliseconds later, where
//! a thread that slept is woken at once.
//! Source of the idea: busy polling of sockets in the kernel, and halt polling of KVM, whose rule for the window
//! this is (grow to the most when it would have been enough, halve it when not).

use std::io;
use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use crate::nbd::channel::Channel;

/// The longest look: about what going to sleep and being woken costs a client and a server together.
const MOST: Duration = Duration::from_micros(50);
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

/// How long it is worth looking for what one client sends.
#[derive(Debug, Default)]
pub struct Watch {
    window: Duration,
}

impl Watch {
    /// Waits for bytes as [`Channel::receive`] does.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn receive(&mut self, channel: &dyn Channel, buffer: &mut [u8]) -> io::Result<usize> {
        let began = Instant::now();
        if let Some(count) = self.look(channel, buffer, began)? {
            return Ok(count);
        }
        let received = channel.receive(buffer);
        self.learn(began.elapsed());
        received
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

    fn learn(&mut self, waited: Duration) {
        self.window = match self.window / 2 {
            _ if waited <= MOST => MOST,
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
        watch.learn(Duration::from_micros(20));
        assert_eq!(watch.window, MOST);
        for _ in 0..5 {
            watch.learn(Duration::from_millis(1));
        }
        assert!(watch.window.is_zero());
        watch.learn(Duration::from_micros(49));
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
            let mut watch = Watch { window };
            theirs.send(b"word").unwrap();
            assert_eq!(watch.receive(&ours, &mut buffer).unwrap(), 4);
        }
        let mut watch = Watch { window: MOST };
        let later = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            theirs.send(b"later").unwrap();
        });
        assert_eq!(watch.receive(&ours, &mut buffer).unwrap(), 5);
        assert!(watch.window < MOST, "20 ms are no time to look through");
        later.join().unwrap();
        assert_eq!(watch.receive(&ours, &mut buffer).unwrap(), 0, "the other end is gone");
    }
}
