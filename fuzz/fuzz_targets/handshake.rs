//! Any bytes as an NBD client, from the first word on. The first byte says how many come at once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skylight_fuzz::say;

fuzz_target!(|data: &[u8]| {
    if let Some((&how, said)) = data.split_first() {
        say(said, usize::from(how) * 97 + 1);
    }
});
