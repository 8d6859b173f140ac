//! Option negotiation: from the first magic to a session, or to the end of it.
//!
//! One export, which goes by its own name and by the empty one. Its description says what the drive is and did.
//!
//! Invariants: an option's data is bounded, and read whole before it is looked at; what was agreed upon before
//! TLS is forgotten; with TLS required nothing but STARTTLS and ABORT is answered before it.
//! Source: the NBD protocol, "Newstyle negotiation", "Option types", "TLS support".

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;

use crate::core::{MAX_TRANSFER_BYTES, Shape, StatusQuery};
use crate::nbd::channel::{Channel, Input, Tls};
use crate::nbd::wire::{self, flag, handshake_flag, info, option, reply};
use crate::nbd::{Session, context_id, context_name};

/// Most bytes of an option that are looked at; longer ones are read and refused.
const MOST_OPTION_BYTES: usize = 16 << 10;
/// Longest string of the protocol.
const MOST_STRING_BYTES: usize = 4096;

/// Whether clients may, or must, ask for TLS.
#[derive(Clone, Default)]
pub enum TlsPolicy {
    /// There is none.
    #[default]
    Off,
    /// For who asks.
    Offered(Arc<ServerConfig>),
    /// Before anything else.
    Required(Arc<ServerConfig>),
}

/// What is exported, as one client sees it during the handshake.
pub trait Export: Send + Sync {
    /// What is served.
    fn shape(&self) -> &Shape;
    /// A sentence about how it does.
    fn description(&self) -> String;
    /// Whether TLS is spoken.
    fn tls(&self) -> &TlsPolicy;
    /// Whether the client may stay for its requests.
    fn admits(&self) -> bool {
        true
    }
}

/// How a negotiation ends well.
pub struct Agreed {
    /// What was agreed upon.
    pub session: Session,
    /// Where it goes on.
    pub channel: Arc<dyn Channel>,
    /// What came already.
    pub input: Input,
}

/// A client that does not speak the protocol; the connection ends.
fn violation(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

struct Negotiation<'a> {
    export: &'a dyn Export,
    channel: Arc<dyn Channel>,
    input: Input,
    session: Session,
    /// For which export contexts were chosen.
    contexts_for: Option<Vec<u8>>,
    no_zeroes: bool,
}

/// What an option leads to.
enum Next {
    Goes,
    Transmission,
    End,
}

/// Negotiates until the client chooses an export; none when it goes before.
///
/// # Errors
/// When the client cannot be reached, or does not speak the protocol.
pub fn negotiate(channel: Arc<dyn Channel>, export: &dyn Export) -> io::Result<Option<Agreed>> {
    let input = Input::new(4096);
    let session = Session::default();
    let mut negotiation =
        Negotiation { export, channel, input, session, contexts_for: None, no_zeroes: false };
    if !negotiation.greet()? {
        return Ok(None);
    }
    loop {
        match negotiation.option()? {
            Next::Goes => {}
            Next::End => return Ok(None),
            Next::Transmission => {
                let Negotiation { session, channel, input, .. } = negotiation;
                return Ok(Some(Agreed { session, channel, input }));
            }
        }
    }
}

