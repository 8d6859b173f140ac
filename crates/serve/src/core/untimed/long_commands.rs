//! Long trims and write-zeroes commands, executed in pieces of about [`PIECE_TIME`].
//!
//! Other commands execute between two pieces, and a long command stops early when its client disconnects or
//! the server shuts down. Long commands take turns, one piece each, and pause while short commands arrive.

use std::time::{Duration, Instant};

use skylight_image::Write;

use super::image_locking::Access;
use crate::core::{Command, Failure, Op};

/// Minimum length of a command that is executed in pieces, bytes.
const MIN_LONG_BYTES: u64 = 256 << 10;
/// Initial, smallest and largest piece, bytes.
const PIECE_BYTES: [u64; 3] = [256 << 10, 64 << 10, 1 << 30];
/// Largest piece where zeroes are written, bytes.
const MAX_ZEROES_PIECE_BYTES: u64 = 1 << 20;
/// Target time of a piece: about that of a short command, which may have to wait for it.
const PIECE_TIME: Duration = Duration::from_micros(200);
/// Pause of a long command between two pieces while short commands arrive: a multiple of the last piece, and
/// an upper bound.
const PAUSE: (u32, Duration) = (2, Duration::from_millis(10));

impl Access {
    /// Executes a trim or write-zeroes command, in pieces if it is long.
    pub(super) fn execute_long(
        &self,
        command: &Command,
        keep_going: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        let (mut at, len, no_hole) = (command.offset_bytes(), command.len_bytes(), command.flags.no_hole);
        let end = at + len;
        let [first, min, largest] = PIECE_BYTES;
        let (mut piece, max) = (first, if no_hole { MAX_ZEROES_PIECE_BYTES } else { largest });
        let zeroes = if no_hole { vec![0; len.min(max) as usize] } else { Vec::new() };
        let mut must_flush = command.flags.fua;
        while at < end {
            let piece_len = if len < MIN_LONG_BYTES { len } else { end.min((at / piece + 1) * piece) - at };
            let turn = (len >= MIN_LONG_BYTES).then(|| self.long_lock.lock());
            if !keep_going() {
                return Err(Failure::Aborted);
            }
            if turn.is_some() {
                self.activity.note_long_piece();
            } else {
                self.activity.note_short_command();
            }
            let began = Instant::now();
            must_flush |= self.write_unless_full(|image| match command.op {
                Op::Trim => image.trim(at, piece_len).map(|()| false),
                _ if no_hole => {
                    let data = &zeroes[..piece_len as usize];
                    image.take_writes(&[Write { offset: at, data, fua: false }])
                }
                _ => image.take_zeroes(at, piece_len),
            })?;
            at += piece_len;
            if turn.is_some() {
                let elapsed = began.elapsed();
                piece = match elapsed {
                    short if short < PIECE_TIME / 2 => (piece * 2).min(max),
                    long if long > PIECE_TIME * 2 => (piece / 2).max(min),
                    _ => piece,
                };
                self.pause(elapsed);
            }
        }
        if must_flush { self.flush() } else { Ok(()) }
    }

    /// Pauses if short commands are arriving, so that they go first.
    fn pause(&self, elapsed: Duration) {
        if self.activity.has_recent_short_command() {
            std::thread::sleep((elapsed * PAUSE.0).min(PAUSE.1));
        }
    }
}
