//! Zones through the kernel's ioctls.
//!
//! Invariants: the buffer of a report holds as many descriptors as the kernel is asked for; what it answers
//! beyond that is not read.
//!
//! Sources: Linux `include/uapi/linux/blkzoned.h` (structures and numbers), `block/blk-zoned.c`
//! (`blkdev_zone_mgmt`: a range of zones must not contain conventional ones, but a reset of the whole device
//! may), `Documentation/ABI/stable/sysfs-block` (limits).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use rustix::ioctl::{Opcode, opcode};
use skylight_command::ZoneAction;

use super::{Port, SECTOR_BYTES, Zone, ZoneLayout, ZoneModel, ZoneScope};
use crate::sg_io::CommandFault;
use crate::sysfs::Node;
use crate::zone_failure::ZoneFault;

/// `struct blk_zone_report` without its descriptors: sector, number of zones, flags.
type ReportHeader = [u64; HEADER_WORDS];
/// `struct blk_zone_range`: first sector, sectors.
type Range = [u64; 2];

const HEADER_WORDS: usize = 2;
/// `struct blk_zone` has 64 bytes.
const ZONE_WORDS: usize = 8;
/// `BLK_ZONE_REP_CAPACITY`: descriptors have a capacity (Linux 5.9).
const REPORTS_CAPACITY: u32 = 1;
/// Zones of one report. Its buffer takes 256 KiB, and a drive of 120,000 zones 30 calls.
const ZONES_A_CALL: usize = 4096;

const GROUP: u8 = 0x12;
const BLKREPORTZONE: Opcode = opcode::read_write::<ReportHeader>(GROUP, 130);
const BLKRESETZONE: Opcode = opcode::write::<Range>(GROUP, 131);
const BLKGETZONESZ: Opcode = opcode::read::<u32>(GROUP, 132);
const BLKGETNRZONES: Opcode = opcode::read::<u32>(GROUP, 133);
const BLKOPENZONE: Opcode = opcode::write::<Range>(GROUP, 134);
const BLKCLOSEZONE: Opcode = opcode::write::<Range>(GROUP, 135);
const BLKFINISHZONE: Opcode = opcode::write::<Range>(GROUP, 136);

/// The ioctls of an open device.
pub struct Ioctls<'a> {
    /// The device.
    pub file: &'a File,
    /// Its directory in sysfs.
    pub disk: &'a Node,
    /// The model that sysfs reports.
    pub model: ZoneModel,
}

impl Port for Ioctls<'_> {
    fn layout(&self) -> Result<ZoneLayout, ZoneFault> {
        let (mut sectors, mut zones) = (0_u32, 0_u32);
        // SAFETY: both write one u32 to their argument, and to nothing else.
        unsafe {
            self.call(BLKGETZONESZ, &raw mut sectors)?;
            self.call(BLKGETNRZONES, &raw mut zones)?;
        }
        let limit = |name: &str| {
            let value: u32 = self.disk.text(&format!("queue/{name}"))?.parse().ok()?;
            (value != 0).then_some(value)
        };
        Ok(ZoneLayout {
            model: self.model,
            zone_bytes: u64::from(sectors) * SECTOR_BYTES,
            zones: u64::from(zones),
            max_open: limit("max_open_zones"),
            max_active: limit("max_active_zones"),
            recommended_non_sequential: None,
        })
    }

    fn report(&self, from_bytes: u64, most: usize, zones: &mut Vec<Zone>) -> Result<(), ZoneFault> {
        let wanted = most.min(ZONES_A_CALL);
        let mut words = vec![0_u64; HEADER_WORDS + wanted * ZONE_WORDS];
        words[..HEADER_WORDS].copy_from_slice(&asked(from_bytes / SECTOR_BYTES, wanted as u32));
        // SAFETY: the kernel writes the header and at most the number of descriptors in it, for which the
        // buffer has space.
        unsafe { self.call(BLKREPORTZONE, words.as_mut_ptr())? };
        parse(&words, zones);
        Ok(())
    }

    fn act(&self, action: ZoneAction, scope: ZoneScope) -> Result<(), ZoneFault> {
        match (scope, action) {
            (ZoneScope::One { start_bytes, size_bytes }, _) => self.manage(action, start_bytes, size_bytes),
            (ZoneScope::All, ZoneAction::Reset) => self.manage(action, 0, self.size_bytes()?),
            (ZoneScope::All, _) => {
                let report = super::read_report(self, 0, self.size_bytes()?, usize::MAX);
                let zones = report.map_err(|fault| match fault {
                    super::ReportFault::Zone(fault) => fault,
                    super::ReportFault::Contradicts(_) => CommandFault::Errno(libc::EIO).into(),
                })?;
                let mut changed = zones.iter().filter(|zone| is_meant_by_all(action, zone.condition));
                changed.try_for_each(|zone| self.manage(action, zone.start_bytes, zone.size_bytes))
            }
        }
    }
}

