//! What a host may expect of an ordinary block device: of each sector its last write; after a cut, that or an earlier one back to
//! the last that was durable; after a trim, anything that it ever held, or zeros. A sector that the drive lost fails to be read until it
//! is written or trimmed. What a write that failed has left is settled by a read behind a flush.

use skylight_disk::{Lba, LbaExtent, Sectors};

/// Bits of a stamp that are the sector; the others are the number of the write.
const SECTOR_BITS: u32 = 24;

/// What the write with a number leaves in a sector.
pub fn stamp(number: u64, lba: u64) -> u64 {
    number << SECTOR_BITS | lba
}

/// A sector.
#[derive(Clone, Copy, Default)]
struct Expected {
    /// The number of its last write; 0 for none.
    last: u64,
    /// The lowest number that it may have after a cut; 0 for zeros too.
    durable: u64,
    /// The highest that it ever had, also if a cut took that write away.
    highest: u64,
    /// It was trimmed since it was written.
    trimmed: bool,
    /// After a cut it may have what it ever had: it was trimmed since it was durable, or a write of it failed.
    was_trimmed: bool,
    /// Its last write failed, and may have been done.
    in_doubt: bool,
    /// It cannot be read, now; it may be so after a cut; it has to be so after one; it ever was so, and where it was at home may be.
    lost: bool,
    was_lost: bool,
    stays_lost: bool,
    ever_lost: bool,
}

impl Expected {
    /// What is expected is the last write alone.
    fn is_certain(&self) -> bool {
        !self.trimmed && !self.in_doubt
    }
}

/// See the module page.
pub struct Shadow {
    sectors: Vec<Expected>,
    /// Those that changed since the last flush.
    changed: Vec<u64>,
    /// Those that were in doubt since the last flush, and those that were lost.
    doubtful: Vec<u64>,
    lost: Vec<u64>,
    writes: u64,
}

impl Shadow {
    pub fn new(capacity: u64) -> Self {
        let sectors = vec![Expected::default(); capacity as usize];
        Self { sectors, changed: Vec::new(), doubtful: Vec::new(), lost: Vec::new(), writes: 0 }
    }

    /// The number of the next write.
    pub fn number(&mut self) -> u64 {
        self.writes += 1;
        self.writes
    }

    fn each(extent: LbaExtent) -> std::ops::Range<u64> {
        extent.start.get()..extent.end().get()
    }

    pub fn write(&mut self, extent: LbaExtent, number: u64, fua: bool) {
        for lba in Self::each(extent) {
            let sector = &mut self.sectors[lba as usize];
            (sector.last, sector.highest, sector.trimmed) = (number, number, false);
            (sector.in_doubt, sector.lost, sector.stays_lost) = (false, false, false);
            if fua {
                (sector.durable, sector.was_trimmed, sector.was_lost) = (number, false, false);
            }
            self.changed.push(lba);
        }
    }

    /// A write was begun, and nobody knows how far it came.
    pub fn begin(&mut self, extent: LbaExtent, number: u64) {
        for lba in Self::each(extent) {
            let sector = &mut self.sectors[lba as usize];
            (sector.last, sector.highest, sector.in_doubt) = (number, number, true);
            self.doubtful.push(lba);
        }
    }

    pub fn trim(&mut self, extent: LbaExtent) {
        for lba in Self::each(extent) {
            let sector = &mut self.sectors[lba as usize];
            (sector.durable, sector.trimmed, sector.was_trimmed) = (0, true, true);
            sector.was_lost = sector.ever_lost;
        }
    }

    pub fn flush(&mut self) {
        for lba in self.changed.drain(..) {
            let sector = &mut self.sectors[lba as usize];
            if sector.is_certain() {
                (sector.durable, sector.was_trimmed, sector.was_lost) = (sector.last, false, sector.lost);
            }
        }
        for lba in self.lost.drain(..) {
            let sector = &mut self.sectors[lba as usize];
            sector.stays_lost = sector.lost;
        }
    }

    /// The sectors that are in doubt behind a flush.
    pub fn take_doubtful(&mut self) -> Vec<u64> {
        let mut doubtful = std::mem::take(&mut self.doubtful);
        doubtful.retain(|&lba| {
            let sector = &self.sectors[lba as usize];
            sector.in_doubt && !sector.trimmed
        });
        doubtful
    }

