//! Diagnostic messages on standard error and in files, written asynchronously.
//!
//! Callers queue a line and continue; a thread writes it. A stopped terminal, an unread pipe or a reader that
//! has exited blocks only this thread, and no line is written while a lock of a drive is held.
//!
//! Invariants: nothing here waits for a reader, panics or fails; the queue is bounded ([`MAX_QUEUED_LINES`]);
//! lines that exceed it are counted, and the next line that fits is preceded by their number. Nothing else in
//! this crate writes to standard error or output.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// Longest queue of lines, some 200 KiB: chosen, because more would not be read.
pub const MAX_QUEUED_LINES: usize = 1024;

/// Writes one line at a time; it may block, and handles its own errors.
pub type Writer = Box<dyn FnMut(&str) + Send>;

#[derive(Default)]
struct Queue {
    lines: VecDeque<String>,
    dropped: u64,
    /// A line is being written.
    writing: bool,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    // No statement that can panic leaves the queue inconsistent.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all(&self, mut writer: Writer) {
        let mut queue = self.queue();
        loop {
            if let Some(line) = queue.lines.pop_front() {
                queue.writing = true;
                drop(queue);
                writer(&line);
                queue = self.queue();
                queue.writing = false;
                self.changed.notify_all();
            } else if queue.closed {
                return;
            } else {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// A queue of lines for one writer.
pub struct Lines(Arc<Shared>);

impl Lines {
    /// Starts a thread that passes lines to `writer`. If the system cannot start a thread, lines are dropped.
    pub fn to(writer: Writer) -> Self {
        let shared = Arc::new(Shared::default());
        let writing = shared.clone();
        if Builder::new().name("diagnostics".to_owned()).spawn(move || writing.write_all(writer)).is_err() {
            shared.queue().closed = true;
        }
        Self(shared)
    }

    /// Queues a line.
    pub fn push(&self, line: String) {
        let mut queue = self.0.queue();
        if queue.closed {
            return;
        }
        if queue.lines.len() >= MAX_QUEUED_LINES {
            queue.dropped += 1;
            return;
        }
        let dropped = std::mem::take(&mut queue.dropped);
        if dropped > 0 {
            queue.lines.push_back(format!("{dropped} lines were dropped because they were not read in time"));
        }
        queue.lines.push_back(line);
        self.0.changed.notify_all();
    }

    /// Waits until all lines are written, at most for `timeout`.
    pub fn drain(&self, timeout: Duration) {
        let busy = |queue: &mut Queue| !queue.closed && (queue.writing || !queue.lines.is_empty());
        drop(self.0.changed.wait_timeout_while(self.0.queue(), timeout, busy));
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // The thread ends once it has written the queued lines; if its reader blocks it, it ends with the
        // process.
        self.0.queue().closed = true;
        self.0.changed.notify_all();
    }
}

fn standard_error() -> &'static Lines {
    static LINES: OnceLock<Lines> = OnceLock::new();
    LINES.get_or_init(|| {
        Lines::to(Box::new(|line| {
            // This bypasses the lock of the standard library, which a blocked write would hold. A closed
            // reader is not an error of the drive.
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

/// Queues a line for standard error.
pub fn log(line: String) {
    standard_error().push(line);
}

/// Waits until standard error has all lines, at most for `timeout`.
pub fn drain(timeout: Duration) {
    standard_error().drain(timeout);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_blocked_writer_blocks_no_caller_and_dropped_lines_are_reported() {
        let (go, gate) = channel::<()>();
        let (written, received) = channel();
        let (taken, with_writer) = channel();
        let lines = Lines::to(Box::new(move |line| {
            let _ = taken.send(());
            let _ = gate.recv();
            let _ = written.send(line.to_owned());
        }));
        let all = 3 * MAX_QUEUED_LINES;
        lines.push("0".to_owned());
        with_writer.recv().expect("the writer takes the first line");
        (1..all).for_each(|number| lines.push(number.to_string()));
        lines.drain(Duration::from_millis(1));
        drop(go);
        lines.drain(Duration::from_secs(20));
        lines.push("last".to_owned());
        drop(lines);
        let received: Vec<String> = received.iter().collect();
        let kept = received.len() - 2;
        assert_eq!(kept, MAX_QUEUED_LINES + 1, "those in the queue and the one with the writer");
        assert!(received[..kept].iter().enumerate().all(|(number, line)| *line == number.to_string()));
        let dropped = format!("{} lines were dropped", all - kept);
        assert!(
            received[kept].starts_with(&dropped) && received[kept + 1] == "last",
            "{:?}",
            &received[kept..]
        );
    }
}
