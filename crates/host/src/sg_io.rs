//! Commands to a SCSI disk, or to an ATA disk behind a translation layer, through the SG_IO ioctl.
//!
//! Invariants: what a command is and what it changes is its caller's; a fault is the drive's own words where it
//! gave any. What a drive announces beyond what it transferred is not read.
//!
//! Sources: Linux `include/scsi/sg.h`; SPC-5, sense data (fixed and descriptor format).

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// Time that a command may take: to finish a zone may be to write all of it, 2 GiB at 80 MB/s, four times over.
pub const TIMEOUT: Duration = Duration::from_secs(120);
/// Time that a question may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
/// A sense buffer as large as sense data can be (SPC-5, sense data), bytes.
const SENSE_BYTES: usize = 252;

/// MEDIUM FORMAT CORRUPTED, and with qualifiers 1 and 2 a format that failed (SPC-5, annex F): the medium takes no
/// commands until it is formatted again. Qualifier 3 is of a sanitize.
const FORMAT_CORRUPTED: u8 = 0x31;

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandFault {
    /// The kernel's error number: nothing reached the drive.
    Errno(i32),
    /// The drive's sense data: sense key, additional sense code and its qualifier.
    Sense(u8, u8, u8),
    /// The drive's SCSI status without sense data, or the adapter's.
    Status(u32),
}

impl fmt::Display for CommandFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Errno(number) => write!(out, "{}", io::Error::from_raw_os_error(number)),
            Self::Sense(key, FORMAT_CORRUPTED, qualifier @ 0..=2) => write!(
                out,
                "the medium is not formatted, since a format was cut short or failed (sense {key:X}h, \
                 {FORMAT_CORRUPTED:02X}h/{qualifier:02X}h); format it again (sg_format --format of sg3_utils)"
            ),
            Self::Sense(key, code, qualifier) => {
                write!(out, "the drive refused the command (sense {key:X}h, {code:02X}h/{qualifier:02X}h)")
            }
            Self::Status(status) => write!(out, "the adapter or drive answered status {status:02X}h"),
        }
    }
}

impl From<CommandFault> for io::Error {
    fn from(fault: CommandFault) -> Self {
        match fault {
            CommandFault::Errno(number) => Self::from_raw_os_error(number),
            other => Self::other(other.to_string()),
        }
    }
}