impl Negotiation<'_> {
    /// The first words of both; whether the client said any.
    fn greet(&mut self) -> io::Result<bool> {
        let flags = (handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES) as u16;
        let mut greeting = wire::MAGIC.to_be_bytes().to_vec();
        greeting.extend(wire::OPTION_MAGIC.to_be_bytes());
        greeting.extend(flags.to_be_bytes());
        self.channel.send(&greeting)?;
        let Some(flags) = self.input.need(self.channel.as_ref(), 4)?.and_then(|bytes| wire::u32_at(bytes, 0))
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

    /// Reads an option and answers it.
    fn option(&mut self) -> io::Result<Next> {
        let Some(header) = self.input.need(self.channel.as_ref(), 16)? else {
            return Ok(Next::End);
        };
        let (Some(wire::OPTION_MAGIC), Some(kind), Some(len)) =
            (wire::u64_at(header, 0), wire::u32_at(header, 8), wire::u32_at(header, 12))
        else {
            return Err(violation("no option magic"));
        };
        self.input.consume(16);
        let len = len as usize;
        if len > MOST_OPTION_BYTES {
            if kind == option::EXPORT_NAME || !self.input.discard(self.channel.as_ref(), len)? {
                return Ok(Next::End);
            }
            return self.answer(kind, reply::ERR_TOO_BIG, b"the option is too long");
        }
        let Some(data) = self.input.need(self.channel.as_ref(), len)?.map(<[u8]>::to_vec) else {
            return Ok(Next::End);
        };
        self.input.consume(len);
        self.dispatch(kind, &data)
    }

    fn dispatch(&mut self, kind: u32, data: &[u8]) -> io::Result<Next> {
        let tls_first = matches!(self.export.tls(), TlsPolicy::Required(_)) && !self.session.tls;
        match kind {
            option::ABORT => {
                // The client may be gone by now, and that is all right.
                let _ = self.answer(kind, reply::ACK, b"");
                Ok(Next::End)
            }
            option::STARTTLS => self.start_tls(data),
            option::EXPORT_NAME if tls_first => Ok(Next::End),
            _ if tls_first => self.answer(kind, reply::ERR_TLS_REQD, b"start TLS first"),
            option::EXPORT_NAME => self.export_name(data),
            option::LIST => self.list(data),
            option::INFO | option::GO => self.info(kind, data),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.session.structured = true;
                self.answer(kind, reply::ACK, b"")
            }
            option::STRUCTURED_REPLY => self.invalid(kind),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.meta_context(kind, data),
            _ => self.answer(kind, reply::ERR_UNSUP, b"not an option of this server"),
        }
    }

    fn answer(&self, option: u32, kind: u32, data: &[u8]) -> io::Result<Next> {
        self.channel.send(&wire::option_reply(option, kind, data))?;
        Ok(Next::Goes)
    }

    fn invalid(&self, option: u32) -> io::Result<Next> {
        self.answer(option, reply::ERR_INVALID, b"the option's data makes no sense")
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
            TlsPolicy::Off => return self.answer(kind, reply::ERR_POLICY, b"this server has no certificate"),
            TlsPolicy::Offered(config) | TlsPolicy::Required(config) => config.clone(),
        };
        if !self.input.available().is_empty() {
            return Err(violation("plain bytes after STARTTLS"));
        }
        self.answer(kind, reply::ACK, b"")?;
        self.channel = Arc::new(Tls::accept(self.channel.clone(), config)?);
        self.session = Session { tls: true, ..Session::default() };
        self.contexts_for = None;
        Ok(Next::Goes)
    }

    fn export_name(&mut self, data: &[u8]) -> io::Result<Next> {
        if !self.is_export(data) || !self.export.admits() {
            return Ok(Next::End);
        }
        let mut answer = self.export.shape().size.to_be_bytes().to_vec();
        answer.extend(self.flags().to_be_bytes());
        if !self.no_zeroes {
            answer.extend([0; 124]);
        }
        self.channel.send(&answer)?;
        self.enter(data);
        Ok(Next::Transmission)
    }

    /// Contexts that were chosen for another export do not count.
    fn enter(&mut self, name: &[u8]) {
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
        self.answer(option::LIST, reply::SERVER, &entry)?;
        self.answer(option::LIST, reply::ACK, b"")
    }

    fn info(&mut self, kind: u32, data: &[u8]) -> io::Result<Next> {
        let Some((name, wanted)) = info_request(data) else {
            return self.invalid(kind);
        };
        if !self.is_export(name) {
            return self.answer(kind, reply::ERR_UNKNOWN, b"no export of that name");
        }
        if kind == option::GO && !self.export.admits() {
            return self.answer(
                kind,
                reply::ERR_POLICY,
                b"too many connections, all of them busy; try again",
            );
        }
        let shape = self.export.shape();
        self.tell(kind, info::EXPORT, &[&shape.size.to_be_bytes()[..], &self.flags().to_be_bytes()])?;
        let sizes = [shape.block, shape.preferred, MAX_TRANSFER_BYTES].map(u32::to_be_bytes);
        self.tell(kind, info::BLOCK_SIZE, &[&sizes[0], &sizes[1], &sizes[2]])?;
        for wanted in wanted {
            match wanted {
                info::NAME => self.tell(kind, info::NAME, &[shape.name.as_bytes()])?,
                info::DESCRIPTION => {
                    self.tell(kind, info::DESCRIPTION, &[bounded(&self.export.description())])?;
                }
                _ => {} // What is not known need not be told.
            }
        }
        self.answer(kind, reply::ACK, b"")?;
        if kind == option::INFO {
            return Ok(Next::Goes);
        }
        self.enter(name);
        Ok(Next::Transmission)
    }

    fn tell(&self, option: u32, about: u16, parts: &[&[u8]]) -> io::Result<()> {
        let mut data = about.to_be_bytes().to_vec();
        parts.iter().for_each(|part| data.extend(*part));
        self.answer(option, reply::INFO, &data).map(|_| ())
    }

    fn meta_context(&mut self, kind: u32, data: &[u8]) -> io::Result<Next> {
        let Some((name, queries)) = context_request(data).filter(|_| self.session.structured) else {
            return self.invalid(kind);
        };
        if !self.is_export(name) {
            return self.answer(kind, reply::ERR_UNKNOWN, b"no export of that name");
        }
        let sets = kind == option::SET_META_CONTEXT;
        let shape = self.export.shape();
        let known = StatusQuery::ALL.into_iter().filter(|context| match context {
            StatusQuery::Allocation => true,
            StatusQuery::Cached => shape.places,
            StatusQuery::Overwritten => shape.shingled,
        });
        let found: Vec<StatusQuery> = known
            .filter(|&context| {
                let all = !sets && queries.is_empty();
                all || queries.iter().any(|query| asks_for(query, context_name(context), sets))
            })
            .collect();
        for &context in &found {
            let id = if sets { context_id(context) } else { 0 };
            let data = [&id.to_be_bytes()[..], context_name(context).as_bytes()].concat();
            self.answer(kind, reply::META_CONTEXT, &data)?;
        }
        if sets {
            self.session.contexts = found;
            self.contexts_for = Some(name.to_vec());
        }
        self.answer(kind, reply::ACK, b"")
    }
}

/// A context is set by its name; listed also by its namespace alone.
fn asks_for(query: &[u8], name: &str, sets: bool) -> bool {
    let namespace = name.split_inclusive(':').next().unwrap_or(name);
    query == name.as_bytes() || (!sets && query == namespace.as_bytes())
}

/// As much of a string as the protocol has room for.
fn bounded(text: &str) -> &[u8] {
    let end = (0..=text.len().min(MOST_STRING_BYTES)).rev().find(|&end| text.is_char_boundary(end));
    &text.as_bytes()[..end.unwrap_or(0)]
}

fn string(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = wire::u32_at(data, 0)? as usize;
    if len > MOST_STRING_BYTES {
        return None;
    }
    data.get(4..)?.split_at_checked(len)
}

/// The data of INFO and GO: a name, and what is wanted.
fn info_request(data: &[u8]) -> Option<(&[u8], impl Iterator<Item = u16> + use<'_>)> {
    let (name, rest) = string(data)?;
    let count = wire::u16_at(rest, 0)? as usize;
    let wanted = rest.get(2..).filter(|wanted| wanted.len() == 2 * count)?;
    Some((name, wanted.chunks_exact(2).filter_map(|pair| wire::u16_at(pair, 0))))
}

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT: a name, and queries.
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
