//! Zero-copy reads: splices the payload of a large read from a file to a socket through a pipe.
//!
//! The pipe refers to pages of the page cache; only the client copies them. Bytes that the file cannot supply
//! are detected while the pipe is filled, before the reply header is sent.
//!
//! Invariants: the pipe holds one whole payload or nothing; a partly filled pipe is closed and replaced. The
//! pages are those of the file: a client may see a write that happens before it has received the bytes, in
//! whole or in part. So only data whose location never changes is spliced
//! ([`Backend::file_at`](crate::core::Backend::file_at)), and what a client may see are
//! states of commands that were in flight together with its read.
//! A splice to a socket that the client has closed raises SIGPIPE, which the runtimes of Rust and of Python
//! ignore.
//! Source: splice(2), pipe(7).

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// Capacity of the pipe, bytes: the most that an unprivileged process may request (pipe(7)).
const PIPE_BYTES: usize = 1 << 20;

/// A pipe that is created on first use.
#[derive(Debug, Default)]
pub struct SplicePipe {
    pipe: Option<(OwnedFd, OwnedFd)>,
    /// Its capacity, once known, bytes.
    capacity: Option<usize>,
}

impl SplicePipe {
    fn pipe(&mut self) -> Option<&(OwnedFd, OwnedFd)> {
        if self.pipe.is_none() {
            let created = pipe_with(PipeFlags::CLOEXEC);
            // The kernel grants less when the user is over the soft limit on pipe pages.
            let capacity =
                created.as_ref().map_or(Ok(0), |(_, write_end)| fcntl_setpipe_size(write_end, PIPE_BYTES));
            (self.capacity, self.pipe) = (Some(capacity.unwrap_or(0)), created.ok());
        }
        self.pipe.as_ref()
    }

    /// Splices bytes of a file write_end the pipe. Returns false and leaves the pipe empty if they are not all
    /// available.
    pub fn fill(&mut self, file: BorrowedFd<'_>, offset: u64, len: usize) -> bool {
        if self.capacity.is_some_and(|capacity| len > capacity) {
            return false;
        }
        let (mut at, end) = (offset, offset + len as u64);
        let Some((_, write_end)) = self.pipe() else {
            return false;
        };
        while at < end {
            let left = (end - at) as usize;
            match splice(file, Some(&mut at), write_end, None, left, SpliceFlags::NONBLOCK) {
                Err(Errno::INTR) => {}
                Ok(count) if count > 0 => {}
                // End of file, a read error, or a pipe with less capacity than requested.
                _ => {
                    self.pipe = None;
                    return false;
                }
            }
        }
        true
    }

    /// Splices the payload from the pipe into the socket.
    ///
    /// # Errors When the client has disconnected.
    pub fn drain_to(&mut self, socket: BorrowedFd<'_>, len: usize) -> io::Result<()> {
        let Some((read_end, _)) = &self.pipe else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut left = len;
        while left > 0 {
            match splice(read_end, None, socket, None, left, SpliceFlags::MOVE) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => left -= count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_payload_arrives_whole_or_fill_fails() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..PIPE_BYTES + 8192).map(|at| (at / 512) as u8).collect();
        file.write_all(&bytes).unwrap();
        let (server, mut client) = UnixStream::pair().unwrap();
        let mut pipe = SplicePipe::default();
        for (offset, len) in [(0, 65_536), (4096, PIPE_BYTES), (512, 4096)] {
            assert!(pipe.fill(file.as_fd(), offset, len));
            let mut received = vec![0; len];
            std::thread::scope(|scope| {
                scope.spawn(|| client.read_exact(&mut received).unwrap());
                pipe.drain_to(server.as_fd(), len).unwrap();
            });
            assert_eq!(received, bytes[offset as usize..offset as usize + len]);
        }
        assert!(!pipe.fill(file.as_fd(), bytes.len() as u64 - 4096, 8192), "beyond the end of the file");
        assert!(!pipe.fill(file.as_fd(), 0, PIPE_BYTES + 4096), "more than the pipe holds");
        let folder = File::open(std::env::temp_dir()).unwrap();
        assert!(!pipe.fill(folder.as_fd(), 0, 4096), "a directory");
        assert!(pipe.fill(file.as_fd(), 0, 4096), "a failed fill leaves the pipe empty");
        drop(client);
        assert!(pipe.drain_to(server.as_fd(), 4096).is_err(), "the peer has closed the socket");
    }
}
