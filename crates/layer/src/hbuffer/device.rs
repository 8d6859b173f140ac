//! What a buffer asks of a drive with zones, and who does it.
//!
//! A buffer says what is to be done as [`Action`]s, one at a time, and goes on with what became of each. An [`Executor`] does them:
//! [`Bytes`] on a [`ZonedDevice`], with the data of the commands; another may only let time pass.
//!
//! Invariant: a buffer changes its state only for actions that were done; what failed is as if it was never asked for, but for
//! the zone, which is reported anew.

use std::collections::BTreeMap;
use std::ops::Range;

use skylight_command::{CommandId, Failure, Outcome};
use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors, Time};

use super::format::Header;
use crate::capabilities::zoned::{ZoneDescriptor, ZoneLayout};

/// A drive with zones, as a host sees it. Extents lie in one zone; commands may be as long as a zone.
pub trait ZonedDevice {
    /// Its zones.
    fn layout(&self) -> ZoneLayout;

    /// Reads sectors; the buffer is as long as they are.
    ///
    /// # Errors
    /// When the drive refuses to, or cannot.
    fn read(&mut self, extent: LbaExtent, buffer: &mut [u8]) -> Result<(), Failure>;

    /// Writes whole sectors from one on. What fails may have been written in part.
    ///
    /// # Errors
    /// When the drive refuses to, or cannot.
    fn write(&mut self, at: Lba, data: &[u8]) -> Result<(), Failure>;

    /// Empties a zone with a write pointer.
    ///
    /// # Errors
    /// When the drive refuses to, or cannot.
    fn reset(&mut self, zone: u32) -> Result<(), Failure>;

    /// Makes durable what was written before, and that zones were emptied.
    ///
    /// # Errors
    /// When the drive cannot: what was written since the last flush may be lost.
    fn flush(&mut self) -> Result<(), Failure>;

    /// Visits zones in order, each with its number.
    ///
    /// # Errors
    /// When the drive refuses to, or cannot.
    fn report(
        &mut self,
        zones: Range<u32>,
        visit: &mut dyn FnMut(u32, ZoneDescriptor),
    ) -> Result<(), Failure>;

    /// The time, if there is a clock: policies learn from what took how long.
    fn now(&self) -> Option<Time> {
        None
    }
}

/// The host's side: the data of its commands, and their answers.
pub trait HostData {
    /// The data of a write.
    fn data(&self, command: CommandId) -> &[u8];

    /// Where the data of a read goes.
    fn buffer(&mut self, command: CommandId) -> &mut [u8];

    /// A command is done, or failed.
    fn complete(&mut self, command: CommandId, outcome: Outcome);
}

/// A part of the data of a host's write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPart {
    /// The command.
    pub command: CommandId,
    /// Where in its data the part begins.
    pub offset: Sectors,
    /// Sectors.
    pub len: Sectors,
}

/// The data of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// The host's.
    Host(Vec<HostPart>),
    /// A header of the log and the host's data that it announces.
    Entry(Header, Vec<HostPart>),
    /// A part of a home zone.
    Merged {
        /// What it begins with, sectors of the drive; behind them it is zeros.
        native: LbaExtent,
        /// What was gathered, over that: where in the part, and the sectors of the drive that were gathered.
        pieces: Vec<(Sectors, LbaExtent)>,
    },
    /// These bytes, whole sectors.
    Bytes(Vec<u8>),
}

/// What a buffer asks for. Extents are sectors of the drive, offsets those of a command's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads for the host.
    Read {
        /// The command.
        command: CommandId,
        /// What is read.
        from: LbaExtent,
        /// What of it the host gets: where in the command's data, and the sectors of the drive.
        keep: Vec<(Sectors, LbaExtent)>,
    },
    /// What the host reads is zeros.
    Zeros {
        /// The command.
        command: CommandId,
        /// Where in its data.
        offset: Sectors,
        /// Sectors.
        len: Sectors,
    },
    /// Reads, and keeps parts in memory for [`Data::Merged`].
    Gather {
        /// What is read.
        from: LbaExtent,
        /// What of it is kept.
        keep: Vec<LbaExtent>,
    },
    /// What was gathered is of no use any more.
    Forget,
    /// Writes.
    Write {
        /// Where.
        extent: LbaExtent,
        /// What.
        data: Data,
    },
    /// Empties a zone.
    Reset {
        /// Its number.
        zone: u32,
    },
    /// Makes all before it durable.
    Flush,
}

/// Does what a buffer asks for.
pub trait Executor {
    /// Does an action.
    ///
    /// # Errors
    /// As the drive's.
    fn execute(&mut self, action: &Action) -> Result<(), Failure>;

    /// As [`ZonedDevice::report`].
    ///
    /// # Errors
    /// As the drive's.
    fn report(
        &mut self,
        zones: Range<u32>,
        visit: &mut dyn FnMut(u32, ZoneDescriptor),
    ) -> Result<(), Failure>;

