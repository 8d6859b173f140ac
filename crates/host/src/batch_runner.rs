//! A batch on a target: runs of I/O at a queue depth, and between them zone actions and appends, one at a time.
//!
//! Linux has neither in io_uring for a block device: actions are synchronous calls, and an append exists only
//! inside the kernel. An append is therefore a write at the write pointer that the device reported.
//!
//! Invariants: the whole batch is checked before its first command; a zone action or an append begins when all
//! rows before it have completed, and ends before the next begins; its times are those of the one call, without
//! the report that told an append its place. A zone command that the device refuses for a reason of ZBC-2 is a
//! result, and the batch goes on; any other failure ends it.

use std::collections::BTreeMap;

use skylight_command::code::Code;
use skylight_command::{Failure as Refused, Op, ZoneAction};

use crate::columns::{Columns, Needs};
use crate::device::{Device, now_ns};
use crate::engine::{End, Log};
use crate::error::{Failure, HostError, Reason, RefusalReason};
use crate::zone_failure::ZoneFailure;
use crate::zones::ZoneScope;

/// Asks whether the caller wants to stop.
type Interrupted<'a> = &'a mut dyn FnMut() -> bool;

impl Device {
    /// Runs a batch at a queue depth. Invalid columns are refused before the first I/O; otherwise the log has
    /// every completed row, however the batch ended.
    ///
    /// # Errors
    /// When the columns are invalid, or there is no memory or no io_uring.
    pub fn run(
        &mut self,
        rows: Columns<'_>,
        depth: usize,
        interrupted: Interrupted<'_>,
    ) -> Result<(Log, End), HostError> {
        let refused = |reason: RefusalReason| reason.of(&self.identity().path);
        let checked = rows.check(depth, &self.limits());
        let needs = checked.map_err(|error| refused(RefusalReason::Columns(error)))?;
        if rows.op.iter().any(|&code| leaves_ring(code)) && !self.is_zoned() {
            return Err(refused(RefusalReason::NotZoned).into());
        }
        if !rows.is_empty() {
            self.prepare(&needs)?;
        }
        let mut log = Log::default();
        let mut pointers = Pointers::default();
        let mut end = End::Complete;
        let mut row = 0;
        while row < rows.len() && end == End::Complete {
            let part;
            let code = rows.op[row];
            (part, end) = match code.operation().0 {
                _ if leaves_ring(code) && interrupted() => (Log::default(), End::Interrupted),
                Op::Append => self.append(&mut pointers, rows.part(row, row + 1), &needs, interrupted)?,
                Op::Zone(action) => {
                    pointers.0.clear();
                    self.act(action, rows.offset[row], rows.size[row])?
                }
                _ => {
                    let rest = &rows.op[row..];
                    let count = rest.iter().position(|&code| leaves_ring(code)).unwrap_or(rest.len());
                    pointers.0.clear();
                    self.run_io(rows.part(row, row + count), &needs, depth, interrupted)?
                }
            };
            row += part.submit_ns.len();
            log.extend(part);
        }
        log.extend(Log::pending(rows.len() - log.submit_ns.len()));
        if self.identity().declared.is_host_managed()
            && let End::Failed(Failure { op: Op::Write, reason, .. }) = &mut end
            && let Some(closer) = of_zoned_write(reason)
        {
            *reason = closer;
        }
        Ok((log, end))
    }

    /// One zone action.
    fn act(&self, action: ZoneAction, offset: u64, size: u32) -> Result<(Log, End), HostError> {
        let scope = match size {
            0 => ZoneScope::All,
            _ => ZoneScope::One { start_bytes: offset, size_bytes: u64::from(size) },
        };
        let submit_ns = now_ns();
        let answer = self.zone_action(action, scope);
        let complete_ns = now_ns();
        let refused = match answer {
            Ok(()) => None,
            Err(HostError::Zone(failure)) => match failure.fault.refused() {
                Some(refused) => Some(refused),
                None => return Ok((Log::default(), ended(failure, Op::Zone(action), offset, size))),
            },
            Err(error) => return Err(error),
        };
        let result = refused.map_or(0, |refused| u64::from(refused.code()));
        Ok((Log::one(submit_ns, complete_ns, result), End::Complete))
    }

