//! The zones of a real device, reached in whichever way the kernel leaves open: its zone ioctls
//! (`zones/kernel.rs`), or SCSI commands to the drive (`zones/scsi.rs`).
//!
//! A host-managed device goes through the ioctls. Since Linux 6.8 a host-aware disk is an ordinary disk to the
//! kernel (commit 7437bb73f087, "block: remove support for the host aware zone model"), so a disk that declares
//! itself host-aware gets SCSI commands on every kernel; behind a SATA port or a SAS adapter these are
//! translated (SAT-4: ZBC IN and ZBC OUT to the ZAC commands of ACS-4).
//!
//! Invariants: a target opened with [`Access::ReadOnly`] changes no zone; an action names one zone, or all of
//! them in so many words. Whoever opened with [`Access::DestroyData`] has been through the checks of
//! [`Device::open`], so no zone of a device in use changes. A report that contradicts itself (zones that overlap
//! or have no length) is an error, never a guess. A partition has no zones: they are the disk's.
//!
//! Sources: Linux `include/uapi/linux/blkzoned.h`, `Documentation/ABI/stable/sysfs-block`; ZBC-2 (INCITS 550),
//! zone conditions, zone types and their codes.

mod kernel;
mod scsi;

use serde::Serialize;
use skylight_command::ZoneAction;

use crate::device::{Access, Device};
use crate::error::{HostError, RefusalReason};
use crate::identity::Kind;
use crate::sg_io::SgIo;
use crate::sysfs::Node;
use crate::zone_failure::{ZoneFailure, ZoneFault};

/// The unit of the kernel's zone ioctls and of sysfs, bytes.
const SECTOR_BYTES: u64 = 512;
/// More zones than any drive has: a report beyond it is that of a broken device. 30 TB in the smallest zones in
/// use, of 16 MiB, are 1.8 million.
const MOST_ZONES: usize = 1 << 24;

/// Who decides where a sequential zone is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneModel {
    /// Sequential zones accept writes anywhere, at a price.
    HostAware,
    /// Sequential zones accept writes at their write pointer only.
    HostManaged,
}

/// The zones of a device as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ZoneLayout {
    /// The model.
    pub model: ZoneModel,
    /// Size of a zone, bytes; the last one may be smaller.
    pub zone_bytes: u64,
    /// Number of zones.
    pub zones: u64,
    /// Most zones that may be open at once; of a host-aware drive the number that it recommends. `None`: no
    /// limit, or none reported.
    pub max_open: Option<u32>,
    /// Most zones that may be open or closed at once; `None`: no limit, or none reported.
    pub max_active: Option<u32>,
    /// Non-sequentially written zones that a host-aware drive recommends at most.
    pub recommended_non_sequential: Option<u32>,
}

/// One zone, as it is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its first byte.
    pub start_bytes: u64,
    /// From its first byte to the next zone, bytes.
    pub size_bytes: u64,
    /// What of it can be written, bytes.
    pub capacity_bytes: u64,
    /// Where it is written next, bytes from the start of the device: the end of a full zone, `None` for a zone
    /// without a write pointer (conventional, read-only, offline).
    pub write_pointer_bytes: Option<u64>,
    /// ZBC-2's type: 1 conventional, 2 sequential write required, 3 sequential write preferred.
    pub kind: u8,
    /// ZBC-2's condition: 0 not write pointer, 1 empty, 2 implicitly open, 3 explicitly open, 4 closed, Dh
    /// read-only, Eh full, Fh offline.
    pub condition: u8,
    /// The drive asks for a reset.
    pub reset_recommended: bool,
    /// The zone was written out of order and uses the drive's resources for that.
    pub non_sequential: bool,
}

impl Zone {
    /// The write pointer of a zone whose report has it at this byte. What is reported of zones that are full or have
    /// none is undefined (ZBC-2, zone condition).
    fn pointer(condition: u8, start_bytes: u64, size_bytes: u64, reported_bytes: u64) -> Option<u64> {
        const FULL: u8 = 0xe;
        match condition {
            1..=4 => Some(reported_bytes),
            FULL => Some(start_bytes.saturating_add(size_bytes)),
            _ => None,
        }
    }

