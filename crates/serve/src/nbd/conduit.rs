//! The payload of a long read on its way from a file to a socket, without passing through this process.
//!
//! The pages of the system's cache are lent to a pipe and go on from there into the socket; the client's copy is the
//! only one. What cannot be had from the file is noticed while the pipe is filled, before anything is promised to the
//! client.
//!
//! Invariants: what is in the pipe is one payload or nothing; a pipe that was filled in part is thrown away. The
//! pages are the file's own: a write to them before the client has taken the bytes is seen by it, in whole or in part.
//! So only bytes whose place is theirs for good are lent ([`Backend::lend`](crate::core::Backend::lend)), and
//! what a client may see are states of commands that were under way together with its read.
//! A splice to a socket whose client is gone raises SIGPIPE, which the runtimes of Rust and of Python ignore.
//! Source: splice(2), pipe(7).

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// Bytes of a pipe: the most that anybody may ask for without rights of its own.
const ROOM: usize = 1 << 20;

/// A pipe, made when it is first needed.
#[derive(Debug, Default)]
pub struct Conduit {
    ends: Option<(OwnedFd, OwnedFd)>,
    /// Bytes that it takes, once that is known.
    room: Option<usize>,
}

impl Conduit {
    fn ends(&mut self) -> Option<&(OwnedFd, OwnedFd)> {
        if self.ends.is_none() {
            let made = pipe_with(PipeFlags::CLOEXEC);
            // A system short of pipes gives a small one.
            let room = made.as_ref().map_or(Ok(0), |(_, into)| fcntl_setpipe_size(into, ROOM));
            (self.room, self.ends) = (Some(room.unwrap_or(0)), made.ok());
        }
        self.ends.as_ref()
    }

    /// Takes bytes of a file; whether it has them all. If not, it is empty.
    pub fn fill(&mut self, file: BorrowedFd<'_>, offset: u64, len: usize) -> bool {
        if self.room.is_some_and(|room| len > room) {
            return false;
        }
        let (mut at, end) = (offset, offset + len as u64);
        let Some((_, into)) = self.ends() else {
            return false;
        };
        while at < end {
            let left = (end - at) as usize;
            match splice(file, Some(&mut at), into, None, left, SpliceFlags::NONBLOCK) {
                Err(Errno::INTR) => {}
                Ok(count) if count > 0 => {}
                // The end of the file, a bad medium, or a pipe that is smaller than it was to be.
                _ => {
                    self.ends = None;
                    return false;
                }
            }
        }
        true
    }

    /// Sends on the bytes that it was filled with.
    ///
    /// # Errors
    /// When the client cannot be reached any more.
    pub fn pour(&mut self, socket: BorrowedFd<'_>, len: usize) -> io::Result<()> {
        let Some((from, _)) = &self.ends else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut left = len;
        while left > 0 {
            match splice(from, None, socket, None, left, SpliceFlags::MOVE) {
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
    fn what_a_file_has_comes_out_of_the_socket_and_what_it_has_not_is_noticed() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..ROOM + 8192).map(|at| (at / 512) as u8).collect();
        file.write_all(&bytes).unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut conduit = Conduit::default();
        for (offset, len) in [(0, 65_536), (4096, ROOM), (512, 4096)] {
            assert!(conduit.fill(file.as_fd(), offset, len));
            let mut heard = vec![0; len];
            std::thread::scope(|scope| {
                scope.spawn(|| theirs.read_exact(&mut heard).unwrap());
                conduit.pour(ours.as_fd(), len).unwrap();
            });
            assert_eq!(heard, bytes[offset as usize..offset as usize + len]);
        }
        assert!(!conduit.fill(file.as_fd(), bytes.len() as u64 - 4096, 8192), "beyond the end of the file");
        assert!(!conduit.fill(file.as_fd(), 0, ROOM + 4096), "more than fits");
        let folder = File::open(std::env::temp_dir()).unwrap();
        assert!(!conduit.fill(folder.as_fd(), 0, 4096), "no file at all");
        assert!(conduit.fill(file.as_fd(), 0, 4096), "nothing is left of what failed");
        drop(theirs);
        assert!(conduit.pour(ours.as_fd(), 4096).is_err(), "the other end is gone");
    }
}
