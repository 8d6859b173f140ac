//! Option negotiation (the handshake phase), from the first magic number to a negotiated session.
//!
//! The server has one export, which clients can choose by its name or by the empty name. The description of
//! the export describes the drive and its activity.
//!
//! Invariants: the data of an option is bounded and read completely before it is parsed; starting TLS
//! discards what was negotiated before; when TLS is required, only STARTTLS and ABORT are accepted before it.
//! Source: the NBD protocol, "Newstyle negotiation", "Option types", "TLS support".

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;

use crate::core::{MAX_TRANSFER_BYTES, Shape, StatusQuery};
use crate::nbd::transport::{Channel, Input, Tls};
use crate::nbd::wire::{self, flag, handshake_flag, info, option, reply};
use crate::nbd::{Session, context_id, context_name};

/// Longest option data that is parsed, bytes; longer data is read and rejected.
const MAX_OPTION_BYTES: usize = 16 << 10;
/// Longest string in the protocol, bytes.
const MAX_STRING_BYTES: usize = 4096;

/// Whether clients may or must use TLS.
#[derive(Clone, Default)]
pub enum TlsPolicy {
    /// No TLS.
    #[default]
    Off,
    /// TLS for clients that ask for it.
    Offered(Arc<ServerConfig>),
    /// TLS before any other option.
    Required(Arc<ServerConfig>),
}

/// The export, as one client sees it during the handshake.
pub trait Export: Send + Sync {
    /// Size, block sizes and capabilities.
    fn shape(&self) -> &Shape;
    /// A description of the drive and its activity.
    fn description(&self) -> String;
    /// TLS policy.
    fn tls(&self) -> &TlsPolicy;
    /// Whether to admit the client to the transmission phase.
    fn admit(&self) -> bool {
        true
    }
}

/// The result of a successful negotiation.
pub struct Negotiated {
    /// What was negotiated.
    pub session: Session,
    /// The channel for the transmission phase.
    pub channel: Arc<dyn Channel>,
    /// Bytes already received.
    pub input: Input,
}

/// A protocol violation; the connection is closed.
fn violation(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

struct Negotiation<'a> {
    export: &'a dyn Export,
    channel: Arc<dyn Channel>,
    input: Input,
    session: Session,
    /// The export for which contexts were selected.
    contexts_for: Option<Vec<u8>>,
    no_zeroes: bool,
}

/// What follows an option.
enum Next {
    Continue,
    Transmission,
    Close,
}

/// Negotiates until the client chooses an export; `None` if it disconnects or aborts before.
///
/// # Errors
/// When the connection fails or the client violates the protocol.
pub fn negotiate(channel: Arc<dyn Channel>, export: &dyn Export) -> io::Result<Option<Negotiated>> {
    let input = Input::new(4096);
    let session = Session::default();
    let mut negotiation =
        Negotiation { export, channel, input, session, contexts_for: None, no_zeroes: false };
    if !negotiation.exchange_greeting()? {
        return Ok(None);
    }
    loop {
        match negotiation.option()? {
            Next::Continue => {}
            Next::Close => return Ok(None),
            Next::Transmission => {
                let Negotiation { session, channel, input, .. } = negotiation;
                return Ok(Some(Negotiated { session, channel, input }));
            }
        }
    }
}

