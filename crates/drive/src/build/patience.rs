//! How much a drive cleans while a host waits for one command.

use skylight_disk::{Mechanics, Nanos, Sectors};

use super::geometry::Tracks;
use crate::profile::Profile;

/// How long a host waits for a command. Linux sets a timer of 30 s and tries five times more before it takes a drive offline
/// (`drivers/scsi/sd.h`: `SD_TIMEOUT`, `SD_MAX_RETRIES`), so no firmware may keep a command longer.
const PATIENCE: Nanos = Nanos(180_000_000_000);

/// How many bands a drive cleans while a host waits for a command, going over each `times` times. They lie all over the disk,
/// so they have the tracks of the disk on average.
pub(super) fn within_patience(
    times: u64,
    profile: &Profile,
    mechanics: &Mechanics,
    band: Sectors,
    tracks: &Tracks,
) -> u64 {
    let count: u64 = tracks.runs.iter().map(|run| run.pieces(run.track)).sum();
    let mean = (tracks.sectors / count.max(1)).max(1);
    let step = profile.geometry.track_skew.nanos().max(profile.geometry.head_skew.nanos());
    let track = mechanics.rotation.revolution() + step;
    // Two revolutions to get there, and to wait for the band to begin.
    let once = (band.get().div_ceil(mean) + 2) * track.get();
    (PATIENCE.get() / (times * once)).max(1)
}