    /// Behind its last byte.
    fn end_bytes(&self) -> Option<u64> {
        self.start_bytes.checked_add(self.size_bytes)
    }
}

/// The zones that an action is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneScope {
    /// The zone of this extent.
    One {
        /// Its first byte.
        start_bytes: u64,
        /// Its size, bytes.
        size_bytes: u64,
    },
    /// All zones that the standard's ALL bit means: those which the action would change, empty ones excepted.
    All,
}

/// One way to the zones of a device.
trait Port {
    /// The layout.
    fn layout(&self) -> Result<ZoneLayout, ZoneFault>;

    /// Appends zones from the one that contains this byte on, at most so many and what one command reports; none
    /// behind the end of the device.
    fn report(&self, from_bytes: u64, most: usize, zones: &mut Vec<Zone>) -> Result<(), ZoneFault>;

    /// How many zones have non-sequential data, where one command counts them; `None` where none does.
    fn count_non_sequential(&self) -> Result<Option<u64>, ZoneFault> {
        Ok(None)
    }

    /// Performs an action.
    fn act(&self, action: ZoneAction, scope: ZoneScope) -> Result<(), ZoneFault>;
}

impl Device {
    /// Whether the kernel or the drive reports zones of the target.
    pub fn is_zoned(&self) -> bool {
        self.zone_port().is_some()
    }

    /// The layout of the target's zones; `None` for a file, a partition, and a disk that reports no zones.
    ///
    /// # Errors
    /// When the kernel or the drive fails to report it.
    pub fn zone_layout(&self) -> Result<Option<ZoneLayout>, HostError> {
        let Some(port) = self.zone_port() else { return Ok(None) };
        port.layout().map(Some).map_err(|fault| self.zone_failure("reporting its zones".into(), fault))
    }

    /// At most so many zones, from the one that contains a byte on, in order.
    ///
    /// # Errors
    /// When the target has no zones, or its report fails or contradicts itself.
    pub fn report_zones(&self, from_bytes: u64, most: usize) -> Result<Vec<Zone>, HostError> {
        let port = self.zone_port().ok_or_else(|| RefusalReason::NotZoned.of(&self.identity().path))?;
        let report = read_report(&*port, from_bytes, self.identity().size_bytes, most);
        report.map_err(|fault| match fault {
            ReportFault::Zone(fault) => self.zone_failure("reporting its zones".into(), fault),
            ReportFault::Contradicts(what) => {
                RefusalReason::BadZoneReport(what).of(&self.identity().path).into()
            }
        })
    }

    /// How many zones have non-sequential data: one short command to a host-aware disk, elsewhere counted in a
    /// report of all zones.
    ///
    /// # Errors
    /// As [`Device::report_zones`].
    pub fn non_sequential_zones(&self) -> Result<u64, HostError> {
        let port = self.zone_port().ok_or_else(|| RefusalReason::NotZoned.of(&self.identity().path))?;
        let counted = port.count_non_sequential();
        match counted.map_err(|fault| self.zone_failure("counting its non-sequential zones".into(), fault))? {
            Some(count) => Ok(count),
            None => {
                let zones = self.report_zones(0, usize::MAX)?;
                Ok(zones.iter().filter(|zone| zone.non_sequential).count() as u64)
            }
        }
    }

    /// Performs an action on one zone, or on all.
    ///
    /// # Errors
    /// When the target was opened read-only or has no zones, or the kernel or the drive refuses the action.
    pub fn zone_action(&self, action: ZoneAction, scope: ZoneScope) -> Result<(), HostError> {
        let path = &self.identity().path;
        if self.access() == Access::ReadOnly {
            return Err(RefusalReason::ZoneActionReadOnly(action.as_str()).of(path).into());
        }
        let port = self.zone_port().ok_or_else(|| RefusalReason::NotZoned.of(path))?;
        port.act(action, scope).map_err(|fault| {
            let what = match scope {
                ZoneScope::One { start_bytes, .. } => format!("{action} of the zone at byte {start_bytes}"),
                ZoneScope::All => format!("{action} of all zones"),
            };
            self.zone_failure(what, fault)
        })
    }

