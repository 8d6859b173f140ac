//! Several stores one behind the other: an image whose flash is on another device than its platters.

use std::io;

use super::{Store, check_range};

/// See the module page.
pub struct PartsStore {
    /// Each with the bytes of it that are in use.
    parts: Vec<(u64, Box<dyn Store>)>,
}

impl PartsStore {
    /// The parts, each with the bytes of it that are to be used.
    pub fn new(parts: Vec<(u64, Box<dyn Store>)>) -> Self {
        Self { parts }
    }

    /// The parts that a range touches: which, the offset in it, and the range of the buffer.
    fn of(&self, offset: u64, len: u64) -> Vec<(usize, u64, std::ops::Range<usize>)> {
        let mut found = Vec::new();
        let (mut start, end) = (0, offset + len);
        for (index, (bytes, _)) in self.parts.iter().enumerate() {
            let (from, to) = (offset.max(start), end.min(start + bytes));
            if from < to {
                found.push((index, from - start, (from - offset) as usize..(to - offset) as usize));
            }
            start += bytes;
        }
        found
    }
}

impl Store for PartsStore {
    fn name(&self) -> String {
        let names: Vec<String> = self.parts.iter().map(|(_, store)| store.name()).collect();
        names.join(" and ")
    }

    fn len_bytes(&self) -> u64 {
        self.parts.iter().map(|(bytes, _)| bytes).sum()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        check_range(self, offset, buffer.len() as u64)?;
        let parts = self.of(offset, buffer.len() as u64);
        parts.into_iter().try_for_each(|(part, at, range)| self.parts[part].1.read_at(at, &mut buffer[range]))
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        check_range(self, offset, data.len() as u64)?;
        let parts = self.of(offset, data.len() as u64);
        parts.into_iter().try_for_each(|(part, at, range)| self.parts[part].1.write_at(at, &data[range]))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.parts.iter_mut().try_for_each(|(_, store)| store.sync())
    }

    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        check_range(self, offset, len)?;
        let parts = self.of(offset, len);
        parts.into_iter().try_for_each(|(part, at, range)| {
            self.parts[part].1.discard(at, (range.end - range.start) as u64)
        })
    }

    fn can_discard(&self) -> bool {
        self.parts.iter().all(|(_, store)| store.can_discard())
    }

    fn stored_bytes(&self) -> io::Result<u64> {
        self.parts.iter().map(|(_, store)| store.stored_bytes()).sum()
    }

    fn is_data(&self, offset: u64, len: u64) -> io::Result<(bool, u64)> {
        check_range(self, offset, len)?;
        match self.of(offset, len).first() {
            Some((part, at, range)) => self.parts[*part].1.is_data(*at, (range.end - range.start) as u64),
            None => Ok((false, len)),
        }
    }
}