impl Ioctls<'_> {
    fn manage(&self, action: ZoneAction, start_bytes: u64, size_bytes: u64) -> Result<(), ZoneFault> {
        let request = match action {
            ZoneAction::Open => BLKOPENZONE,
            ZoneAction::Close => BLKCLOSEZONE,
            ZoneAction::Finish => BLKFINISHZONE,
            ZoneAction::Reset => BLKRESETZONE,
        };
        let mut range: Range = [start_bytes / SECTOR_BYTES, size_bytes / SECTOR_BYTES];
        // SAFETY: the kernel reads one range from its argument, and writes nothing.
        unsafe { self.call(request, range.as_mut_ptr()) }
    }

    fn size_bytes(&self) -> Result<u64, ZoneFault> {
        crate::device::current_size(self.file).map_err(|error| ZoneFault::of(&error))
    }

    /// # Safety
    /// `argument` must be valid for what the request reads and writes.
    unsafe fn call<T>(&self, request: Opcode, argument: *mut T) -> Result<(), ZoneFault> {
        // SAFETY: the descriptor is open as long as `file`; the argument is the caller's promise.
        match unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, argument) } {
            -1 => Err(ZoneFault::of(&io::Error::last_os_error())),
            _ => Ok(()),
        }
    }
}

/// Whether the standard's ALL bit means a zone of this condition (ZBC-2, OPEN ZONE, CLOSE ZONE, FINISH ZONE).
fn is_meant_by_all(action: ZoneAction, condition: u8) -> bool {
    const OPEN: [u8; 2] = [2, 3];
    const CLOSED: u8 = 4;
    match action {
        ZoneAction::Open => condition == CLOSED,
        ZoneAction::Close => OPEN.contains(&condition),
        ZoneAction::Finish => OPEN.contains(&condition) || condition == CLOSED,
        ZoneAction::Reset => true,
    }
}

/// The header of a report that asks for so many zones.
fn asked(sector: u64, zones: u32) -> ReportHeader {
    let mut counts = [0; 8];
    counts[..4].copy_from_slice(&zones.to_ne_bytes());
    [sector, u64::from_ne_bytes(counts)]
}