    /// One append: a write at the write pointer of the zone that begins at its offset.
    fn append(
        &mut self,
        pointers: &mut Pointers,
        row: Columns<'_>,
        needs: &Needs,
        interrupted: Interrupted<'_>,
    ) -> Result<(Log, End), HostError> {
        let (zone, size) = (row.offset[0], row.size[0]);
        let pointer = match pointers.0.get(&zone) {
            Some(&pointer) => pointer,
            None => match self.pointer(zone) {
                Ok(pointer) => pointer,
                Err(HostError::Zone(failure)) => {
                    return Ok((Log::default(), ended(failure, Op::Append, zone, size)));
                }
                Err(error) => return Err(error),
            },
        };
        let at = match pointer.place(size) {
            Ok(at) => at,
            Err(refused) => {
                let now = now_ns();
                return Ok((Log::one(now, now, u64::from(refused.code())), End::Complete));
            }
        };
        let write = Columns { op: &[Code::Write], offset: &[at], size: &[size] };
        let (mut log, end) = self.run_io(write, needs, 1, interrupted)?;
        if end == End::Complete {
            log.results = vec![(0, at)];
            pointers.0.insert(zone, Pointer { at: Some(at + u64::from(size)), ..pointer });
        }
        Ok((log, end))
    }

    /// Where a zone is written next.
    fn pointer(&self, zone_bytes: u64) -> Result<Pointer, HostError> {
        const FULL: u8 = 0xe;
        let zones = self.report_zones(zone_bytes, 1)?;
        let zone = zones.first().filter(|zone| zone.start_bytes == zone_bytes);
        Ok(zone.map_or(Pointer::default(), |zone| Pointer {
            at: zone.write_pointer_bytes.filter(|_| zone.condition != FULL),
            end: zone.start_bytes + zone.capacity_bytes,
        }))
    }
}

/// What a failed write to a host-managed disk may be: Linux has EIO for one that failed, and EREMOTEIO for one that a
/// SCSI disk refused (`blk_errors` in block/blk-core.c), but drivers use the first for a refused place too.
fn of_zoned_write(reason: &Reason) -> Option<Reason> {
    match *reason {
        Reason::Errno(number @ (libc::EIO | libc::EREMOTEIO)) => Some(Reason::ZonedWrite(number)),
        _ => None,
    }
}

/// The end of a batch by a zone command that failed for no reason of ZBC-2.
fn ended(failure: ZoneFailure, op: Op, offset: u64, size: u32) -> End {
    let reason = Reason::Zone(failure.fault);
    End::Failed(Failure { path: failure.path, op, offset, size, lba: None, took_ns: None, reason })
}

/// Whether an operation is no I/O of io_uring.
fn leaves_ring(code: Code) -> bool {
    let (op, _) = code.operation();
    op == Op::Append || op.is_zone_action()
}

/// Write pointers by the first byte of their zones, as long as nothing but appends moves them.
#[derive(Default)]
struct Pointers(BTreeMap<u64, Pointer>);

/// The place of the next append.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pointer {
    /// The write pointer, bytes; `None` where the zone has none: it is conventional, full or worse.
    at: Option<u64>,
    /// Behind the last byte that can be written.
    end: u64,
}

impl Pointer {
    /// Where an append of so many bytes goes.
    fn place(self, size: u32) -> Result<u64, Refused> {
        let at = self.at.ok_or(Refused::InvalidField)?;
        if at + u64::from(size) <= self.end { Ok(at) } else { Err(Refused::WriteBoundary) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_append_goes_to_the_write_pointer_while_it_fits() {
        let pointer = Pointer { at: Some(8192), end: 16_384 };
        assert_eq!(pointer.place(8192), Ok(8192));
        assert_eq!(pointer.place(8704), Err(Refused::WriteBoundary));
        assert_eq!(Pointer::default().place(512), Err(Refused::InvalidField));
    }

    #[test]
    fn a_refused_write_to_a_host_managed_disk_is_told_from_a_full_one() {
        for number in [libc::EIO, libc::EREMOTEIO] {
            assert_eq!(of_zoned_write(&Reason::Errno(number)), Some(Reason::ZonedWrite(number)));
        }
        assert_eq!(of_zoned_write(&Reason::Errno(libc::ENOSPC)), None);
        assert_eq!(of_zoned_write(&Reason::Shrunk(0)), None);
    }

    #[test]
    fn only_actions_and_appends_leave_the_ring() {
        let ops: Vec<Code> = Code::ALL.into_iter().filter(|&code| leaves_ring(code)).collect();
        let expected = [Code::OpenZone, Code::CloseZone, Code::FinishZone, Code::ResetZone, Code::Append];
        assert_eq!(ops, expected);
    }
}
