//! What the tests of the layers have in common.
//!
//! * [`truth`]: for every host sector its last write, for every sector of the media what lies there.
//! * [`host`]: a host with its queue and its habits, from one number.
//! * [`layer_and_shadow`]: a layer and a shadow that follows its plans, command by command.
//! * [`bugs`]: faults planted between the two, which a shadow has to see.
//! * [`plan_builders`]: commands and the steps of a plan, for tests that write them out.
//! * [`operation_count`]: how many random operations a run of the tests makes, and that it made them.
//!
//! Each test binary uses a part of it.
#![allow(dead_code, reason = "each test binary uses a part of what is shared")]

pub mod bugs;
pub mod host;
pub mod layer_and_shadow;
pub mod operation_count;
pub mod plan_builders;
pub mod truth;
