//! The right bytes, in every timing mode: every layer x {none, model, native} x {write cache on, off} x {checksums or
//! none}, against a shadow that knows nothing of how a drive works; live, after a power cut at every effect on the medium,
//! and while there is no space on it.
//!
//! `SKYLIGHT_SERVED_OPERATIONS` is how many commands there are in all (400,000 if it is not set), `SKYLIGHT_SERVED_CUTS`
//! how many power cuts (6,000), `PROPTEST_RNG_SEED` the seed (1).

/// A test of each timing mode.
macro_rules! in_every_timing {
    ($lives:ident) => {
        #[test]
        fn as_fast_as_it_goes() {
            $lives($crate::Timing::None);
        }

        #[test]
        fn in_model_time() {
            $lives($crate::Timing::Model);
        }

        #[test]
        fn over_a_disk_that_sets_the_time() {
            $lives($crate::Timing::Native);
        }
    };
}

mod append;
#[path = "../../../image/tests/common/mod.rs"]
mod common;
mod cuts;
#[path = "../../../image/tests/power_cuts/drives.rs"]
mod drives;
mod host;
#[path = "../../../image/tests/media/mod.rs"]
mod media;
mod out_of_space;
mod planted_bugs;
mod raw;
mod shadow;
mod stopped;
#[path = "../../../layer/tests/raw_shingled/oracle.rs"]
#[expect(dead_code, reason = "the layer's own tests use the rest")]
mod surface;
mod targets;
mod without_power_cuts;
mod zones;

/// The three timing modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timing {
    None,
    Model,
    Native,
}
