//! The volatile write cache: writes that were answered and are not on a medium yet.
//!
//! Invariants: no more than the capacity is held, or a single write that is larger; what was answered last for a sector is what a read gets;
//! writes leave in the order in which they came, or as the layer takes them.
//! Source: Skylight (FAST'15), section 2 (volatile cache), footnote 2.

use skylight_disk::{LbaExtent, Sectors, Time};
use skylight_layer::{Command, CommandId, HostOp};

/// See the module page.
#[derive(Clone, Debug)]
pub(crate) struct WriteCache {
    capacity: Sectors,
    on: bool,
    held: Sectors,
    held_since: Time,
    /// Writes to be destaged, oldest first; those before `first` are gone.
    writes: Vec<Command>,
    first: usize,
    next_id: u32,
}

impl WriteCache {
    pub(crate) fn new(capacity: Sectors, on: bool) -> Self {
        let on = on && capacity.get() > 0;
        let (held, held_since) = (Sectors(0), Time(0));
        Self { capacity, on, held, held_since, writes: Vec::new(), first: 0, next_id: 0 }
    }

    /// Whether writes are answered on arrival.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Switches it, once it is empty. A drive without a cache stays as it is.
    pub(crate) fn switch(&mut self, on: bool) {
        self.on = on && self.capacity.get() > 0;
    }

    /// What has to be destaged, oldest first.
    #[inline]
    pub(crate) fn dirty(&self) -> &[Command] {
        &self.writes[self.first..]
    }

    /// Since when it holds something.
    pub(crate) fn held_since(&self) -> Time {
        self.held_since
    }

    /// Whether a write finds room. One larger than the whole cache does when it is empty.
    pub(crate) fn has_room(&self, extent: LbaExtent) -> bool {
        self.dirty().is_empty() || self.held + extent.len <= self.capacity
    }

    /// Takes a write that is answered at `at`.
    pub(crate) fn accept(&mut self, extent: LbaExtent, at: Time) {
        if self.dirty().is_empty() {
            self.held_since = at;
        }
        let id = CommandId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        self.held += extent.len;
        self.writes.push(Command { id, op: HostOp::Write, extent });
    }

    /// How a read meets what is held: `None` nothing of it, `Some(true)` all of it in the newest write there.
    pub(crate) fn overlap(&self, extent: LbaExtent) -> Option<bool> {
        let touches = |held: LbaExtent| held.start < extent.end() && extent.start < held.end();
        let newest = self.dirty().iter().rev().find(|command| touches(command.extent))?;
        Some(newest.extent.start <= extent.start && extent.end() <= newest.extent.end())
    }

    /// The write that has to leave before this one, or itself if it overlaps none that came before it.
    pub(crate) fn oldest_below(&self, index: usize) -> usize {
        let dirty = self.dirty();
        let touches = |a: LbaExtent, b: LbaExtent| a.start < b.end() && b.start < a.end();
        let mut next = index;
        while let Some(older) = (0..next).find(|&k| touches(dirty[k].extent, dirty[next].extent)) {
            next = older;
        }
        next
    }

    /// Writes that reached a medium. They lie near the front, so little moves.
    pub(crate) fn destaged(&mut self, answered: impl Iterator<Item = CommandId>) {
        for id in answered {
            let Some(index) = self.dirty().iter().position(|command| command.id == id) else {
                debug_assert!(false, "a layer answers what it was given");
                continue;
            };
            self.held = self.held - self.dirty()[index].extent.len;
            self.writes.copy_within(self.first..self.first + index, self.first + 1);
            self.first += 1;
        }
        if self.first * 2 > self.writes.len() {
            self.writes.drain(..self.first);
            self.first = 0;
        }
    }

    /// Forgets everything: an erase.
    pub(crate) fn clear(&mut self) {
        self.writes.clear();
        self.first = 0;
        self.held = Sectors(0);
    }
}
