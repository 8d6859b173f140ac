//! Busy polling of a socket: spinning briefly for the next request before sleeping.
//!
//! A client at queue depth 1 sends its next request some microseconds after a reply. Sleeping in between
//! costs a wake-up, which on a virtual machine takes longer than the whole request. So the thread polls for
//! as long as such a client needs, and sleeps after that.
//!
//! Invariants: at most half of the processors poll at a time, and none on a machine with one, so that the
//! clients can run; a client that stays silent for a few polling windows is no longer polled for until it is
//! quick again. Replies that take milliseconds do not start polling, because the polling thread would occupy
//! the client's processor. The loop spins without yielding: on a busy machine a yielded time slice comes back
//! milliseconds later, whereas a sleeping thread is woken at once.
//!
//! Source of the idea: busy polling of sockets in the Linux kernel, and halt polling in KVM, whose rule for
//! the window this is: grow to the maximum when polling would have been long enough, halve otherwise.

use std::io;
use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use crate::nbd::transport::Channel;

/// The longest polling window: about what falling asleep and waking up costs a client and a server together.
const MAX_WINDOW: Duration = Duration::from_micros(50);
/// Windows shorter than this are not worth the system calls.
const MIN_WINDOW: Duration = Duration::from_micros(2);

static POLLERS: AtomicUsize = AtomicUsize::new(0);

fn max_pollers() -> usize {
    static MAX_POLLERS: OnceLock<usize> = OnceLock::new();
    *MAX_POLLERS.get_or_init(|| available_parallelism().map_or(0, |cores| NonZero::get(cores) / 2))
}

/// A permit to poll; at most `max_pollers` exist.
struct Permit;

impl Permit {
    fn acquire() -> Option<Self> {
        let before = POLLERS.fetch_add(1, Ordering::Relaxed);
        // Dropping the permit decrements the counter, also when the limit was exceeded.
        let permit = Self;
        (before < max_pollers()).then_some(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        POLLERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The polling window of one client.
#[derive(Debug, Default)]
pub struct BusyPoll {
    window: Duration,
}

impl BusyPoll {
    /// Receives bytes as [`Channel::receive`] does, after polling for a while.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn receive(&mut self, channel: &dyn Channel, buffer: &mut [u8]) -> io::Result<usize> {
        let began = Instant::now();
        if let Some(count) = self.poll(channel, buffer, began)? {
            return Ok(count);
        }
        let received = channel.receive(buffer);
        self.adapt(began.elapsed());
        received
    }

    /// Polls until bytes arrive or the window ends.
    fn poll(&self, channel: &dyn Channel, buffer: &mut [u8], began: Instant) -> io::Result<Option<usize>> {
        if self.window.is_zero() {
            return Ok(None);
        }
        let Some(_permit) = Permit::acquire() else {
            return Ok(None);
        };
        loop {
            if let Some(count) = channel.try_receive(buffer)? {
                return Ok(Some(count));
            }
            if began.elapsed() >= self.window {
                return Ok(None);
            }
            std::hint::spin_loop();
        }
    }

    fn adapt(&mut self, waited: Duration) {
        self.window = match self.window / 2 {
            _ if waited <= MAX_WINDOW => MAX_WINDOW,
            shorter if shorter >= MIN_WINDOW => shorter,
            _ => Duration::ZERO,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_for_a_quick_client_and_shrinks_to_zero_for_a_slow_one() {
        let mut poller = BusyPoll::default();
        assert!(poller.window.is_zero(), "no measurement yet");
        poller.adapt(Duration::from_micros(20));
        assert_eq!(poller.window, MAX_WINDOW);
        for _ in 0..5 {
            poller.adapt(Duration::from_millis(1));
        }
        assert!(poller.window.is_zero());
        poller.adapt(Duration::from_micros(49));
        assert_eq!(poller.window, MAX_WINDOW);
    }

    #[test]
    fn pollers_are_limited() {
        let permits: Vec<_> = (0..10_000).map_while(|_| Permit::acquire()).collect();
        assert!(permits.len() <= max_pollers());
        drop(permits);
    }

    #[test]
    fn bytes_are_received_with_and_without_polling() {
        use std::os::unix::net::UnixStream;
        let (server, client) = UnixStream::pair().unwrap();
        let mut buffer = [0; 8];
        for window in [Duration::ZERO, MAX_WINDOW] {
            let mut poller = BusyPoll { window };
            client.send(b"word").unwrap();
            assert_eq!(poller.receive(&server, &mut buffer).unwrap(), 4);
        }
        let mut poller = BusyPoll { window: MAX_WINDOW };
        let later = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            client.send(b"later").unwrap();
        });
        assert_eq!(poller.receive(&server, &mut buffer).unwrap(), 5);
        assert!(poller.window < MAX_WINDOW, "20 ms exceed every window");
        later.join().unwrap();
        assert_eq!(poller.receive(&server, &mut buffer).unwrap(), 0, "the peer has closed the socket");
    }
}
