//! A served drive with zones as the host buffer sees it.
//!
//! A long command is split, as a host splits what its drive cannot take at once, and its parts are outstanding together.
//!
//! Invariants: a call returns when the drive has answered all of its commands; parts of a write are submitted in order, and none
//! after the answer of one that failed. Those that are outstanding then may be done: what failed may have been written in part.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

use skylight_command::{CommandId, Failure};
use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors, Time};
use skylight_layer::capabilities::zoned::{ZoneDescriptor, ZoneLayout};
use skylight_layer::hbuffer::device::ZonedDevice;

use crate::core::{Backend, Command, Completion, Job, Op, ZoneAction};

/// The longest command, 1 MiB: as the longest piece of a client's command.
const COMMAND_MAX: Sectors = Sectors(2048);
/// The most commands outstanding. Chosen: enough for sequential commands to follow each other without a gap.
const COMMANDS_OUTSTANDING: usize = 8;
/// The most zones of one report. Chosen: half a MiB of descriptors.
const REPORT_ZONES: u32 = 8192;

/// See the module page.
pub(super) struct ServedZones {
    backend: Arc<dyn Backend>,
    layout: ZoneLayout,
    began: Instant,
}

/// The parts of an extent, each as long as a command may be.
fn parts(extent: LbaExtent) -> impl Iterator<Item = LbaExtent> {
    let starts = (0..extent.len.get()).step_by(COMMAND_MAX.get() as usize).map(Sectors);
    starts.map(move |at| LbaExtent::new(extent.start + at, COMMAND_MAX.min(extent.len - at)))
}

impl ServedZones {
    /// The zones of a drive; `None` if it has none.
    ///
    /// # Errors
    /// When the drive has failed.
    pub fn of(backend: Arc<dyn Backend>) -> Result<Option<Self>, Failure> {
        let page = backend.zones(0, 0)?;
        Ok(page.map(|page| Self { backend, layout: page.layout, began: Instant::now() }))
    }

    /// Executes commands, some of them at a time. `take` gets the number of each and its completion.
    fn run(
        &self,
        commands: impl Iterator<Item = (Command, Vec<u8>)>,
        mut take: impl FnMut(usize, Completion),
    ) -> Result<(), Failure> {
        let (sender, receiver) = channel();
        let (mut outstanding, mut result) = (0, Ok(()));
        let mut commands = commands.enumerate();
        loop {
            while outstanding < COMMANDS_OUTSTANDING
                && result.is_ok()
                && let Some((index, (command, data))) = commands.next()
            {
                let sender = sender.clone();
                let answer = move |completion| {
                    // It is received below.
                    let _ = sender.send((index, completion));
                };
                outstanding += 1;
                self.backend.submit(Job::new(command, data, Box::new(answer)));
            }
            if outstanding == 0 {
                return result;
            }
            // A job completes, come what may.
            let (index, completion) = receiver.recv().map_err(|_| Failure::Aborted)?;
            outstanding -= 1;
            result = result.and(completion.outcome.status());
            take(index, completion);
        }
    }

    fn run_one(&self, op: Op, extent: LbaExtent) -> Result<(), Failure> {
        let command = Command::new(CommandId(0), op, extent);
        self.run(std::iter::once((command, Vec::new())), |_, _| {})
    }
}

impl ZonedDevice for ServedZones {
    fn layout(&self) -> ZoneLayout {
        self.layout
    }

    fn read(&mut self, extent: LbaExtent, buffer: &mut [u8]) -> Result<(), Failure> {
        let commands = parts(extent)
            .map(|part| (Command::new(CommandId(0), Op::Read, part), vec![0; part.len.bytes() as usize]));
        self.run(commands, |index, Completion { data, .. }| {
            let from = index * COMMAND_MAX.bytes() as usize;
            // A read that failed may have no data.
            if let Some(buffer) = buffer.get_mut(from..from + data.len()) {
                buffer.copy_from_slice(&data);
            }
        })
    }

    fn write(&mut self, at: Lba, data: &[u8]) -> Result<(), Failure> {
        let pieces = data.chunks(COMMAND_MAX.bytes() as usize);
        let extent = LbaExtent::new(at, Sectors(data.len() as u64 / SECTOR_BYTES));
        let commands = parts(extent).zip(pieces);
        let commands =
            commands.map(|(part, data)| (Command::new(CommandId(0), Op::Write, part), data.to_vec()));
        self.run(commands, |_, _| {})
    }

    fn reset(&mut self, zone: u32) -> Result<(), Failure> {
        self.run_one(Op::Zone(ZoneAction::Reset), self.layout.extent_of(zone))
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.run_one(Op::Flush, Command::FLUSH.extent)
    }

    fn report(
        &mut self,
        zones: Range<u32>,
        visit: &mut dyn FnMut(u32, ZoneDescriptor),
    ) -> Result<(), Failure> {
        let mut first = zones.start;
        while first < zones.end {
            let most = REPORT_ZONES.min(zones.end - first);
            let page = self.backend.zones(first, most as usize)?;
            let found = page.map(|page| page.zones).unwrap_or_default();
            if found.is_empty() {
                return Err(Failure::InvalidField);
            }
            for zone in found {
                visit(first, zone);
                first += 1;
            }
        }
        Ok(())
    }

    /// Time since the server began to use the drive.
    fn now(&self) -> Option<Time> {
        Some(Time(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)))
    }
}