impl Negotiation<'_> {
    /// Exchanges the greeting and the client flags; returns false if the client disconnects.
    fn exchange_greeting(&mut self) -> io::Result<bool> {
        let flags = (handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES) as u16;
        let mut greeting = wire::MAGIC.to_be_bytes().to_vec();
        greeting.extend(wire::OPTION_MAGIC.to_be_bytes());
        greeting.extend(flags.to_be_bytes());
        self.channel.send(&greeting)?;
        let Some(flags) =
            self.input.read_at_least(self.channel.as_ref(), 4)?.and_then(|bytes| wire::u32_at(bytes, 0))
        else {
            return Ok(false);
        };
        self.input.consume(4);
        if flags & !(handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES) != 0 {
            return Err(violation("unknown client flags"));
        }
        self.no_zeroes = flags & handshake_flag::NO_ZEROES != 0;
        Ok(true)
    }

    /// Reads and handles one option.
    fn option(&mut self) -> io::Result<Next> {
        let Some(header) = self.input.read_at_least(self.channel.as_ref(), 16)? else {
            return Ok(Next::Close);
        };
        let (Some(wire::OPTION_MAGIC), Some(kind), Some(len)) =
            (wire::u64_at(header, 0), wire::u32_at(header, 8), wire::u32_at(header, 12))
        else {
            return Err(violation("missing option magic"));
        };
        self.input.consume(16);
        let len = len as usize;
        if len > MAX_OPTION_BYTES {
            if kind == option::EXPORT_NAME || !self.input.discard(self.channel.as_ref(), len)? {
                return Ok(Next::Close);
            }
            return self.reply(kind, reply::ERR_TOO_BIG, b"the option data is too long");
        }
        let Some(data) = self.input.read_at_least(self.channel.as_ref(), len)?.map(<[u8]>::to_vec) else {
            return Ok(Next::Close);
        };
        self.input.consume(len);
        self.dispatch(kind, &data)
    }

    fn dispatch(&mut self, kind: u32, data: &[u8]) -> io::Result<Next> {
        let tls_first = matches!(self.export.tls(), TlsPolicy::Required(_)) && !self.session.tls;
        match kind {
            option::ABORT => {
                // The client may have disconnected already.
                let _ = self.reply(kind, reply::ACK, b"");
                Ok(Next::Close)
            }
            option::STARTTLS => self.start_tls(data),
            option::EXPORT_NAME if tls_first => Ok(Next::Close),
            _ if tls_first => self.reply(kind, reply::ERR_TLS_REQD, b"TLS is required; send STARTTLS first"),
            option::EXPORT_NAME => self.export_name(data),
            option::LIST => self.list(data),
            option::INFO | option::GO => self.info(kind, data),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.session.structured = true;
                self.reply(kind, reply::ACK, b"")
            }
            option::STRUCTURED_REPLY => self.invalid(kind),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.meta_context(kind, data),
            _ => self.reply(kind, reply::ERR_UNSUP, b"unsupported option"),
        }
    }

    fn reply(&self, option: u32, kind: u32, data: &[u8]) -> io::Result<Next> {
        self.channel.send(&wire::option_reply(option, kind, data))?;
        Ok(Next::Continue)
    }

    fn invalid(&self, option: u32) -> io::Result<Next> {
        self.reply(option, reply::ERR_INVALID, b"malformed option data")
    }

    fn is_export(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.export.shape().name.as_bytes()
    }

    fn flags(&self) -> u16 {
        let shape = self.export.shape();
        let always = flag::HAS_FLAGS
            | flag::SEND_FLUSH
            | flag::SEND_FUA
            | flag::SEND_TRIM
            | flag::SEND_WRITE_ZEROES
            | flag::SEND_CACHE
            | flag::SEND_FAST_ZERO;
        [
            (shape.read_only, flag::READ_ONLY),
            (shape.rotational, flag::ROTATIONAL),
            (shape.multi_conn, flag::CAN_MULTI_CONN),
            (self.session.structured, flag::SEND_DF),
        ]
        .into_iter()
        .filter(|&(holds, _)| holds)
        .fold(always, |flags, (_, flag)| flags | flag)
    }

    fn start_tls(&mut self, data: &[u8]) -> io::Result<Next> {
        let kind = option::STARTTLS;
        if !data.is_empty() || self.session.tls {
            return self.invalid(kind);
        }
        let config = match self.export.tls() {
            TlsPolicy::Off => return self.reply(kind, reply::ERR_POLICY, b"TLS is not configured"),
            TlsPolicy::Offered(config) | TlsPolicy::Required(config) => config.clone(),
        };
        if !self.input.available().is_empty() {
            return Err(violation("data after STARTTLS and before the TLS handshake"));
        }
        self.reply(kind, reply::ACK, b"")?;
        self.channel = Arc::new(Tls::accept(self.channel.clone(), config)?);
        self.session = Session { tls: true, ..Session::default() };
        self.contexts_for = None;
        Ok(Next::Continue)
    }

    fn export_name(&mut self, data: &[u8]) -> io::Result<Next> {
        if !self.is_export(data) || !self.export.admit() {
            return Ok(Next::Close);
        }
        let mut answer = self.export.shape().size.to_be_bytes().to_vec();
        answer.extend(self.flags().to_be_bytes());
        if !self.no_zeroes {
            answer.extend([0; 124]);
        }
        self.channel.send(&answer)?;
        self.keep_contexts_of(data);
        Ok(Next::Transmission)
    }

    /// Discards contexts that were selected for another export.
    fn keep_contexts_of(&mut self, name: &[u8]) {
        let chosen = self.contexts_for.take().is_some_and(|chosen| self.same_export(&chosen, name));
        if !chosen {
            self.session.contexts.clear();
        }
    }

    fn same_export(&self, a: &[u8], b: &[u8]) -> bool {
        a == b || (self.is_export(a) && self.is_export(b))
    }

    fn list(&self, data: &[u8]) -> io::Result<Next> {
        if !data.is_empty() {
            return self.invalid(option::LIST);
        }
        let name = self.export.shape().name.as_bytes();
        let mut entry = (name.len() as u32).to_be_bytes().to_vec();
        entry.extend(name);
        self.reply(option::LIST, reply::SERVER, &entry)?;
        self.reply(option::LIST, reply::ACK, b"")
    }

    fn info(&mut self, kind: u32, data: &[u8]) -> io::Result<Next> {
        let Some((name, requested)) = info_request(data) else {
            return self.invalid(kind);
        };
        if !self.is_export(name) {
            return self.reply(kind, reply::ERR_UNKNOWN, b"no such export");
        }
        if kind == option::GO && !self.export.admit() {
            return self.reply(kind, reply::ERR_POLICY, b"too many busy connections; try again later");
        }
        let shape = self.export.shape();
        self.send_info(kind, info::EXPORT, &[&shape.size.to_be_bytes()[..], &self.flags().to_be_bytes()])?;
        let sizes = [shape.block, shape.preferred, MAX_TRANSFER_BYTES].map(u32::to_be_bytes);
        self.send_info(kind, info::BLOCK_SIZE, &[&sizes[0], &sizes[1], &sizes[2]])?;
        for requested in requested {
            match requested {
                info::NAME => self.send_info(kind, info::NAME, &[shape.name.as_bytes()])?,
                info::DESCRIPTION => {
                    self.send_info(kind, info::DESCRIPTION, &[truncated(&self.export.description())])?;
                }
                _ => {} // Unknown requests are ignored, as the protocol says.
            }
        }
        self.reply(kind, reply::ACK, b"")?;
        if kind == option::INFO {
            return Ok(Next::Continue);
        }
        self.keep_contexts_of(name);
        Ok(Next::Transmission)
    }

    fn send_info(&self, option: u32, kind: u16, parts: &[&[u8]]) -> io::Result<()> {
        let mut data = kind.to_be_bytes().to_vec();
        parts.iter().for_each(|part| data.extend(*part));
        self.reply(option, reply::INFO, &data).map(|_| ())
    }

    fn meta_context(&mut self, kind: u32, data: &[u8]) -> io::Result<Next> {
        let Some((name, queries)) = context_request(data).filter(|_| self.session.structured) else {
            return self.invalid(kind);
        };
        if !self.is_export(name) {
            return self.reply(kind, reply::ERR_UNKNOWN, b"no such export");
        }
        let set = kind == option::SET_META_CONTEXT;
        let shape = self.export.shape();
        let known = StatusQuery::ALL.into_iter().filter(|context| match context {
            StatusQuery::Allocation => true,
            StatusQuery::Cached => shape.places,
            StatusQuery::Overwritten => shape.shingled,
        });
        let found: Vec<StatusQuery> = known
            .filter(|&context| {
                let all = !set && queries.is_empty();
                all || queries.iter().any(|query| selects(query, context_name(context), set))
            })
            .collect();
        for &context in &found {
            let id = if set { context_id(context) } else { 0 };
            let data = [&id.to_be_bytes()[..], context_name(context).as_bytes()].concat();
            self.reply(kind, reply::META_CONTEXT, &data)?;
        }
        if set {
            self.session.contexts = found;
            self.contexts_for = Some(name.to_vec());
        }
        self.reply(kind, reply::ACK, b"")
    }
}

