//! What a drive does for zones: a write that the volatile cache accepts is admitted by the layer, and a batch keeps what
//! became of its commands beside their times.

use skylight_command::{Command, Failure, Op};
use skylight_layer::{Layer, ZoneLayout};

use super::Drive;
use crate::host::{BatchResult, Host};

/// The zones of a layer that has them.
pub(super) fn of(layer: &mut dyn Layer) -> Option<ZoneLayout> {
    layer.zoned().map(|zoned| *zoned.layout())
}

impl Drive {
    /// The commands of the last batch that failed or were appends, in the order of the batch.
    pub fn results(&self) -> &[BatchResult] {
        &self.results
    }

    /// Keeps the results of a batch that is done; returns the number of its commands that ran.
    pub(super) fn finish(&mut self, host: Host<'_>) -> usize {
        let (submitted, results) = host.finish();
        self.results = results;
        submitted
    }

    /// Has the layer take on a write that the volatile cache accepts.
    ///
    /// # Errors
    /// Why a drive with zones refuses it.
    #[inline]
    pub(super) fn admit(&mut self, command: &Command) -> Result<(), Failure> {
        match self.layer.zoned() {
            Some(zoned) if command.op == Op::Write => zoned.admit(command),
            _ => Ok(()),
        }
    }
}