/// The data of a command.
pub enum Transfer<'a> {
    /// None.
    None,
    /// From the drive.
    In(&'a mut [u8]),
    /// To the drive.
    Out(&'a [u8]),
}

/// What carries a command to a drive.
pub trait Link: fmt::Debug {
    /// Sends a command with its data; the number of bytes that were transferred.
    fn send(&self, command: &[u8], data: Transfer<'_>) -> Result<usize, CommandFault>;
}

impl<L: Link + ?Sized> Link for Box<L> {
    fn send(&self, command: &[u8], data: Transfer<'_>) -> Result<usize, CommandFault> {
        (**self).send(command, data)
    }
}

/// How a command ended, with all that came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Bytes of data that were transferred.
    pub transferred: usize,
    /// The SCSI status; the adapter's above it, from bit 8 on.
    pub status: u32,
    /// The sense data, empty without any.
    pub sense: Vec<u8>,
}

impl Reply {
    /// Why the command failed, if it did.
    pub fn fault(&self) -> Option<CommandFault> {
        (self.status != 0).then(|| sense_of(&self.sense).unwrap_or(CommandFault::Status(self.status)))
    }
}

/// A link that returns the whole sense data, and waits for a command as long as is asked.
pub trait Exchange: Link {
    /// Sends a command with its data. An error is the kernel's: nothing reached the drive.
    fn exchange(&self, command: &[u8], data: Transfer<'_>, timeout: Duration) -> Result<Reply, CommandFault>;
}

/// The SG_IO ioctl of a disk.
#[derive(Debug)]
pub struct SgIo<F> {
    /// The disk, open.
    pub file: F,
}

/// `struct sg_io_hdr`.
///
/// More than 15 fields: the kernel's, in its order.
#[repr(C)]
struct SgIoHeader {
    interface_id: libc::c_int,
    dxfer_direction: libc::c_int,
    cmd_len: u8,
    mx_sb_len: u8,
    iovec_count: u16,
    dxfer_len: u32,
    dxferp: *mut libc::c_void,
    cmdp: *const u8,
    sbp: *mut u8,
    timeout: u32,
    flags: u32,
    pack_id: libc::c_int,
    usr_ptr: *mut libc::c_void,
    status: u8,
    masked_status: u8,
    msg_status: u8,
    sb_len_wr: u8,
    host_status: u16,
    driver_status: u16,
    resid: libc::c_int,
    duration: u32,
    info: u32,
}

impl<F: AsFd + fmt::Debug> Link for SgIo<F> {
    fn send(&self, command: &[u8], data: Transfer<'_>) -> Result<usize, CommandFault> {
        let reply = self.exchange(command, data, TIMEOUT)?;
        reply.fault().map_or(Ok(reply.transferred), Err)
    }
}

impl<F: AsFd + fmt::Debug> Exchange for SgIo<F> {
    fn exchange(&self, command: &[u8], data: Transfer<'_>, timeout: Duration) -> Result<Reply, CommandFault> {
        const SG_IO: libc::c_ulong = 0x2285;
        const INTERFACE: libc::c_int = b'S' as libc::c_int;
        const NO_DATA: libc::c_int = -1;
        const TO_DRIVE: libc::c_int = -2;
        const FROM_DRIVE: libc::c_int = -3;
        let (direction, length, pointer) = match data {
            Transfer::In(buffer) if !buffer.is_empty() => (FROM_DRIVE, buffer.len(), buffer.as_mut_ptr()),
            Transfer::Out(bytes) if !bytes.is_empty() => (TO_DRIVE, bytes.len(), bytes.as_ptr().cast_mut()),
            _ => (NO_DATA, 0, std::ptr::null_mut()),
        };
        let mut sense = [0_u8; SENSE_BYTES];
        let mut header = SgIoHeader {
            interface_id: INTERFACE,
            dxfer_direction: direction,
            cmd_len: command.len() as u8,
            mx_sb_len: SENSE_BYTES as u8,
            iovec_count: 0,
            dxfer_len: length as u32,
            dxferp: pointer.cast(),
            cmdp: command.as_ptr(),
            sbp: sense.as_mut_ptr(),
            timeout: u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX),
            flags: 0,
            pack_id: 0,
            usr_ptr: std::ptr::null_mut(),
            status: 0,
            masked_status: 0,
            msg_status: 0,
            sb_len_wr: 0,
            host_status: 0,
            driver_status: 0,
            resid: 0,
            duration: 0,
            info: 0,
        };
        // SAFETY: the header and the three buffers that it names live until the call returns, with the lengths
        // that it names; the kernel writes to the header, to the sense buffer, and to the data only where its
        // direction is from the drive, in which case it is mutable.
        if unsafe { libc::ioctl(self.file.as_fd().as_raw_fd(), SG_IO as _, &raw mut header) } == -1 {
            let error = io::Error::last_os_error();
            return Err(CommandFault::Errno(error.raw_os_error().unwrap_or(libc::EIO)));
        }
        let written = usize::from(header.sb_len_wr).min(SENSE_BYTES);
        Ok(Reply {
            transferred: length.saturating_sub(usize::try_from(header.resid).unwrap_or(0)),
            status: u32::from(header.host_status) << 8 | u32::from(header.status),
            sense: sense[..written].to_vec(),
        })
    }
}

/// What a disk returns to a command that only asks, at most `length` bytes; it is opened for reading.
///
/// # Errors
/// If the disk cannot be opened, or refuses the command, or nobody passes it on.
pub fn ask(path: &Path, command: &[u8], length: usize) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let mut data = vec![0; length];
    let reply = SgIo { file }.exchange(command, Transfer::In(&mut data), ASK_TIMEOUT)?;
    match reply.fault() {
        Some(fault) => Err(fault.into()),
        None => {
            data.truncate(reply.transferred);
            Ok(data)
        }
    }
}

/// Sense key, additional sense code and qualifier of fixed or descriptor format sense data.
pub fn sense_of(sense: &[u8]) -> Option<CommandFault> {
    let (key, code, qualifier) = match sense.first()? & 0x7f {
        0x70 | 0x71 => (sense.get(2)?, sense.get(12)?, sense.get(13)?),
        0x72 | 0x73 => (sense.get(1)?, sense.get(2)?, sense.get(3)?),
        _ => return None,
    };
    Some(CommandFault::Sense(key & 0x0f, *code, *qualifier))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sense_data_of_both_formats_is_understood() {
        let mut fixed = [0; 18];
        (fixed[0], fixed[2], fixed[12], fixed[13]) = (0xf0, 0x07, 0x55, 0x0e);
        assert!(!CommandFault::Sense(3, 0x31, 3).to_string().contains("sg_format"), "a sanitize that failed");
        assert_eq!(sense_of(&fixed), Some(CommandFault::Sense(7, 0x55, 0x0e)));
        assert_eq!(sense_of(&[0x72, 5, 0x24, 0, 0, 0, 0, 0]), Some(CommandFault::Sense(5, 0x24, 0)));
        assert_eq!((sense_of(&[]), sense_of(&fixed[..12]), sense_of(&[0; 18])), (None, None, None));
    }

    #[test]
    fn the_header_has_the_size_of_the_kernel_s() {
        #[cfg(target_pointer_width = "64")]
        assert_eq!(size_of::<SgIoHeader>(), 88);
    }
}
