//! The little of a client that `skylight status` and `skylight control` need: asks a server for the description of an export.
//!
//! Source: the NBD protocol, `NBD_OPT_INFO`.

use std::io;
use std::time::Duration;

use crate::endpoint::{Endpoint, Socket};
use crate::nbd::channel::Input;
use crate::nbd::handshake::{SET_EXPORT, STATUS_EXPORT};
use crate::nbd::wire::{self, handshake_flag, info, option, reply};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest reply that is taken.
const MOST_BYTES: usize = 64 << 10;

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// The status of the server at a place, as JSON.
///
/// # Errors
/// When there is none, or it is another one's.
pub fn status(endpoint: &Endpoint) -> io::Result<String> {
    describe(endpoint, STATUS_EXPORT)
}

/// Changes a setting of what the server at a place serves; what it is then, in words.
///
/// # Errors
/// When there is none, it is another one's, or it knows no such setting; then the error is what it says.
pub fn control(endpoint: &Endpoint, key: &str, value: &str) -> io::Result<String> {
    describe(endpoint, &format!("{SET_EXPORT}{key}={value}"))
}

/// The description of an export.
fn describe(endpoint: &Endpoint, export: &str) -> io::Result<String> {
    let socket = endpoint.connect()?;
    match &socket {
        Socket::Unix(stream) => stream.set_read_timeout(Some(PATIENCE))?,
        Socket::Tcp(stream) => stream.set_read_timeout(Some(PATIENCE))?,
    }
    let channel = socket.channel()?;
    let mut input = Input::new(4096);
    let greeting = input.need(channel.as_ref(), 18)?.ok_or_else(|| wrong("no NBD server"))?;
    if (wire::u64_at(greeting, 0), wire::u64_at(greeting, 8)) != (Some(wire::MAGIC), Some(wire::OPTION_MAGIC))
    {
        return Err(wrong("no NBD server"));
    }
    input.consume(18);
    let mut data = (export.len() as u32).to_be_bytes().to_vec();
    data.extend(export.as_bytes());
    data.extend(1u16.to_be_bytes());
    data.extend(info::DESCRIPTION.to_be_bytes());
    let mut words = (handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES).to_be_bytes().to_vec();
    words.extend(wire::option_bytes(option::INFO, &data));
    words.extend(wire::option_bytes(option::ABORT, &[]));
    channel.send(&words)?;
    loop {
        let header = input.need(channel.as_ref(), 20)?.ok_or_else(|| wrong("the server went"))?;
        let (kind, len) = (wire::u32_at(header, 12), wire::u32_at(header, 16));
        let (Some(kind), Some(len)) = (kind, len.map(|len| len as usize).filter(|&len| len <= MOST_BYTES))
        else {
            return Err(wrong("no reply to an option"));
        };
        input.consume(20);
        let data = input.need(channel.as_ref(), len)?.ok_or_else(|| wrong("the server went"))?;
        if kind == reply::INFO && wire::u16_at(data, 0) == Some(info::DESCRIPTION) {
            return String::from_utf8(data[2..].to_vec()).map_err(|_| wrong("a status that is no text"));
        }
        if kind == reply::ERR_TLS_REQD {
            return Err(wrong("the server answers under TLS only; ask by the path of the image"));
        }
        if kind == reply::ERR_INVALID && !data.is_empty() {
            return Err(wrong(&String::from_utf8_lossy(data)));
        }
        if kind != reply::INFO {
            return Err(wrong("not a server of skylight"));
        }
        input.consume(len);
    }
}
