//! Where a front door listens: `unix:PATH` or `tcp:HOST:PORT`.
//!
//! Invariants: a Unix socket is its owner's alone (0600) from the moment it exists; TCP listens on loopback unless more was
//! asked for; the socket of a living server is not taken away, and neither is anything that is no socket, such as a
//! symbolic link. What has a socket's name now is not followed and not changed.
//! Sources: unix(7), and bind(2) for the mode of a socket, which is that of its descriptor.

use std::fmt;
use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, fchmod, open};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

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

/// A connection.
pub enum Socket {
    /// On this machine.
    Unix(UnixStream),
    /// Over the network.
    Tcp(TcpStream),
}

impl Socket {
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
                let address = Address::of_clients(path).map_err(system)?;
                return Self::bind_unix(path, &address, &name);
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
        if let Kind::Tcp(listener) = &kind {
            listener.set_nonblocking(true).map_err(system)?;
        }
        Ok(Self { endpoint, kind })
    }

    /// Listens on a Unix socket whose path may be longer than an address has room for: clients come by [`connect_to`].
    ///
    /// # Errors
    /// See [`EndpointError`].
    pub fn bind_path(path: &Path) -> Result<Self, EndpointError> {
        let name = path.display().to_string();
        let address = Address::of(path).map_err(|error| EndpointError::System(name.clone(), error))?;
        Self::bind_unix(path, &address, &name)
    }

    fn bind_unix(path: &Path, address: &Address, name: &str) -> Result<Self, EndpointError> {
        let system = |error| EndpointError::System(name.to_owned(), error);
        remove_dead(path, address, name)?;
        let listener = listen_at(address).map_err(system)?;
        let inode = std::fs::symlink_metadata(path).map_err(system)?.ino();
        listener.set_nonblocking(true).map_err(system)?;
        Ok(Self { endpoint: Endpoint::Unix(path.to_owned()), kind: Kind::Unix(listener, inode) })
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

/// The address of a Unix socket.
struct Address {
    address: SocketAddrUnix,
    /// The folder that the address is relative to.
    _folder: Option<OwnedFd>,
}

impl Address {
    /// The path itself, as every client has it.
    fn of_clients(path: &Path) -> io::Result<Self> {
        Ok(Self { address: SocketAddrUnix::new(path)?, _folder: None })
    }

    /// The path, by way of its folder if it is too long for an address (108 bytes).
    fn of(path: &Path) -> io::Result<Self> {
        if let Ok(address) = Self::of_clients(path) {
            return Ok(address);
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidFilename.into());
        };
        let folder = open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
        Ok(Self { address: SocketAddrUnix::new(&short)?, _folder: Some(folder) })
    }
}

/// Connects to a Unix socket whose path may be longer than an address has room for. Connecting, and every later receive
/// and send, ends with an error after `patience`.
///
/// # Errors
/// When nobody listens there.
pub fn connect_to(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let address = Address::of(path)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(patience))?;
    connect(&socket, &address.address)?;
    Ok(UnixStream::from(socket))
}

/// Takes away the socket of a server that is no more.
fn remove_dead(path: &Path, address: &Address, name: &str) -> Result<(), EndpointError> {
    let Ok(found) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        return Err(EndpointError::NoSocket(name.to_owned()));
    }
    let system = |error| EndpointError::System(name.to_owned(), error);
    // Without waiting: a living server may have more clients than it takes.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let socket = socket.map_err(|error| system(error.into()))?;
    match connect(&socket, &address.address) {
        Err(rustix::io::Errno::CONNREFUSED) => std::fs::remove_file(path).map_err(system),
        _ => Err(EndpointError::Taken(name.to_owned())),
    }
}

/// A socket that is its owner's alone from the moment that it exists: its mode is that of its descriptor.
fn listen_at(address: &Address) -> io::Result<UnixListener> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &address.address)?;
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
        assert_eq!(std::fs::read(&path).unwrap(), b"x");
    }

    #[test]
    fn a_planted_link_is_neither_followed_nor_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("s"), folder.path().join("target"));
        for exists in [false, true] {
            std::os::unix::fs::symlink(&target, &path).unwrap();
            assert!(matches!(Listener::bind_path(&path), Err(EndpointError::NoSocket(_))));
            assert_eq!(target.exists(), exists, "nothing was made or removed behind the link");
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&target, "precious").unwrap();
        }
        drop(UnixListener::bind(folder.path().join("dead")).unwrap());
        std::os::unix::fs::symlink(folder.path().join("dead"), &path).unwrap();
        assert!(
            matches!(Listener::bind_path(&path), Err(EndpointError::NoSocket(_))),
            "to a dead socket too"
        );
    }

    #[test]
    fn a_path_may_be_longer_than_an_address() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a".repeat(100));
        std::fs::create_dir(&deep).unwrap();
        let path = deep.join("control.sock");
        let patience = Duration::from_secs(5);
        assert!(Listener::bind(&Endpoint::Unix(path.clone()), false).is_err(), "clients could not name it");
        let listener = Listener::bind_path(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(connect_to(&path, patience).is_ok());
        assert!(matches!(Listener::bind_path(&path), Err(EndpointError::Taken(_))));
        drop(listener);
        assert!(!path.exists() && connect_to(&path, patience).is_err());
    }
}
