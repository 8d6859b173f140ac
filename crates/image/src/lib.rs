//! Drives that keep their data: a plan interpreter with bytes, over a file or a block device.
//!
//! The clock gives the steps of a layer's plans a duration; here they get their bytes, and what the drive
//! writes beside the data is enough to find everything again after a power cut.
//!
//! * [`image`]: one drive: layer, store and interpreter; what a server talks to. `creation`: how it is made and opened.
//! * [`interpreter`]: a plan's bytes, and when they are durable; `in_place_image`, `planned_image`: where they lie.
//! * [`store`]: what lies underneath: sparse files and block devices.
//! * [`mod@format`]: the bytes beside the data; `log`, `checkpoints`, `protected_ranges`, `cleaning_buffers`: how they are written;
//!   `structure_reader`, `replay`, `recovery`: how they are read.
//! * `store_errors`: what happens where the file system is full, or fails.
//! * `checksum_errors`: sectors that are known not to be what was written.
//! * `image_files`: files and devices, and what is asked of them before anything is written.
//! * [`overwrite_records`]: what is kept of a drive whose writes overwrite others, beside its data.
//!   `zone_logging`, `zone_records`: of one with zones.
//! * [`scrub`]: reads all data of an image that has checksums.
//! * [`offline_tools`]: looking at an image, checking it, making it small.
//! * [`error`]: what can go wrong, one line each.
//!
//! Invariants: nothing acknowledged as durable is ever lost; a sector reads as one of the values that were
//! written to it, whole; nothing that a recovery may need is written over before a sync has made its successor
//! durable. The formats are in `docs/formats.md`.

#[cfg(feature = "planted")]
#[path = "../tests/common/audit.rs"]
mod audit;
mod checkpoints;
mod checksum_errors;
mod cleaning_buffers;
mod creation;
pub mod error;
mod flush;
pub mod format;
mod host_write_data;
pub mod image;
mod image_files;
mod in_place_image;
pub mod interpreter;
mod log;
mod mismatch;
mod non_native_locations;
pub mod offline_tools;
mod options;
pub mod overwrite_records;
mod planned_image;
#[doc(hidden)]
pub mod planted_bugs;
mod protected_ranges;
pub mod reader;
mod recovery;
mod replay;
pub mod scrub;
pub mod store;
mod store_errors;
mod structure_reader;
mod zone_logging;
mod zone_records;

pub use error::ImageError;
pub use flush::PendingSync;
pub use image::{Image, Status, Write};
pub use in_place_image::Place;
pub use interpreter::{HostWrite, Interpreter};
pub use options::Options;
pub use reader::{Reader, Route};
pub use recovery::Recovery;
pub use store::Store;
