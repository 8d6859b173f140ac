//! Lines for people on standard error, and for files beside it.
//!
//! Whoever has something to say hands in a line and goes on; a thread writes it. So a terminal that is stopped, a pipe
//! that nobody reads and a reader that is gone hold up nothing but this thread, and no line is written under a lock
//! of a drive.
//!
//! Invariants: nothing here waits for a reader, panics or fails; lines wait in bounded number ([`MOST_LINES`]); those
//! that find no room are counted, and the next line that does says how many there were. Nothing else of this crate
//! writes to standard error or output.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// Lines that wait at most: as many as a person reads; some 200 KiB.
pub const MOST_LINES: usize = 1024;

/// Takes lines, one after the other; it may block, and fail as it likes.
pub type Writer = Box<dyn FnMut(&str) + Send>;

#[derive(Default)]
struct Waiting {
    lines: VecDeque<String>,
    dropped: u64,
    /// A line is being written.
    writing: bool,
    over: bool,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Shared {
    // The list is whole between any two statements that can panic.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all(&self, mut writer: Writer) {
        let mut waiting = self.waiting();
        loop {
            if let Some(line) = waiting.lines.pop_front() {
                waiting.writing = true;
                drop(waiting);
                writer(&line);
                waiting = self.waiting();
                waiting.writing = false;
                self.changed.notify_all();
            } else if waiting.over {
                return;
            } else {
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Lines on their way to a writer.
pub struct Lines(Arc<Shared>);

impl Lines {
    /// Lines that `writer` writes, by a thread of its own. Where the system has no thread they are dropped.
    pub fn to(writer: Writer) -> Self {
        let shared = Arc::new(Shared::default());
        let writes = shared.clone();
        if Builder::new().name("diagnostics".to_owned()).spawn(move || writes.write_all(writer)).is_err() {
            shared.waiting().over = true;
        }
        Self(shared)
    }

    /// Hands in a line.
    pub fn say(&self, line: String) {
        let mut waiting = self.0.waiting();
        if waiting.over {
            return;
        }
        if waiting.lines.len() >= MOST_LINES {
            waiting.dropped += 1;
            return;
        }
        let dropped = std::mem::take(&mut waiting.dropped);
        if dropped > 0 {
            waiting
                .lines
                .push_back(format!("{dropped} lines were dropped, because nobody read them in time"));
        }
        waiting.lines.push_back(line);
        self.0.changed.notify_all();
    }

    /// Waits until all is written, but not longer than `most`.
    pub fn drain(&self, most: Duration) {
        let busy = |waiting: &mut Waiting| !waiting.over && (waiting.writing || !waiting.lines.is_empty());
        drop(self.0.changed.wait_timeout_while(self.0.waiting(), most, busy));
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // The thread ends when it has written what waits; one that its reader holds up ends with the process.
        self.0.waiting().over = true;
        self.0.changed.notify_all();
    }
}

fn standard_error() -> &'static Lines {
    static LINES: OnceLock<Lines> = OnceLock::new();
    LINES.get_or_init(|| {
        Lines::to(Box::new(|line| {
            // Past the lock of the standard library, which a blocked write would hold; a reader that is gone is no
            // fault of a drive.
            let _ = write(format!("skylight: {line}\n").as_bytes());
        }))
    })
}

fn write(mut bytes: &[u8]) -> io::Result<()> {
    let standard_error = io::stderr();
    while !bytes.is_empty() {
        match rustix::io::write(standard_error.as_fd(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Says a line on standard error, some time.
pub fn say(line: String) {
    standard_error().say(line);
}

/// Waits until standard error has all lines, but not longer than `most`.
pub fn drain(most: Duration) {
    standard_error().drain(most);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_writer_that_blocks_holds_up_nobody_and_what_was_dropped_is_said() {
        let (go, gate) = channel::<()>();
        let (said, heard) = channel();
        let lines = Lines::to(Box::new(move |line| {
            let _ = gate.recv();
            let _ = said.send(line.to_owned());
        }));
        let all = 3 * MOST_LINES;
        (0..all).for_each(|number| lines.say(number.to_string()));
        lines.drain(Duration::from_millis(1));
        drop(go);
        lines.drain(Duration::from_secs(20));
        lines.say("last".to_owned());
        drop(lines);
        let heard: Vec<String> = heard.iter().collect();
        // One line may have been with the writer beside those that waited.
        let kept = heard.len() - 2;
        assert!((MOST_LINES..=MOST_LINES + 1).contains(&kept), "{kept}");
        assert!(heard[..kept].iter().enumerate().all(|(number, line)| *line == number.to_string()));
        let dropped = format!("{} lines were dropped", all - kept);
        assert!(heard[kept].starts_with(&dropped) && heard[kept + 1] == "last", "{:?}", &heard[kept..]);
    }
}
