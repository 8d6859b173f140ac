//! Zones through SCSI commands to the drive (SG_IO), for host-aware disks, which Linux treats as ordinary ones.
//!
//! Invariants: no command but INQUIRY, REPORT ZONES and the four zone actions is ever sent; an action only by
//! [`Port::act`]. Nothing is sent to a disk that does not declare itself host-aware. What a drive transfers
//! beyond the buffer, or announces beyond what it transferred, is not read.
//!
//! Sources: ZBC-2 (INCITS 550): REPORT ZONES, CLOSE ZONE, FINISH ZONE, OPEN ZONE and RESET WRITE POINTER
//! commands, zone descriptor format, Zoned Block Device Characteristics VPD page (B6h); the same in Seagate,
//! "SCSI Commands Reference Manual", Rev. J, 4.2 to 4.6. SBC-4: ZONED field of the Block Device Characteristics
//! VPD page (B1h). SPC-5: INQUIRY. SAT-4 has each command translated for ATA disks: ZBC IN to
//! REPORT ZONES EXT, ZBC OUT to CLOSE ZONE EXT, FINISH ZONE EXT, OPEN ZONE EXT and RESET WRITE POINTER EXT.

use std::fs;

use skylight_command::ZoneAction;

use super::{Port, Zone, ZoneLayout, ZoneModel, ZoneScope};
use crate::sg_io::{CommandFault, Link, Transfer};
use crate::sysfs::Node;
use crate::zone_failure::ZoneFault;

const INQUIRY: u8 = 0x12;
const ZBC_OUT: u8 = 0x94;
const ZBC_IN: u8 = 0x95;
const CHARACTERISTICS_PAGE: u8 = 0xb6;
/// REPORT ZONES: report only as many zones as the buffer holds, which spares the drive the rest.
const PARTIAL: u8 = 0x80;
/// REPORT ZONES, reporting options: list the zones with non-sequential data (NON_SEQ) alone.
const NON_SEQUENTIAL: u8 = 0x11;
/// The header of a report, and a descriptor in it, bytes.
const DESCRIPTOR_BYTES: usize = 64;
/// Largest buffer of a report, bytes: a USB adapter transfers at most 120 KiB.
const REPORT_BYTES: usize = 64 << 10;
/// The unit of a report's transfer for ATA disks (ACS-4: REPORT ZONES EXT returns pages of 512 bytes), bytes.
const TRANSFER_UNIT_BYTES: usize = 512;
/// "Not reported" in the characteristics page.
const NOT_REPORTED: u32 = u32::MAX;

/// Whether a disk declares itself host-aware: the ZONED field (SBC-4: byte 8, bits 5 and 4 of page B1h) is 01b.
/// The kernel keeps the page of SCSI disks, and makes one for ATA disks from word 69 of their identification.
pub fn declares_host_aware(disk: &Node) -> bool {
    const HOST_AWARE: u8 = 1;
    let page = fs::read(disk.dir().join("device/vpd_pgb1")).unwrap_or_default();
    page.get(1) == Some(&0xb1) && page.get(8).is_some_and(|byte| (byte >> 4) & 3 == HOST_AWARE)
}

/// The zone commands of a drive with blocks of a size.
pub struct Commands<L> {
    /// The way to the drive.
    pub link: L,
    /// Its logical block, bytes.
    pub block_bytes: u64,
}

impl<L: Link> Port for Commands<L> {
    fn layout(&self) -> Result<ZoneLayout, ZoneFault> {
        // Without PARTIAL the header counts all zones, whatever the buffer holds.
        let mut data = [0; TRANSFER_UNIT_BYTES];
        let got = self.link.send(&report_zones(0, data.len(), 0), Transfer::In(&mut data))?;
        let mut first = vec![];
        self.parse(&data[..got], &mut first);
        let zone = first.first().ok_or(CommandFault::Errno(libc::EIO))?;
        let mut page = [0; 64];
        let inquiry = [INQUIRY, 1, CHARACTERISTICS_PAGE, 0, page.len() as u8, 0];
        // A drive may do without this page.
        let limits =
            self.link.send(&inquiry, Transfer::In(&mut page)).map_or([None; 2], |got| limits(&page[..got]));
        let [max_open, recommended_non_sequential] = limits;
        Ok(ZoneLayout {
            model: ZoneModel::HostAware,
            zone_bytes: zone.size_bytes,
            zones: u64::from(u32_at(&data, 0)) / DESCRIPTOR_BYTES as u64,
            max_open,
            max_active: None,
            recommended_non_sequential,
        })
    }

