//! What a client of NBD sends, as bytes.
// Each test file uses only some of this.
#![allow(dead_code)]

use skylight_serve::nbd::wire::{OPTION_MAGIC, REQUEST_BYTES, REQUEST_MAGIC, RawRequest};

/// An option.
pub fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// The header of a request.
pub fn request_bytes(request: &RawRequest) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    bytes[0..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&request.flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&request.kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&request.cookie.to_be_bytes());
    bytes[16..24].copy_from_slice(&request.offset.to_be_bytes());
    bytes[24..28].copy_from_slice(&request.len.to_be_bytes());
    bytes
}
