//! A store without a stretch that nothing ever lies in: what follows it comes right behind what is before. An image
//! whose drive has such a stretch fits on a smaller device.
//!
//! Invariant: the stretch reads as zeros, and a write to it fails.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::{PartInfo, Reads, Store, Syncs, check_range};
use crate::format::superblock::Part;

/// See the module page.
pub struct FoldedStore {
    inner: Box<dyn Store>,
    gap: Part,
}

/// Where a part of a range lies.
enum Lies {
    /// From this byte of the inner store on.
    There(u64),
    /// In the gap.
    Nowhere,
}

impl FoldedStore {
    /// A store that leaves out `gap`.
    pub fn new(inner: Box<dyn Store>, gap: Part) -> Self {
        Self { inner, gap }
    }

    fn of(&self, offset: u64, len: u64) -> impl Iterator<Item = (Lies, Range<usize>)> + use<> {
        parts_of(self.gap, offset, len)
    }
}

/// The parts of a range, each with its part of the buffer.
fn parts_of(gap: Part, offset: u64, len: u64) -> impl Iterator<Item = (Lies, Range<usize>)> {
    let end = offset + len;
    let parts = [(0, gap.start), (gap.start, gap.end()), (gap.end(), u64::MAX)];
    parts.into_iter().enumerate().filter_map(move |(index, (start, stop))| {
        let (from, to) = (offset.max(start), end.min(stop));
        let lies = match index {
            0 => Lies::There(from),
            1 => Lies::Nowhere,
            _ => Lies::There(from.saturating_sub(gap.len)),
        };
        (from < to).then(|| (lies, (from - offset) as usize..(to - offset) as usize))
    })
}

/// Reads, with `read` for what is there.
fn read_parts(
    gap: Part,
    offset: u64,
    buffer: &mut [u8],
    read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<()> {
    parts_of(gap, offset, buffer.len() as u64).try_for_each(|(lies, range)| match lies {
        Lies::There(at) => read(at, &mut buffer[range]),
        Lies::Nowhere => {
            buffer[range].fill(0);
            Ok(())
        }
    })
}

/// The reading half.
struct FoldedReads {
    inner: Arc<dyn Reads>,
    gap: Part,
}

impl Reads for FoldedReads {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        read_parts(self.gap, offset, buffer, |at, part| self.inner.read_at(at, part))
    }

    fn file_of(&self, offset: u64, len: u64) -> Option<(BorrowedFd<'_>, u64)> {
        match parts_of(self.gap, offset, len).next()? {
            (Lies::There(at), range) if range.len() as u64 == len => self.inner.file_of(at, len),
            _ => None,
        }
    }
}

impl Store for FoldedStore {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn len_bytes(&self) -> u64 {
        let len = self.inner.len_bytes();
        if len < self.gap.start { len } else { len.saturating_add(self.gap.len) }
    }

    fn parts(&self) -> Vec<PartInfo> {
        let mut parts = self.inner.parts();
        // A store that leaves out anything is a device, of one part.
        parts.iter_mut().take(1).for_each(|first| first.len = self.len_bytes());
        parts
    }

    fn is_write_dear(&self) -> bool {
        self.inner.is_write_dear()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        check_range(self, offset, buffer.len() as u64)?;
        read_parts(self.gap, offset, buffer, |at, part| self.inner.read_at(at, part))
    }

    fn reader(&self) -> Option<Arc<dyn Reads>> {
        let inner = self.inner.reader()?;
        Some(Arc::new(FoldedReads { inner, gap: self.gap }))
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        check_range(self, offset, data.len() as u64)?;
        self.of(offset, data.len() as u64).try_for_each(|(lies, range)| match lies {
            Lies::There(at) => self.inner.write_at(at, &data[range]),
            Lies::Nowhere => Err(io::Error::other("nothing of the drive lies there")),
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()
    }

    fn syncer(&self) -> Option<Arc<dyn Syncs>> {
        self.inner.syncer()
    }

    fn begin_sync(&mut self, offset: u64, len: u64) {
        for (lies, range) in self.of(offset, len) {
            if let Lies::There(at) = lies {
                self.inner.begin_sync(at, range.len() as u64);
            }
        }
    }

    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        check_range(self, offset, len)?;
        self.of(offset, len).try_for_each(|(lies, range)| match lies {
            Lies::There(at) => self.inner.discard(at, range.len() as u64),
            Lies::Nowhere => Ok(()),
        })
    }

    fn reserve(&mut self, offset: u64, len: u64) -> io::Result<()> {
        check_range(self, offset, len)?;
        self.of(offset, len).try_for_each(|(lies, range)| match lies {
            Lies::There(at) => self.inner.reserve(at, range.len() as u64),
            Lies::Nowhere => Ok(()),
        })
    }

    fn can_discard(&self) -> bool {
        self.inner.can_discard()
    }

    fn stored_bytes(&self) -> io::Result<u64> {
        self.inner.stored_bytes()
    }

    fn is_data(&self, offset: u64, len: u64) -> io::Result<(bool, u64)> {
        check_range(self, offset, len)?;
        match self.of(offset, len).next() {
            Some((Lies::There(at), range)) => self.inner.is_data(at, range.len() as u64),
            Some((Lies::Nowhere, range)) => Ok((false, range.len() as u64)),
            None => Ok((false, len)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ram::RamStore;

    #[test]
    fn what_follows_the_gap_lies_right_behind_what_is_before() {
        let gap = Part { start: 4096, len: 1 << 40 };
        let mut store = FoldedStore::new(Box::new(RamStore::new(12_288)), gap);
        assert_eq!(store.len_bytes(), (1 << 40) + 12_288);
        store.write_at(3584, &[1; 512]).unwrap();
        store.write_at(gap.end(), &[2; 512]).unwrap();
        assert!(store.write_at(3584, &[3; 1024]).is_err() && store.write_at(gap.end() - 1, &[3]).is_err());
        store.write_at(3584, &[1; 512]).unwrap();
        let mut bytes = [9; 512];
        for (at, byte) in [(3584, 1), (4096, 0), (gap.end() - 512, 0), (gap.end(), 2)] {
            store.read_at(at, &mut bytes).unwrap();
            assert_eq!(bytes, [byte; 512], "at {at}");
        }
        store.inner.read_at(4096, &mut bytes).unwrap();
        assert_eq!(bytes, [2; 512]);
        store.discard(0, gap.end() + 512).unwrap();
        store.read_at(gap.end(), &mut bytes).unwrap();
        assert_eq!(bytes, [0; 512]);
        assert!(store.read_at(gap.end() + 8192 - 511, &mut bytes).is_err());
    }
}