    /// A sector was in doubt behind a flush, and read: that is what it has from now on. After a cut it may be what failed all the same.
    pub fn settle(&mut self, lba: u64, read: Option<u64>) -> Result<(), String> {
        self.check(lba, read)?;
        let sector = &mut self.sectors[lba as usize];
        (sector.in_doubt, sector.was_trimmed) = (false, true);
        match read.map(|read| read >> SECTOR_BITS) {
            Some(number) => {
                (sector.last, sector.durable) = (number, number);
                (sector.lost, sector.stays_lost) = (false, false);
            }
            None => sector.lost = true,
        }
        Ok(())
    }

    /// Whether a sector has its last write for certain, durable.
    pub fn is_durable(&self, lba: u64) -> bool {
        let sector = &self.sectors[lba as usize];
        let Expected { last, durable, was_trimmed, was_lost, .. } = *sector;
        sector.is_certain() && !was_trimmed && !was_lost && last > 0 && last == durable
    }

    /// The drive lost a sector that was durable.
    pub fn lose(&mut self, lba: u64) {
        let sector = &mut self.sectors[lba as usize];
        (sector.lost, sector.was_lost, sector.ever_lost) = (true, true, true);
        self.lost.push(lba);
    }

    /// Whether a read of an extent may fail.
    pub fn may_fail(&self, extent: LbaExtent) -> bool {
        Self::each(extent).any(|lba| {
            let sector = &self.sectors[lba as usize];
            sector.was_lost && (sector.lost || !sector.is_certain())
        })
    }

    /// Compares what a read returned, if it did not fail.
    pub fn check(&self, lba: u64, read: Option<u64>) -> Result<(), String> {
        let sector = &self.sectors[lba as usize];
        let Expected { last, highest, trimmed, in_doubt, durable, .. } = *sector;
        let Some(read) = read else {
            let may_fail = self.may_fail(LbaExtent::new(Lba(lba), Sectors(1)));
            return may_fail.then_some(()).ok_or_else(|| format!("sector {lba} cannot be read"));
        };
        if sector.lost && sector.is_certain() {
            return Err(format!("sector {lba} was lost, and is {read:x}"));
        }
        let expected = if last == 0 { 0 } else { stamp(last, lba) };
        let (number, at) = (read >> SECTOR_BITS, read & ((1 << SECTOR_BITS) - 1));
        let ever = read == 0 || (at == lba && number <= highest);
        let either = in_doubt && ever && (read != 0 || durable == 0) && number >= durable;
        match read == expected || (trimmed && ever) || either {
            true => Ok(()),
            false => Err(format!("sector {lba} is {read:x}, and has to be {expected:x}")),
        }
    }

    /// Compares what a sector is after a cut, and takes it for the truth from now on.
    pub fn check_cut(&mut self, lba: u64, read: Option<u64>) -> Result<(), String> {
        let sector = &mut self.sectors[lba as usize];
        let Some(read) = read.filter(|_| !(sector.stays_lost && sector.is_certain())) else {
            let was_lost = sector.was_lost && read.is_none();
            (sector.last, sector.trimmed, sector.in_doubt) = (sector.durable, false, false);
            (sector.lost, sector.stays_lost) = (true, true);
            return was_lost.then_some(()).ok_or_else(|| format!("after a cut sector {lba} is {read:x?}"));
        };
        let (number, at) = (read >> SECTOR_BITS, read & ((1 << SECTOR_BITS) - 1));
        // A trim may bring back what a cut took away.
        let most = if sector.was_trimmed { sector.highest } else { sector.last };
        let right = match read {
            0 => sector.durable == 0,
            _ => at == lba && (sector.durable..=most).contains(&number),
        };
        if !right {
            let Expected { last, durable, .. } = *sector;
            return Err(format!(
                "after a cut sector {lba} is {read:x}, and has to be of write {durable} to {last}"
            ));
        }
        let Expected { highest, ever_lost, .. } = *sector;
        *sector = Expected { last: number, durable: number, highest, ever_lost, ..Expected::default() };
        Ok(())
    }
}
