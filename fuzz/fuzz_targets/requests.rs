//! Any bytes as requests, behind a handshake that went well. The first byte says how many come at once, and whether
//! replies are structured.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skylight_fuzz::say;
use skylight_fuzz::encode::option_bytes;
use skylight_serve::nbd::wire::option;

fuzz_target!(|data: &[u8]| {
    let Some((&how, requests)) = data.split_first() else {
        return;
    };
    let mut said = 3u32.to_be_bytes().to_vec();
    if how & 1 != 0 {
        let context = b"base:allocation";
        let query =
            [&[0; 4][..], &1u32.to_be_bytes(), &(context.len() as u32).to_be_bytes(), context].concat();
        said.extend(option_bytes(option::STRUCTURED_REPLY, &[]));
        said.extend(option_bytes(option::SET_META_CONTEXT, &query));
    }
    said.extend(option_bytes(option::GO, &[0; 6]));
    said.extend(requests);
    say(&said, usize::from(how >> 1) * 97 + 1);
});
