//! A served drive whose sectors can be overwritten: its read mode, its status, and the line for each read that was refused.
//!
//! Invariant: a read that was refused has a line that names its sectors, the write that destroyed them and when.
//! Source: Pitchumani, "Shingled Write Disk Emulator" (UCSC-SSRC-12-05), section 3.2.3 (read modes) and its
//! conclusion (upper layers ask for the geometry).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use skylight_disk::{Lba, LbaExtent, Pba, SECTOR_BYTES, Sectors};
use skylight_layer::Overwriting;
use skylight_layer::capabilities::overwriting::{Loss, SectorState};

use super::read_mode_name::ReadModeName;
use super::{BlockState, Extent, Setting, push_extent};
use crate::diagnostics::{self, Lines, Writer};

/// How long the last lines may take at the end: a file that takes none must not keep the server.
const LINES_TIME: Duration = Duration::from_millis(500);

#[derive(Default)]
struct Refusals {
    file: Option<Lines>,
    refused_reads: u64,
    last: Option<String>,
}

/// See the module page.
pub struct Shingles {
    /// What does not change, for the status.
    facts: Value,
    refusals: Mutex<Refusals>,
}

impl Shingles {
    /// Of a disk.
    pub fn of(disk: &dyn Overwriting) -> Self {
        let geometry = disk.geometry();
        let last = Pba(geometry.capacity().get().saturating_sub(1));
        let outer = geometry.track_of(Pba(0)).sectors_per_track;
        let facts = json!({
            "width_tracks": disk.shingling().width_tracks(),
            "tracks": geometry.tracks(),
            "surfaces": geometry.surfaces(),
            "sectors_per_track_first": outer,
            "sectors_per_track_last": geometry.track_of(last).sectors_per_track,
            "bands": disk.bands().map(|bands| bands.count()),
        });
        Self { facts, refusals: Mutex::default() }
    }

    // The list is whole between any two statements that can panic.
    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lines go there too.
    pub fn tell_also(&self, sink: Writer) {
        self.refusals().file = Some(Lines::to(sink));
    }

    /// At the end: the lines about refused reads reach the file, unless that takes longer than `LINES_TIME`.
    pub fn drain(&self) {
        if let Some(file) = &self.refusals().file {
            file.drain(LINES_TIME);
        }
    }

    /// Says why a read was refused. It waits for nobody, for who calls it may hold a drive.
    pub fn tell(&self, losses: &[Loss]) {
        let mut refusals = self.refusals();
        refusals.refused_reads += 1;
        for loss in losses {
            let line = line_of(loss);
            diagnostics::log(line.clone());
            if let Some(file) = &refusals.file {
                file.push(line.clone());
            }
            refusals.last = Some(line);
        }
    }

    /// Changes what reads give.
    ///
    /// # Errors
    /// One line, when the setting is none of such a drive.
    pub fn set(&self, disk: &mut dyn Overwriting, setting: &Setting) -> Result<String, String> {
        let Setting::ReadMode(mode) = setting else {
            return Err(setting.unavailable());
        };
        disk.set_mode(mode.mode());
        Ok(format!("read mode {}", mode.name()))
    }

    /// All that there is to say, as JSON.
    pub fn status(&self, disk: &mut dyn Overwriting) -> Value {
        let (mode, counters) = (disk.mode(), disk.counters());
        let refusals = self.refusals();
        let mut status = self.facts.clone();
        let changing = [
            ("read_mode", json!(ReadModeName::of(mode).name())),
            ("overwritten_sectors", json!(counters.overwritten_sectors)),
            ("overwritten_fragments", json!(counters.fragments)),
            ("writes", json!(counters.writes)),
            ("overwriting_writes", json!(counters.overwriting_writes)),
            ("overwritten_reads", json!(counters.overwritten_reads)),
            ("overwritten_sectors_read", json!(counters.overwritten_sectors_read)),
            ("refused_reads", json!(refusals.refused_reads)),
            ("last_refused", json!(refusals.last)),
        ];
        if let Some(map) = status.as_object_mut() {
            map.extend(changing.map(|(key, value)| (key.to_owned(), value)));
        }
        status
    }
}

/// The line of a refused read for one of the writes that had a part in it.
pub fn line_of(loss: &Loss) -> String {
    let Loss { lba, source, by } = loss;
    let at = humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_nanos(by.at.get()));
    format!(
        "read error: sectors {} to {} were overwritten by write {} at {at}, which wrote sector {source} of the \
         medium; write them anew",
        lba.start,
        lba.end().get() - 1,
        by.write,
    )
}

fn extent_of(offset: u64, len: u64) -> LbaExtent {
    LbaExtent::new(Lba(offset / SECTOR_BYTES), Sectors(len / SECTOR_BYTES))
}

/// Which writes destroyed what of a range; nothing of a drive whose writes overwrite no others.
pub fn losses(disk: Option<&mut dyn Overwriting>, offset: u64, len: u64) -> Vec<Loss> {
    disk.map(|disk| disk.losses(extent_of(offset, len))).unwrap_or_default()
}

/// Runs of blocks of a range for [`super::StatusQuery::Overwritten`].
pub fn push_overwritten(
    disk: Option<&mut dyn Overwriting>,
    (offset, len): (u64, u64),
    extents: &mut Vec<Extent>,
) {
    let Some(disk) = disk else { return push_extent(extents, len, BlockState::Ordinary) };
    disk.visit_state(extent_of(offset, len), &mut |part, state| {
        let state = match state {
            SectorState::Native => BlockState::Ordinary,
            SectorState::Overwritten { .. } => BlockState::Overwritten,
        };
        push_extent(extents, part.len.bytes(), state);
    });
}

#[cfg(test)]
mod tests {
    use skylight_disk::Time;
    use skylight_layer::capabilities::overwriting::Stamp;

    use super::*;

    #[test]
    fn the_line_names_the_write_and_when() {
        let by = Stamp { write: 17, at: Time(1_793_283_005_123_000_000) };
        let lba = LbaExtent::new(Lba(1000), Sectors(8));
        let line = line_of(&Loss { lba, source: Pba(512), by });
        let said = "sectors 1000 to 1007 were overwritten by write 17 at 2026-10-29T14:10:05.123Z, which wrote sector 512";
        assert!(line.contains(said), "{line}");
    }
}
