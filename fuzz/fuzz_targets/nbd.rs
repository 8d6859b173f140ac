//! Any bytes as an NBD client: once from the first word, once behind a handshake that went well.
//!
//! `cargo +nightly fuzz run nbd -- -max_total_time=3600`. What must hold is that nothing panics and nothing hangs;
//! that what comes back is the protocol is checked by crates/serve/tests/fuzz.rs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skylight_serve::backend::Shape;
use skylight_serve::nbd::replay::replay;
use skylight_serve::nbd::wire::{option, option_bytes};
use skylight_serve::plain::Memory;

/// Small enough to be made anew for every client.
const SIZE: u64 = 256 << 10;

fuzz_target!(|data: &[u8]| {
    let Some((&how, said)) = data.split_first() else {
        return;
    };
    let disk = Memory::shaped(Shape { places: true, ..Shape::drive("disk", SIZE) });
    let part = usize::from(how >> 2) * 97 + 1;
    let mut words = 3u32.to_be_bytes().to_vec();
    if how & 2 != 0 {
        words.extend(option_bytes(option::STRUCTURED_REPLY, &[]));
    }
    words.extend(option_bytes(option::GO, &[0; 6]));
    let said = if how & 1 != 0 { [words, said.to_vec()].concat() } else { said.to_vec() };
    replay(&said, part, &disk);
});
