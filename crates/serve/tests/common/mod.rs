//! A raw NBD client and a server on a Unix socket of its own.
//!
//! Invariant: nothing here waits longer than [`TIMEOUT`].
// Each test file uses only some of this.
#![allow(dead_code)]

pub mod encode;
pub mod memory;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use encode::{option_bytes, request_bytes};
use skylight_serve::core::Backend;
use skylight_serve::endpoint::Endpoint;
use skylight_serve::nbd::server::Options;
use skylight_serve::nbd::wire::{self, RawRequest, option, reply};
use skylight_serve::server::Server;

/// Time limit for every operation.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// A server with its socket and directory.
pub struct TestServer {
    pub server: Option<Server>,
    pub path: PathBuf,
    _directory: tempfile::TempDir,
}

impl TestServer {
    pub fn new(backend: Arc<dyn Backend>, options: Options) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("s");
        let mut server = Server::new(backend);
        server.open_nbd(&[Endpoint::Unix(path.clone())], options).expect("a server");
        Self { server: Some(server), path, _directory: directory }
    }

    pub fn socket(&self) -> UnixStream {
        let socket = UnixStream::connect(&self.path).expect("it listens");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        socket.set_write_timeout(Some(TIMEOUT)).expect("a timeout");
        socket
    }

    /// A client that has exchanged the greeting.
    pub fn greet(&self, flags: u32) -> Client {
        let mut client = Client { socket: self.socket() };
        let greeting = client.take(18);
        assert_eq!(wire::u64_at(&greeting, 0), Some(wire::MAGIC));
        assert_eq!(wire::u64_at(&greeting, 8), Some(wire::OPTION_MAGIC));
        assert_eq!(wire::u16_at(&greeting, 16), Some(3), "fixed newstyle, no zeroes");
        client.send(&flags.to_be_bytes());
        client
    }

    /// A client in its transmission phase.
    pub fn client(&self, structured: bool, contexts: &[&str]) -> Client {
        let mut client = self.greet(3);
        if structured {
            client.send(&option_bytes(option::STRUCTURED_REPLY, &[]));
            assert_eq!(client.option_reply().0, reply::ACK);
        }
        if !contexts.is_empty() {
            client.send(&option_bytes(option::SET_META_CONTEXT, &context_data("", contexts)));
            let mut found = 0;
            while client.option_reply().0 == reply::META_CONTEXT {
                found += 1;
            }
            assert_eq!(found, contexts.len());
        }
        client.send(&option_bytes(option::GO, &info_data("", &[])));
        while client.option_reply().0 != reply::ACK {}
        client
    }
}

pub fn info_data(name: &str, requested: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((requested.len() as u16).to_be_bytes());
    requested.iter().for_each(|kind| data.extend(kind.to_be_bytes()));
    data
}

pub fn context_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend((query.len() as u32).to_be_bytes());
        data.extend(query.as_bytes());
    }
    data
}

/// A reply in the transmission phase.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    Simple { error: u32, cookie: u64 },
    Chunk { last: bool, kind: u16, cookie: u64, data: Vec<u8> },
}

pub struct Client {
    pub socket: UnixStream,
}

impl Client {
    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("the server reads");
    }

    pub fn take(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.socket.read_exact(&mut bytes).expect("an answer in time");
        bytes
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.socket.read(&mut [0; 1]), Ok(0))
            || self.socket.take_error().is_ok_and(|error| error.is_some())
    }

    /// The kind and data of a reply to an option.
    pub fn option_reply(&mut self) -> (u32, Vec<u8>) {
        let header = self.take(20);
        assert_eq!(wire::u64_at(&header, 0), Some(wire::OPTION_REPLY_MAGIC));
        let len = wire::u32_at(&header, 16).expect("a number") as usize;
        (wire::u32_at(&header, 12).expect("a number"), self.take(len))
    }

    pub fn send_request(&mut self, kind: u16, flags: u16, offset: u64, len: u32, payload: &[u8]) {
        let raw = RawRequest { flags, kind, cookie: offset ^ u64::from(kind) << 56, offset, len };
        self.send(&request_bytes(&raw));
        self.send(payload);
    }

    /// The error of the simple reply that comes next.
    pub fn error(&mut self) -> u32 {
        match self.reply() {
            Reply::Simple { error, .. } => error,
            chunk @ Reply::Chunk { .. } => panic!("{chunk:?}"),
        }
    }

    pub fn reply(&mut self) -> Reply {
        let magic = self.take(4);
        match wire::u32_at(&magic, 0) {
            Some(wire::SIMPLE_REPLY_MAGIC) => {
                let rest = self.take(12);
                Reply::Simple {
                    error: wire::u32_at(&rest, 0).expect("a number"),
                    cookie: wire::u64_at(&rest, 4).expect("a number"),
                }
            }
            Some(wire::CHUNK_MAGIC) => {
                let rest = self.take(16);
                let len = wire::u32_at(&rest, 12).expect("a number") as usize;
                Reply::Chunk {
                    last: wire::u16_at(&rest, 0).expect("a number") & wire::chunk::DONE != 0,
                    kind: wire::u16_at(&rest, 2).expect("a number"),
                    cookie: wire::u64_at(&rest, 4).expect("a number"),
                    data: self.take(len),
                }
            }
            other => panic!("not a reply: {other:?}"),
        }
    }
}