    fn report(&self, from_bytes: u64, most: usize, zones: &mut Vec<Zone>) -> Result<(), ZoneFault> {
        let wanted = most.saturating_add(1).saturating_mul(DESCRIPTOR_BYTES).min(REPORT_BYTES);
        let mut data = vec![0; wanted.next_multiple_of(TRANSFER_UNIT_BYTES)];
        let command = report_zones(from_bytes / self.block_bytes, data.len(), PARTIAL);
        let got = self.link.send(&command, Transfer::In(&mut data))?;
        self.parse(&data[..got], zones);
        Ok(())
    }

    fn count_non_sequential(&self) -> Result<Option<u64>, ZoneFault> {
        // Without PARTIAL the header counts all zones that the option lists, whatever the buffer holds.
        let mut data = [0; TRANSFER_UNIT_BYTES];
        let command = report_zones(0, data.len(), NON_SEQUENTIAL);
        // A drive or an adapter may refuse the option, or list all zones whatever it says.
        let Ok(got) = self.link.send(&command, Transfer::In(&mut data)) else { return Ok(None) };
        let mut listed = vec![];
        self.parse(&data[..got], &mut listed);
        if got < DESCRIPTOR_BYTES || !listed.iter().all(|zone| zone.non_sequential) {
            return Ok(None);
        }
        Ok(Some(u64::from(u32_at(&data, 0)) / DESCRIPTOR_BYTES as u64))
    }

    fn act(&self, action: ZoneAction, scope: ZoneScope) -> Result<(), ZoneFault> {
        self.link.send(&zone_out(action, scope, self.block_bytes), Transfer::None)?;
        Ok(())
    }
}

impl<L> Commands<L> {
    /// Appends the zones of a report.
    fn parse(&self, data: &[u8], zones: &mut Vec<Zone>) {
        if data.len() < DESCRIPTOR_BYTES {
            return;
        }
        let listed = u32_at(data, 0) as usize / DESCRIPTOR_BYTES;
        for zone in data[DESCRIPTOR_BYTES..].chunks_exact(DESCRIPTOR_BYTES).take(listed) {
            let bytes = |at| u64_at(zone, at).saturating_mul(self.block_bytes);
            let (start_bytes, size_bytes, condition) = (bytes(16), bytes(8), zone[1] >> 4);
            zones.push(Zone {
                start_bytes,
                size_bytes,
                // The standard's descriptor has no capacity: a zone's is its length.
                capacity_bytes: size_bytes,
                write_pointer_bytes: Zone::pointer(condition, start_bytes, size_bytes, bytes(24)),
                kind: zone[0] & 0x0f,
                condition,
                reset_recommended: zone[1] & 1 != 0,
                non_sequential: zone[1] & 2 != 0,
            });
        }
    }
}

/// A REPORT ZONES command: the block to begin with, the bytes of the buffer, and which zones: PARTIAL or a
/// reporting option, 0 for all.
fn report_zones(block: u64, buffer_bytes: usize, options: u8) -> [u8; 16] {
    let mut command = [0; 16];
    command[0] = ZBC_IN;
    command[2..10].copy_from_slice(&block.to_be_bytes());
    command[10..14].copy_from_slice(&(buffer_bytes as u32).to_be_bytes());
    command[14] = options;
    command
}

