//! Serves a plain file, to measure the server without a drive (bench/serve.py).
//!
//! `serve_file FILE unix:PATH|tcp:HOST:PORT`; exits at the end of standard input. Flush and FUA make the file durable.

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, fdatasync, seek};
use skylight_serve::core::{
    Backend, BlockState, Command, Extent, Failure, Op, Shape, StatusQuery, push_extent,
};
use skylight_serve::nbd::server::Options;
use skylight_serve::server::Server;

/// A file or block device.
struct PlainFile {
    shape: Shape,
    file: File,
}

impl PlainFile {
    /// Serves an open file of `size` bytes.
    fn new(file: File, name: &str, size: u64) -> Self {
        Self { shape: Shape::drive(name, size), file }
    }

    fn zero(&self, command: &Command) -> Result<(), Failure> {
        let (mut at, len) = (command.offset_bytes(), command.len_bytes());
        let flags = match command.flags.no_hole {
            true => FallocateFlags::ZERO_RANGE,
            false => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        };
        if fallocate(&self.file, flags, at, len).is_ok() {
            return Ok(());
        }
        if command.flags.fast_zero {
            return Err(Failure::Unsupported);
        }
        let (zeroes, end) = (vec![0; len.min(1 << 20) as usize], at + len);
        while at < end {
            let part = (end - at).min(zeroes.len() as u64);
            self.file
                .write_all_at(&zeroes[..part as usize], at)
                .map_err(|error| Failure::from(error.kind()))?;
            at += part;
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), Failure> {
        fdatasync(&self.file).map_err(|_| Failure::Medium)
    }
}

impl Backend for PlainFile {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn execute(&self, command: &Command, data: &mut [u8]) -> Result<(), Failure> {
        let offset = command.offset_bytes();
        match command.op {
            Op::Read => self.file.read_exact_at(data, offset).map_err(|error| Failure::from(error.kind()))?,
            Op::Write => self.file.write_all_at(data, offset).map_err(|error| Failure::from(error.kind()))?,
            Op::Flush => self.sync()?,
            Op::WriteZeroes => self.zero(command)?,
            Op::Trim => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                // Trim is a hint: a file system without hole punching keeps the bytes.
                let _ = fallocate(&self.file, flags, offset, command.len_bytes());
            }
            Op::Cache => {}
            Op::Append | Op::Zone(_) => {
                return Err(Failure::Unsupported);
            }
        }
        if command.flags.fua { self.sync() } else { Ok(()) }
    }

    fn file_at(&self, offset: u64, _len: u64, visit: &mut dyn FnMut(BorrowedFd<'_>, u64)) -> bool {
        visit(self.file.as_fd(), offset);
        true
    }

    fn block_status(
        &self,
        offset: u64,
        len: u64,
        query: StatusQuery,
        limit: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Failure> {
        if query != StatusQuery::Allocation {
            push_extent(extents, len, BlockState::Ordinary);
            return Ok(());
        }
        let (mut at, end) = (offset, offset + len);
        while at < end && extents.len() < limit {
            // Beyond the last data the seek fails with ENXIO.
            let data = seek(&self.file, SeekFrom::Data(at)).map_or(end, |data| data.min(end));
            push_extent(extents, data - at, BlockState::Hole);
            if data < end {
                let hole =
                    seek(&self.file, SeekFrom::Hole(data)).map_or(end, |hole| hole.clamp(data + 1, end));
                push_extent(extents, hole - data, BlockState::Ordinary);
                at = hole;
            } else {
                at = end;
            }
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(endpoint)) = (arguments.next(), arguments.next()) else {
        return Err("usage: serve_file FILE unix:PATH|tcp:HOST:PORT".into());
    };
    let file = File::options().read(true).write(true).open(&path)?;
    let size = file.metadata()?.len();
    let backend = Arc::new(PlainFile::new(file, "file", size));
    let mut server = Server::new(backend);
    server.open_nbd(&[endpoint.parse()?], Options::default())?;
    server.endpoints().for_each(|endpoint| println!("{endpoint}"));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.stop()?;
    Ok(())
}
