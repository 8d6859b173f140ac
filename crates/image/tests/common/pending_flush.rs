//! A flush beside other commands, in three steps of a session: it begins, the medium is synced, it ends.

use skylight_image::{Image, ImageError, PendingSync};

/// How far the flush is.
#[derive(Default)]
pub enum PendingFlush {
    #[default]
    None,
    /// The medium is not synced.
    Begun(PendingSync),
    /// It is.
    Synced(PendingSync),
    /// Nothing is left to be done.
    Done,
}

impl PendingFlush {
    /// Begins; returns whether anything is left to be synced.
    pub fn begin(&mut self, image: &mut Image) -> Result<bool, ImageError> {
        let sync = image.begin_flush()?;
        let beside = sync.is_some();
        *self = sync.map_or(Self::Done, Self::Begun);
        Ok(beside)
    }

    /// Syncs the medium, if the flush has begun.
    pub fn sync(&mut self) -> Result<(), String> {
        if let Self::Begun(sync) = std::mem::take(self) {
            sync.sync().map_err(|error| error.to_string())?;
            *self = Self::Synced(sync);
        }
        Ok(())
    }

    /// Ends: what was synced counts. A second sync that it needs comes at once.
    pub fn end(&mut self, image: &mut Image) -> Result<(), ImageError> {
        let Self::Synced(mut sync) = std::mem::take(self) else {
            return Ok(());
        };
        let mut synced = Ok(());
        while let Some(next) = image.finish_sync(&sync, synced)? {
            synced = next.sync();
            sync = next;
        }
        Ok(())
    }
}