/// A ZBC OUT command.
fn zone_out(action: ZoneAction, scope: ZoneScope, block_bytes: u64) -> [u8; 16] {
    const ALL: u8 = 1;
    let mut command = [0; 16];
    command[0] = ZBC_OUT;
    command[1] = match action {
        ZoneAction::Close => 1,
        ZoneAction::Finish => 2,
        ZoneAction::Open => 3,
        ZoneAction::Reset => 4,
    };
    match scope {
        ZoneScope::One { start_bytes, .. } => {
            command[2..10].copy_from_slice(&(start_bytes / block_bytes).to_be_bytes());
        }
        ZoneScope::All => command[14] = ALL,
    }
    command
}

/// The recommended numbers of open and of non-sequentially written zones in a characteristics page.
fn limits(page: &[u8]) -> [Option<u32>; 2] {
    let number = |at: usize| page.get(at..at + 4).map(|_| u32_at(page, at)).filter(|&n| n != NOT_REPORTED);
    if page.get(1) == Some(&CHARACTERISTICS_PAGE) { [number(8), number(12)] } else { [None; 2] }
}

fn u32_at(data: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&data[at..at + 4]);
    u32::from_be_bytes(bytes)
}

fn u64_at(data: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&data[at..at + 8]);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A drive of so many zones of 65,536 blocks that answers as the standard says, and keeps what it was sent.
    #[derive(Debug)]
    struct FakeDrive {
        zones: u64,
        /// Lists all zones, whatever the reporting option.
        ignores_options: bool,
        sent: RefCell<Vec<Vec<u8>>>,
    }

    const ZONE_BLOCKS: u64 = 65_536;

    /// A descriptor as an ST8000AS0022 reports it: the first zone conventional, the second non-sequential.
    fn descriptor(number: u64) -> [u8; DESCRIPTOR_BYTES] {
        let mut zone = [0; DESCRIPTOR_BYTES];
        (zone[0], zone[1]) = match number {
            0 => (0x01, 0x00),
            1 => (0x03, 0x23),
            _ => (0x03, 0x10),
        };
        zone[8..16].copy_from_slice(&ZONE_BLOCKS.to_be_bytes());
        zone[16..24].copy_from_slice(&(number * ZONE_BLOCKS).to_be_bytes());
        zone[24..32].copy_from_slice(&(number * ZONE_BLOCKS + 8 * u64::from(number == 1)).to_be_bytes());
        zone
    }

    impl Link for &FakeDrive {
        fn send(&self, command: &[u8], data: Transfer<'_>) -> Result<usize, CommandFault> {
            let data = match data {
                Transfer::In(buffer) => buffer,
                _ => &mut [],
            };
            self.sent.borrow_mut().push(command.to_vec());
            let mut reply = vec![0; DESCRIPTOR_BYTES];
            match command[0] {
                ZBC_IN => {
                    let first = u64_at(command, 2) / ZONE_BLOCKS;
                    let option = command[14] & !PARTIAL;
                    let mut zones: Vec<u64> = (first..self.zones).collect();
                    zones.retain(|&zone| self.ignores_options || option == 0 || descriptor(zone)[1] & 2 != 0);
                    let fits = data.len() / DESCRIPTOR_BYTES - 1;
                    let listed = if command[14] & PARTIAL != 0 { fits.min(zones.len()) } else { zones.len() };
                    reply[..4].copy_from_slice(&(listed as u32 * 64).to_be_bytes());
                    reply.extend(zones.into_iter().take(fits.min(listed)).flat_map(descriptor));
                }
                INQUIRY => {
                    reply[1] = CHARACTERISTICS_PAGE;
                    reply[8..12].copy_from_slice(&128_u32.to_be_bytes());
                    reply[12..16].copy_from_slice(&NOT_REPORTED.to_be_bytes());
                }
                _ => reply.clear(),
            }
            data[..reply.len()].copy_from_slice(&reply);
            Ok(reply.len())
        }
    }

    fn drive(zones: u64) -> FakeDrive {
        FakeDrive { zones, ignores_options: false, sent: RefCell::default() }
    }

    #[test]
    fn the_layout_counts_all_zones_and_names_the_limits() {
        let drive = drive(29_809);
        let layout = Commands { link: &drive, block_bytes: 4096 }.layout();
        let expected = ZoneLayout {
            model: ZoneModel::HostAware,
            zone_bytes: 256 << 20,
            zones: 29_809,
            max_open: Some(128),
            max_active: None,
            recommended_non_sequential: None,
        };
        assert_eq!(layout, Ok(expected));
    }

    #[test]
    fn a_report_is_read_in_pieces_of_a_transfer() {
        let drive = drive(2500);
        let commands = Commands { link: &drive, block_bytes: 4096 };
        let zones = super::super::read_report(&commands, 0, 2500 * (256 << 20), usize::MAX).expect("zones");
        assert_eq!(zones.len(), 2500);
        assert!(zones.windows(2).all(|pair| pair[0].end_bytes() == Some(pair[1].start_bytes)));
        assert_eq!((zones[0].kind, zones[0].condition, zones[0].non_sequential), (1, 0, false));
        let second = Zone {
            start_bytes: 256 << 20,
            size_bytes: 256 << 20,
            capacity_bytes: 256 << 20,
            write_pointer_bytes: Some((256 << 20) + 8 * 4096),
            kind: 3,
            condition: 2,
            reset_recommended: true,
            non_sequential: true,
        };
        assert_eq!(zones[1], second);
        let starts: Vec<u64> = drive.sent.borrow().iter().map(|command| u64_at(command, 2)).collect();
        assert_eq!(starts, [0, 1023 * ZONE_BLOCKS, 2046 * ZONE_BLOCKS]);
    }

    #[test]
    fn zones_with_non_sequential_data_are_counted_by_one_command() {
        let drive = drive(29_809);
        let count = Commands { link: &drive, block_bytes: 4096 }.count_non_sequential();
        assert_eq!(count, Ok(Some(1)), "the second");
        assert_eq!(drive.sent.borrow().len(), 1);
        assert_eq!(drive.sent.borrow()[0][14], 0x11, "ZBC-2: reporting option NON_SEQ");
        let ignorant = FakeDrive { ignores_options: true, ..drive };
        let count = Commands { link: &ignorant, block_bytes: 4096 }.count_non_sequential();
        assert_eq!(count, Ok(None), "zones without the flag are listed: it counted others too");
    }

    #[test]
    fn a_short_or_boasting_report_gives_what_came() {
        let commands = Commands { link: &drive(1), block_bytes: 512 };
        let mut zones = vec![];
        commands.parse(&[], &mut zones);
        commands.parse(&[0xff; 63], &mut zones);
        assert!(zones.is_empty());
        let mut data = vec![0xff; 4];
        data.resize(DESCRIPTOR_BYTES, 0);
        data.extend(descriptor(7));
        data.extend([0xff; 63]);
        commands.parse(&data, &mut zones);
        assert_eq!(zones.len(), 1);
    }

    #[test]
    fn commands_are_laid_out_as_the_standard_says() {
        let one = ZoneScope::One { start_bytes: 3 << 28, size_bytes: 1 << 28 };
        for (action, service) in
            [(ZoneAction::Close, 1), (ZoneAction::Finish, 2), (ZoneAction::Open, 3), (ZoneAction::Reset, 4)]
        {
            let command = zone_out(action, one, 4096);
            assert_eq!(command[..10], [0x94, service, 0, 0, 0, 0, 0, 3, 0, 0], "{action}");
            assert_eq!(command[10..], [0; 6]);
            let all = zone_out(action, ZoneScope::All, 4096);
            assert_eq!((all[1], &all[2..14], all[14]), (service, &[0; 12][..], 1));
        }
        assert_eq!(
            report_zones(0x0102_0304_0506, 65_536, PARTIAL),
            [0x95, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 1, 0, 0, 0x80, 0]
        );
    }
}
