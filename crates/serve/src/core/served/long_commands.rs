//! Trims and zeroes of many MiB: done in pieces of about [`PIECE_TIME`].
//!
//! Between two pieces other commands have their turn, and the command ends early when its client is gone or the server
//! ends. Long commands take turns with each other, one piece each, and rest while short ones come.

use std::time::{Duration, Instant};

use skylight_image::Write;

use super::access::Access;
use crate::core::{Command, Errno, Op};

/// Trims and zeroes from this length on are done in pieces, bytes.
const LONG_LEAST: u64 = 256 << 10;
/// The first piece of them, and the smallest and largest ones, bytes.
const PIECES: [u64; 3] = [256 << 10, 64 << 10, 1 << 30];
/// The largest piece where zeroes are written, bytes.
const ZEROES: u64 = 1 << 20;
/// How long a piece should take: about what a short command does, which may have to wait for it.
const PIECE_TIME: Duration = Duration::from_micros(200);
/// How long a long command rests between two pieces while short ones come: as a multiple of the piece, and at most.
const REST: (u32, Duration) = (2, Duration::from_millis(10));

impl Access {
    /// A trim or zeroes, in pieces if it is long.
    pub(super) fn execute_long(&self, command: &Command, goes_on: &dyn Fn() -> bool) -> Result<(), Errno> {
        let (mut at, len, no_hole) = (command.offset_bytes(), command.len_bytes(), command.flags.no_hole);
        let end = at + len;
        let [first, least, largest] = PIECES;
        let (mut piece, most) = (first, if no_hole { ZEROES } else { largest });
        let zeroes = if no_hole { vec![0; len.min(most) as usize] } else { Vec::new() };
        let mut due = command.flags.fua;
        while at < end {
            let here = if len < LONG_LEAST { len } else { end.min((at / piece + 1) * piece) - at };
            let turn = (len >= LONG_LEAST).then(|| self.long_lock.take());
            if !goes_on() {
                return Err(Errno::Shutdown);
            }
            if turn.is_some() {
                self.activity.long_came();
            } else {
                self.activity.short_came();
            }
            let began = Instant::now();
            due |= self.refusable(|image| match command.op {
                Op::Trim => image.trim(at, here).map(|()| false),
                _ if no_hole => {
                    let data = &zeroes[..here as usize];
                    image.take_writes(&[Write { offset: at, data, fua: false }])
                }
                _ => image.take_zeroes(at, here),
            })?;
            at += here;
            if turn.is_some() {
                let took = began.elapsed();
                piece = match took {
                    short if short < PIECE_TIME / 2 => (piece * 2).min(most),
                    long if long > PIECE_TIME * 2 => (piece / 2).max(least),
                    _ => piece,
                };
                self.rest(took);
            }
        }
        if due { self.flush() } else { Ok(()) }
    }

    /// Lets short commands go first, if any come.
    fn rest(&self, took: Duration) {
        if self.activity.has_short() {
            std::thread::sleep((took * REST.0).min(REST.1));
        }
    }
}