/// Appends the zones of a report.
fn parse(words: &[u64], zones: &mut Vec<Zone>) {
    let counts = words[1].to_ne_bytes();
    let [n0, n1, n2, n3, f0, f1, f2, f3] = counts;
    let reported = u32::from_ne_bytes([n0, n1, n2, n3]) as usize;
    let has_capacity = u32::from_ne_bytes([f0, f1, f2, f3]) & REPORTS_CAPACITY != 0;
    for zone in words[HEADER_WORDS..].chunks_exact(ZONE_WORDS).take(reported) {
        let [kind, condition, non_sequential, reset, ..] = zone[3].to_ne_bytes();
        let bytes = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
        let (start_bytes, size_bytes) = (bytes(zone[0]), bytes(zone[1]));
        zones.push(Zone {
            start_bytes,
            size_bytes,
            capacity_bytes: if has_capacity { bytes(zone[4]) } else { size_bytes },
            write_pointer_bytes: Zone::pointer(condition, start_bytes, size_bytes, bytes(zone[2])),
            kind,
            condition,
            reset_recommended: reset != 0,
            non_sequential: non_sequential != 0,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report of these zones, in a buffer with space for one more.
    fn report(flags: u32, zones: &[[u64; ZONE_WORDS]]) -> Vec<u64> {
        let mut words = asked(0, zones.len() as u32).to_vec();
        let mut counts = words[1].to_ne_bytes();
        counts[4..].copy_from_slice(&flags.to_ne_bytes());
        words[1] = u64::from_ne_bytes(counts);
        words.extend(zones.iter().flatten());
        words.extend([0xdead; ZONE_WORDS]);
        words
    }

    /// Type, condition, non-sequential and reset, as they lie in a descriptor.
    fn marks(kind: u8, condition: u8, non_sequential: u8, reset: u8) -> u64 {
        u64::from_ne_bytes([kind, condition, non_sequential, reset, 0, 0, 0, 0])
    }

    #[test]
    fn the_numbers_are_those_of_the_header() {
        // As the C compiler computes them from the macros of blkzoned.h.
        assert_eq!(BLKREPORTZONE, 0xc010_1282);
        assert_eq!(BLKRESETZONE, 0x4010_1283);
        assert_eq!(BLKGETZONESZ, 0x8004_1284);
        assert_eq!(BLKGETNRZONES, 0x8004_1285);
        assert_eq!(BLKOPENZONE, 0x4010_1286);
        assert_eq!(BLKCLOSEZONE, 0x4010_1287);
        assert_eq!(BLKFINISHZONE, 0x4010_1288);
        assert_eq!(ZONE_WORDS * 8, 64);
    }

    #[test]
    fn descriptors_are_read_field_by_field() {
        let words = report(
            REPORTS_CAPACITY,
            &[
                [0, 8192, 0, marks(1, 0, 0, 0), 8192, 0, 0, 0],
                [8192, 8192, 8200, marks(3, 2, 1, 1), 6144, 0, 0, 0],
            ],
        );
        let mut zones = vec![];
        parse(&words, &mut zones);
        assert_eq!(zones.len(), 2, "what is behind the reported ones is not read");
        assert_eq!((zones[0].kind, zones[0].condition, zones[0].capacity_bytes), (1, 0, 8192 * 512));
        let expected = Zone {
            start_bytes: 8192 * 512,
            size_bytes: 8192 * 512,
            capacity_bytes: 6144 * 512,
            write_pointer_bytes: Some(8200 * 512),
            kind: 3,
            condition: 2,
            reset_recommended: true,
            non_sequential: true,
        };
        assert_eq!(zones[1], expected);
    }

    #[test]
    fn without_the_flag_the_capacity_is_the_size() {
        let words = report(0, &[[0, 8192, 0, marks(2, 1, 0, 0), 77, 0, 0, 0]]);
        let mut zones = vec![];
        parse(&words, &mut zones);
        assert_eq!(zones[0].capacity_bytes, 8192 * 512);
    }

    #[test]
    fn more_zones_than_the_buffer_holds_are_not_read() {
        let mut words = report(0, &[[0, 8, 0, marks(2, 1, 0, 0), 0, 0, 0, 0]]);
        words[..HEADER_WORDS].copy_from_slice(&asked(0, u32::MAX));
        let mut zones = vec![];
        parse(&words, &mut zones);
        assert_eq!(zones.len(), 2);
    }

    #[test]
    fn all_means_what_the_standard_says() {
        let meant = |action| (0..=15).filter(|&condition| is_meant_by_all(action, condition)).collect();
        let (open, close, finish): (Vec<u8>, Vec<u8>, Vec<u8>) =
            (meant(ZoneAction::Open), meant(ZoneAction::Close), meant(ZoneAction::Finish));
        assert_eq!((open, close, finish), (vec![4], vec![2, 3], vec![2, 3, 4]));
    }
}
