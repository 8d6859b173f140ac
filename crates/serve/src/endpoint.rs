//! Where a server listens: `unix:PATH` or `tcp:HOST:PORT`.
//!
//! Invariants: a Unix socket is its owner's alone (0600) from the moment it can be connected to; TCP listens on
//! loopback unless more was asked for; the socket of a living server is not taken away.

use std::fmt;
use std::fs::Permissions;
use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use crate::nbd::channel::Channel;

/// Connections that the kernel keeps until they are taken.
const BACKLOG: i32 = 128;

/// See the module page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A host, by name or address, and a port.
    Tcp(String),
}

/// Why a server cannot listen, as one line.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// Neither form.
    #[error("{0}: is no place to listen; give unix:PATH or tcp:HOST:PORT")]
    Form(String),
    /// Another server is there.
    #[error("{0}: another server listens there; stop it, or choose another place")]
    Taken(String),
    /// Something that is no socket.
    #[error("{0}: exists and is no socket; choose another path")]
    NoSocket(String),
    /// Not this machine alone.
    #[error(
        "{0}: is not the loopback address, and anyone who reaches it could read and write the drive; add --allow-remote if that is what you want"
    )]
    Remote(String),
    /// What the system says.
    #[error("{0}: cannot listen there: {1}; choose another place")]
    System(String, io::Error),
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let form = || EndpointError::Form(text.to_owned());
        match text.split_once(':').ok_or_else(form)? {
            ("unix", path) if !path.is_empty() => Ok(Self::Unix(path.into())),
            ("tcp", place)
                if place
                    .rsplit_once(':')
                    .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) =>
            {
                Ok(Self::Tcp(place.to_owned()))
            }
            _ => Err(form()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(place) => write!(f, "tcp:{place}"),
        }
    }
}

impl Endpoint {
    /// The URI by which clients of any folder know it (NBD URI specification).
    pub fn uri(&self, tls: bool) -> String {
        let scheme = if tls { "nbds" } else { "nbd" };
        match self {
            Self::Unix(path) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                format!("{scheme}+unix:///?socket={}", path.display())
            }
            Self::Tcp(place) => format!("{scheme}://{place}/"),
        }
    }

    /// Connects to a server there.
    ///
    /// # Errors
    /// When there is none.
    pub fn connect(&self) -> io::Result<Socket> {
        Ok(match self {
            Self::Unix(path) => Socket::Unix(UnixStream::connect(path)?),
            Self::Tcp(place) => Socket::Tcp(TcpStream::connect(place.as_str())?),
        })
    }
}

/// A connection.
pub enum Socket {
    /// On this machine.
    Unix(UnixStream),
    /// Over the network.
    Tcp(TcpStream),
}

impl Socket {
    /// The same connection once more, as a channel.
    ///
    /// # Errors
    /// When the system has no more descriptors.
    pub fn channel(&self) -> io::Result<Arc<dyn Channel>> {
        Ok(match self {
            Self::Unix(stream) => Arc::new(stream.try_clone()?),
            Self::Tcp(stream) => Arc::new(stream.try_clone()?),
        })
    }

    /// Ends one or both directions.
    pub fn shutdown(&self, how: std::net::Shutdown) {
        // It fails when the client is gone, which is as good.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tcp(stream) => stream.shutdown(how),
        };
    }
}

/// A place that is listened on.
pub struct Listener {
    endpoint: Endpoint,
    kind: Kind,
}

