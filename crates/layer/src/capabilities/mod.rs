//! What only some drives can do, a trait each, so that nobody else has to know which layer a drive has.
//!
//! * [`overwriting`]: writes destroy sectors of other tracks, which the host may ask about.
//! * [`zoned`]: zones with write pointers, which the host opens, closes, finishes and resets.
//!
//! A layer offers a capability by a method of [`Layer`](crate::Layer) that returns it, such as
//! [`Layer::overwriting`](crate::Layer::overwriting), and that returns none for all other layers. A further capability
//! is a file here and one such method. Drive, image and server ask for the capability and never for the layer.
//!
//! Invariant: what a capability knows is kept by the layer alone. What has to survive a restart goes to an image and comes
//! back through the same trait.

pub mod overwriting;
pub mod zoned;