    fn zone_failure(&self, what: String, fault: ZoneFault) -> HostError {
        ZoneFailure { path: self.identity().path.clone(), what, fault }.into()
    }

    fn zone_port(&self) -> Option<Box<dyn Port + '_>> {
        let identity = self.identity();
        let disk = self.node().filter(|node| identity.kind == Kind::BlockDevice && node.disk() == **node)?;
        match route(disk)? {
            Route::Kernel(model) => Some(Box::new(kernel::Ioctls { file: self.file(), disk, model })),
            Route::Scsi => {
                let block_bytes = u64::from(identity.block_bytes);
                Some(Box::new(scsi::Commands { link: SgIo { file: self.file() }, block_bytes }))
            }
        }
    }
}

/// Which way leads to the zones of a disk.
#[derive(Debug, PartialEq, Eq)]
enum Route {
    Kernel(ZoneModel),
    Scsi,
}

fn route(disk: &Node) -> Option<Route> {
    if scsi::declares_host_aware(disk) {
        return Some(Route::Scsi);
    }
    match disk.text("queue/zoned")?.as_str() {
        "host-managed" => Some(Route::Kernel(ZoneModel::HostManaged)),
        "host-aware" => Some(Route::Kernel(ZoneModel::HostAware)),
        _ => None,
    }
}

/// Why a report cannot be used.
#[derive(Debug, PartialEq, Eq)]
enum ReportFault {
    Zone(ZoneFault),
    Contradicts(String),
}