enum Kind {
    /// Beside the socket the inode of its file, so that only this file is taken away.
    Unix(UnixListener, u64),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens; on an address that is not loopback only if `remote`.
    ///
    /// # Errors
    /// See [`EndpointError`].
    pub fn bind(endpoint: &Endpoint, remote: bool) -> Result<Self, EndpointError> {
        let name = endpoint.to_string();
        let system = |error| EndpointError::System(name.clone(), error);
        let (endpoint, kind) = match endpoint {
            Endpoint::Unix(path) => {
                remove_dead(path, &name)?;
                let listener = bind_unix(path).map_err(system)?;
                let inode = std::fs::symlink_metadata(path).map_err(system)?.ino();
                (endpoint.clone(), Kind::Unix(listener, inode))
            }
            Endpoint::Tcp(place) => {
                let addresses: Vec<_> = place.to_socket_addrs().map_err(system)?.collect();
                if !remote && !addresses.iter().all(|address| address.ip().is_loopback()) {
                    return Err(EndpointError::Remote(name));
                }
                let listener =
                    TcpListener::bind(addresses.as_slice()).map_err(|error| match error.kind() {
                        io::ErrorKind::AddrInUse => EndpointError::Taken(name.clone()),
                        _ => system(error),
                    })?;
                // Port 0 asks for any: what it became is what clients need.
                let here = listener.local_addr().map_err(system)?;
                (Endpoint::Tcp(here.to_string()), Kind::Tcp(listener))
            }
        };
        let nonblocking = match &kind {
            Kind::Unix(listener, _) => listener.set_nonblocking(true),
            Kind::Tcp(listener) => listener.set_nonblocking(true),
        };
        nonblocking.map_err(system)?;
        Ok(Self { endpoint, kind })
    }

    /// Where it listens.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// To wait on.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Unix(listener, _) => listener.as_fd(),
            Kind::Tcp(listener) => listener.as_fd(),
        }
    }

    /// Takes a connection; none if there is none.
    ///
    /// # Errors
    /// As the system's.
    pub fn accept(&self) -> io::Result<Option<Socket>> {
        let accepted = match &self.kind {
            Kind::Unix(listener, _) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(false)?;
                Ok(Socket::Unix(stream))
            }),
            Kind::Tcp(listener) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }),
        };
        match accepted {
            Ok(socket) => Ok(Some(socket)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let (Endpoint::Unix(path), Kind::Unix(_, inode)) = (&self.endpoint, &self.kind)
            && std::fs::symlink_metadata(path).is_ok_and(|found| found.ino() == *inode)
        {
            // A socket that stays is found dead by the next server.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Takes away the socket of a server that is no more.
fn remove_dead(path: &PathBuf, name: &str) -> Result<(), EndpointError> {
    let Ok(found) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        return Err(EndpointError::NoSocket(name.to_owned()));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| EndpointError::System(name.to_owned(), error))
        }
        _ => Err(EndpointError::Taken(name.to_owned())),
    }
}

/// A socket that nobody can connect to before it is its owner's alone.
fn bind_unix(path: &PathBuf) -> io::Result<UnixListener> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddrUnix::new(path.as_path())?)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_written() {
        for text in ["unix:/run/disk.sock", "unix:a b", "tcp:localhost:10809", "tcp:[::1]:0"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        for text in ["", "unix:", "tcp:host", "tcp::1", "tcp:host:99999", "udp:a:1", "/run/disk.sock"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_loopback_unless_asked() {
        let anywhere = Endpoint::Tcp("0.0.0.0:0".to_owned());
        assert!(matches!(Listener::bind(&anywhere, false), Err(EndpointError::Remote(_))));
        assert!(Listener::bind(&anywhere, true).is_ok());
        assert!(Listener::bind(&Endpoint::Tcp("127.0.0.1:0".to_owned()), false).is_ok());
    }

    #[test]
    fn a_unix_socket_is_its_owners_and_is_taken_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let endpoint = Endpoint::Unix(path.clone());
        let listener = Listener::bind(&endpoint, false).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(matches!(Listener::bind(&endpoint, false), Err(EndpointError::Taken(_))));
        drop(listener);
        assert!(!path.exists());
        drop(UnixListener::bind(&path).unwrap());
        assert!(Listener::bind(&endpoint, false).is_ok(), "a dead socket is replaced");
        std::fs::write(&path, "x").unwrap();
        assert!(matches!(Listener::bind(&endpoint, false), Err(EndpointError::NoSocket(_))));
    }
}