    /// As [`HostData::complete`].
    fn complete(&mut self, command: CommandId, outcome: Outcome);

    /// As [`ZonedDevice::now`].
    fn now(&self) -> Option<Time>;
}

/// Does actions on a drive, with bytes. It has what was gathered, so one lives as long as its buffer.
pub struct Bytes<D, H> {
    /// The drive.
    pub device: D,
    /// The host.
    pub host: H,
    gathered: BTreeMap<Lba, Vec<u8>>,
    scratch: Vec<u8>,
}

/// The bytes of some sectors of longer data.
fn range(offset: Sectors, len: Sectors) -> Range<usize> {
    offset.bytes() as usize..(offset + len).bytes() as usize
}

impl<D: ZonedDevice, H: HostData> Bytes<D, H> {
    /// Nothing is gathered.
    pub fn new(device: D, host: H) -> Self {
        Self { device, host, gathered: BTreeMap::new(), scratch: Vec::new() }
    }

    fn append(scratch: &mut Vec<u8>, host: &H, parts: &[HostPart]) {
        for part in parts {
            scratch.extend_from_slice(&host.data(part.command)[range(part.offset, part.len)]);
        }
    }

    fn write(&mut self, extent: LbaExtent, data: &Data) -> Result<(), Failure> {
        let Self { device, host, gathered, scratch } = self;
        scratch.clear();
        match data {
            Data::Bytes(bytes) => return device.write(extent.start, bytes),
            Data::Host(parts) => match parts[..] {
                [part] => {
                    let data = &host.data(part.command)[range(part.offset, part.len)];
                    return device.write(extent.start, data);
                }
                _ => Self::append(scratch, host, parts),
            },
            Data::Entry(header, parts) => {
                scratch.resize(SECTOR_BYTES as usize, 0);
                Self::append(scratch, host, parts);
                let crc = crc32c::crc32c(&scratch[SECTOR_BYTES as usize..]);
                // A record has no data, and 0 for its checksum, which is that of nothing.
                scratch[..SECTOR_BYTES as usize].copy_from_slice(&header.encode(crc));
            }
            Data::Merged { native, pieces } => {
                scratch.resize(extent.len.bytes() as usize, 0);
                if !native.is_empty() {
                    device.read(*native, &mut scratch[range(Sectors(0), native.len)])?;
                }
                for &(offset, piece) in pieces {
                    let found = gathered.range(..=piece.start).next_back();
                    let kept =
                        found.and_then(|(&start, bytes)| bytes.get(range(piece.start - start, piece.len)));
                    // A piece that was never gathered would be a fault of the buffer: no data is better than wrong data.
                    scratch[range(offset, piece.len)].copy_from_slice(kept.ok_or(Failure::InvalidField)?);
                }
            }
        }
        device.write(extent.start, scratch)
    }

    fn read(
        &mut self,
        command: CommandId,
        from: LbaExtent,
        keep: &[(Sectors, LbaExtent)],
    ) -> Result<(), Failure> {
        let buffer = self.host.buffer(command);
        if let [(offset, kept)] = *keep
            && kept == from
        {
            return self.device.read(from, &mut buffer[range(offset, from.len)]);
        }
        self.scratch.resize(from.len.bytes() as usize, 0);
        self.device.read(from, &mut self.scratch)?;
        for &(offset, kept) in keep {
            buffer[range(offset, kept.len)]
                .copy_from_slice(&self.scratch[range(kept.start - from.start, kept.len)]);
        }
        Ok(())
    }

    fn gather(&mut self, from: LbaExtent, keep: &[LbaExtent]) -> Result<(), Failure> {
        self.scratch.resize(from.len.bytes() as usize, 0);
        self.device.read(from, &mut self.scratch)?;
        for kept in keep {
            let bytes = self.scratch[range(kept.start - from.start, kept.len)].to_vec();
            self.gathered.insert(kept.start, bytes);
        }
        Ok(())
    }
}

impl<D: ZonedDevice, H: HostData> Executor for Bytes<D, H> {
    fn execute(&mut self, action: &Action) -> Result<(), Failure> {
        match action {
            Action::Read { command, from, keep } => self.read(*command, *from, keep),
            Action::Zeros { command, offset, len } => {
                self.host.buffer(*command)[range(*offset, *len)].fill(0);
                Ok(())
            }
            Action::Gather { from, keep } => self.gather(*from, keep),
            Action::Forget => {
                self.gathered.clear();
                Ok(())
            }
            Action::Write { extent, data } => self.write(*extent, data),
            Action::Reset { zone } => self.device.reset(*zone),
            Action::Flush => self.device.flush(),
        }
    }

    fn report(
        &mut self,
        zones: Range<u32>,
        visit: &mut dyn FnMut(u32, ZoneDescriptor),
    ) -> Result<(), Failure> {
        self.device.report(zones, visit)
    }

    fn complete(&mut self, command: CommandId, outcome: Outcome) {
        self.host.complete(command, outcome);
    }

    fn now(&self) -> Option<Time> {
        self.device.now()
    }
}