/// Reads a report piece by piece and checks that its zones follow each other.
fn read_report(
    port: &dyn Port,
    from_bytes: u64,
    size_bytes: u64,
    most: usize,
) -> Result<Vec<Zone>, ReportFault> {
    let mut zones: Vec<Zone> = vec![];
    let mut next_bytes = from_bytes;
    while next_bytes < size_bytes && zones.len() < most {
        let known = zones.len();
        port.report(next_bytes, most - known, &mut zones).map_err(ReportFault::Zone)?;
        if zones.len() == known {
            break;
        }
        for (at, zone) in zones.iter().enumerate().skip(known) {
            let follows = at == 0 || zone.start_bytes >= next_bytes;
            match zone.end_bytes().filter(|_| follows && zone.size_bytes > 0 && at < MOST_ZONES) {
                Some(end) => next_bytes = end,
                None => {
                    let (start, size) = (zone.start_bytes, zone.size_bytes);
                    let what = format!("zone {at} of the report begins at byte {start} with {size} bytes");
                    return Err(ReportFault::Contradicts(what));
                }
            }
        }
    }
    zones.truncate(most);
    Ok(zones)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::fake_sysfs::Tree;
    use crate::sg_io::CommandFault;

    /// Zones of 1 MiB on a device of 10, reported some at a time; how often it was asked.
    struct Pieces {
        a_call: usize,
        asked: RefCell<Vec<u64>>,
        spoil: fn(&mut Zone),
    }

    const MIB: u64 = 1 << 20;

    fn zone(number: u64) -> Zone {
        Zone {
            start_bytes: number * MIB,
            size_bytes: MIB,
            capacity_bytes: MIB,
            write_pointer_bytes: Some(number * MIB),
            kind: 2,
            condition: 1,
            reset_recommended: false,
            non_sequential: false,
        }
    }

    impl Port for Pieces {
        fn layout(&self) -> Result<ZoneLayout, ZoneFault> {
            Err(CommandFault::Errno(libc::ENOTTY).into())
        }

        fn report(&self, from_bytes: u64, most: usize, zones: &mut Vec<Zone>) -> Result<(), ZoneFault> {
            self.asked.borrow_mut().push(from_bytes);
            let first = from_bytes / MIB;
            let piece = (first..10).take(self.a_call.min(most)).map(zone);
            zones.extend(piece.map(|mut zone| {
                (self.spoil)(&mut zone);
                zone
            }));
            Ok(())
        }

        fn act(&self, _: ZoneAction, _: ZoneScope) -> Result<(), ZoneFault> {
            Ok(())
        }
    }

    fn pieces(a_call: usize, spoil: fn(&mut Zone)) -> Pieces {
        Pieces { a_call, asked: RefCell::default(), spoil }
    }

    #[test]
    fn a_report_longer_than_a_buffer_is_read_in_pieces() {
        for (a_call, asked) in [(3, vec![0, 3, 6, 9]), (5, vec![0, 5]), (10, vec![0]), (64, vec![0])] {
            let port = pieces(a_call, |_| ());
            let zones = read_report(&port, 0, 10 * MIB, usize::MAX);
            assert_eq!(zones, Ok((0..10).map(zone).collect()), "{a_call} a call");
            assert_eq!(*port.asked.borrow(), asked.iter().map(|at| at * MIB).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_part_of_a_report_begins_with_the_zone_of_its_byte() {
        let port = pieces(4, |_| ());
        let zones = read_report(&port, 7 * MIB + 5, 10 * MIB, 2);
        assert_eq!(zones, Ok(vec![zone(7), zone(8)]));
        assert_eq!(read_report(&port, 10 * MIB, 10 * MIB, 2), Ok(vec![]));
    }

    #[test]
    fn a_report_that_goes_nowhere_is_an_error_and_not_a_loop() {
        let still: fn(&mut Zone) = |zone| zone.size_bytes = 0;
        let back: fn(&mut Zone) = |zone| zone.start_bytes = 0;
        let far: fn(&mut Zone) = |zone| zone.size_bytes = u64::MAX;
        for (spoil, at) in [(still, 0), (back, 1), (far, 1)] {
            let found = read_report(&pieces(3, spoil), 0, 10 * MIB, usize::MAX);
            let Err(ReportFault::Contradicts(what)) = found else { panic!("{found:?}") };
            assert!(what.starts_with(&format!("zone {at} of the report begins at byte")), "{what}");
        }
    }

    #[test]
    fn only_conditions_with_a_write_pointer_have_one() {
        let pointers: Vec<_> = (0..16).map(|condition| Zone::pointer(condition, 10, 5, 12)).collect();
        let expected = |condition: u8| match condition {
            1..=4 => Some(12),
            0xe => Some(15),
            _ => None,
        };
        assert_eq!(pointers, (0..16).map(expected).collect::<Vec<_>>());
    }

    #[test]
    fn the_way_to_the_zones_is_chosen_by_what_is_declared() {
        let tree = Tree::new("zone-route");
        let disk = tree.disk("sdq", (8, 256));
        let set = |name: &str, value: &[u8]| {
            let path = tree.file(&format!("sys/devices/sdq/{name}"), "");
            assert!(std::fs::write(path, value).is_ok());
        };
        assert_eq!(route(&disk), None, "a kernel without zones");
        set("queue/zoned", b"none\n");
        assert_eq!(route(&disk), None);
        set("queue/zoned", b"host-managed\n");
        assert_eq!(route(&disk), Some(Route::Kernel(ZoneModel::HostManaged)));
        set("queue/zoned", b"host-aware\n");
        assert_eq!(route(&disk), Some(Route::Kernel(ZoneModel::HostAware)));
        // Device-managed: it hides its zones.
        set("device/vpd_pgb1", &[0, 0xb1, 0, 0x3c, 0x17, 0x0c, 0, 0, 0x20]);
        assert_eq!(route(&disk), Some(Route::Kernel(ZoneModel::HostAware)));
        set("device/vpd_pgb1", &[0, 0xb1, 0, 0x3c, 0x17, 0x0c, 0, 0, 0x10]);
        for zoned in ["none\n", "host-aware\n"] {
            set("queue/zoned", zoned.as_bytes());
            assert_eq!(route(&disk), Some(Route::Scsi), "{zoned}");
        }
    }
}