/// Whether a query selects a context: `SET` takes full names, `LIST` also a namespace alone.
fn selects(query: &[u8], name: &str, set: bool) -> bool {
    let namespace = name.split_inclusive(':').next().unwrap_or(name);
    query == name.as_bytes() || (!set && query == namespace.as_bytes())
}

/// Truncates a string to the longest that the protocol allows.
fn truncated(text: &str) -> &[u8] {
    let end = (0..=text.len().min(MAX_STRING_BYTES)).rev().find(|&end| text.is_char_boundary(end));
    &text.as_bytes()[..end.unwrap_or(0)]
}

fn string(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = wire::u32_at(data, 0)? as usize;
    if len > MAX_STRING_BYTES {
        return None;
    }
    data.get(4..)?.split_at_checked(len)
}

/// Parses the data of INFO and GO: an export name and information requests.
fn info_request(data: &[u8]) -> Option<(&[u8], impl Iterator<Item = u16> + use<'_>)> {
    let (name, rest) = string(data)?;
    let count = wire::u16_at(rest, 0)? as usize;
    let requested = rest.get(2..).filter(|requested| requested.len() == 2 * count)?;
    Some((name, requested.chunks_exact(2).filter_map(|pair| wire::u16_at(pair, 0))))
}

/// Parses the data of LIST_META_CONTEXT and SET_META_CONTEXT: an export name and queries.
fn context_request(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let (name, rest) = string(data)?;
    let count = wire::u32_at(rest, 0)?;
    let mut rest = rest.get(4..)?;
    let mut queries = Vec::new();
    for _ in 0..count {
        let (query, after) = string(rest)?;
        queries.push(query);
        rest = after;
    }
    rest.is_empty().then_some((name, queries))
}
