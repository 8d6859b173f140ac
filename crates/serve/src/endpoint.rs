//! Listening sockets: `unix:PATH` or `tcp:HOST:PORT`.
//!
//! Invariants: a Unix socket is accessible only to its owner (0600) from the moment it exists; TCP listens on
//! loopback unless remote access is allowed; an active socket of another server, a symbolic link and any
//! other file at the path are never removed. On exit, a file that has since replaced the socket is left
//! alone.
//! Sources: unix(7), and bind(2): a socket file takes the mode of its descriptor.

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
use rustix::net::sockopt::{Timeout, set_socket_send_buffer_size, set_socket_timeout};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

/// Length of the backlog of pending connections.
const BACKLOG: i32 = 128;
/// Bytes of replies that a Unix socket holds for its client; the kernel grants up to `net.core.wmem_max`. Four
/// reads of 1 MiB: with the usual 208 KiB server and client wait for each other several times in each
/// (bench/serve.py: 0.6 of nbdkit's rate instead of 1.1).
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// See the module page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket, by path.
    Unix(PathBuf),
    /// A TCP socket, as host name or address and port.
    Tcp(String),
}

/// Why a server cannot listen, as one line.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The text is neither form.
    #[error("{0}: not an endpoint; use unix:PATH or tcp:HOST:PORT")]
    Malformed(String),
    /// Another server listens there.
    #[error("{0}: another server is already listening; stop it or choose another endpoint")]
    Taken(String),
    /// The path exists and is not a socket.
    #[error("{0}: exists and is not a socket; choose another path")]
    NoSocket(String),
    /// The address is not loopback.
    #[error(
        "{0}: not a loopback address, so other machines could read and write the drive; add --allow-remote to allow that"
    )]
    Remote(String),
    /// A system call failed.
    #[error("{0}: cannot listen: {1}; choose another endpoint")]
    System(String, io::Error),
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let malformed = || EndpointError::Malformed(text.to_owned());
        match text.split_once(':').ok_or_else(malformed)? {
            ("unix", path) if !path.is_empty() => Ok(Self::Unix(path.into())),
            ("tcp", address)
                if address
                    .rsplit_once(':')
                    .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) =>
            {
                Ok(Self::Tcp(address.to_owned()))
            }
            _ => Err(malformed()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// An accepted connection.
pub enum Socket {
    /// Over a Unix socket.
    Unix(UnixStream),
    /// Over TCP.
    Tcp(TcpStream),
}

impl Socket {
    /// Shuts down one or both directions.
    pub fn shutdown(&self, how: std::net::Shutdown) {
        // Failure means that the client has disconnected already.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tcp(stream) => stream.shutdown(how),
        };
    }
}

/// A listening socket.
pub struct Listener {
    endpoint: Endpoint,
    kind: Kind,
}

enum Kind {
    /// The listener and the inode of its socket file, so that only that file is removed.
    Unix(UnixListener, u64),
    Tcp(TcpListener),
}

impl Listener {
    /// Starts to listen; on an address that is not loopback only if `remote`.
    ///
    /// # Errors
    /// See [`EndpointError`].
    pub fn bind(endpoint: &Endpoint, remote: bool) -> Result<Self, EndpointError> {
        let name = endpoint.to_string();
        let system = |error| EndpointError::System(name.clone(), error);
        match endpoint {
            Endpoint::Unix(path) => {
                let address = Address::direct(path).map_err(system)?;
                Self::bind_unix(path, &address, &name)
            }
            Endpoint::Tcp(address) => {
                let addresses: Vec<_> = address.to_socket_addrs().map_err(system)?.collect();
                if !remote && !addresses.iter().all(|address| address.ip().is_loopback()) {
                    return Err(EndpointError::Remote(name));
                }
                let listener =
                    TcpListener::bind(addresses.as_slice()).map_err(|error| match error.kind() {
                        io::ErrorKind::AddrInUse => EndpointError::Taken(name.clone()),
                        _ => system(error),
                    })?;
                // Port 0 selects a free port, which clients need to know.
                let here = listener.local_addr().map_err(system)?;
                listener.set_nonblocking(true).map_err(system)?;
                Ok(Self { endpoint: Endpoint::Tcp(here.to_string()), kind: Kind::Tcp(listener) })
            }
        }
    }

    /// Listens on a Unix socket whose path may exceed the length of a socket address; clients use
    /// [`connect_to`].
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
        remove_stale(path, address, name)?;
        let listener = listen_at(address).map_err(system)?;
        let inode = std::fs::symlink_metadata(path).map_err(system)?.ino();
        listener.set_nonblocking(true).map_err(system)?;
        Ok(Self { endpoint: Endpoint::Unix(path.to_owned()), kind: Kind::Unix(listener, inode) })
    }

    /// The endpoint that it listens on.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The descriptor to poll.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Unix(listener, _) => listener.as_fd(),
            Kind::Tcp(listener) => listener.as_fd(),
        }
    }

    /// Accepts a pending connection; returns `None` if the backlog is empty.
    ///
    /// # Errors
    /// As accept(2).
    pub fn accept(&self) -> io::Result<Option<Socket>> {
        let accepted = match &self.kind {
            Kind::Unix(listener, _) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(false)?;
                set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES)?;
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
            // If removal fails, the next server replaces the stale socket.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The address of a Unix socket.
struct Address {
    address: SocketAddrUnix,
    /// The directory that the address is relative to.
    _directory: Option<OwnedFd>,
}

impl Address {
    /// The path itself, as clients pass it to connect(2).
    fn direct(path: &Path) -> io::Result<Self> {
        Ok(Self { address: SocketAddrUnix::new(path)?, _directory: None })
    }

    /// The path, relative to its directory if it is too long for a socket address (108 bytes).
    fn of(path: &Path) -> io::Result<Self> {
        if let Ok(address) = Self::direct(path) {
            return Ok(address);
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidFilename.into());
        };
        let directory = open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
        Ok(Self { address: SocketAddrUnix::new(&short)?, _directory: Some(directory) })
    }
}

/// Connects to a Unix socket whose path may exceed the length of a socket address. Connecting, and every
/// later send and receive, fails after `timeout`.
///
/// # Errors
/// When no server listens there.
pub fn connect_to(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let address = Address::of(path)?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(timeout))?;
    connect(&socket, &address.address)?;
    Ok(UnixStream::from(socket))
}

/// Removes the stale socket of a server that has exited.
fn remove_stale(path: &Path, address: &Address, name: &str) -> Result<(), EndpointError> {
    let Ok(found) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        return Err(EndpointError::NoSocket(name.to_owned()));
    }
    let system = |error| EndpointError::System(name.to_owned(), error);
    // Non-blocking, because the backlog of a running server may be full.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let socket = socket.map_err(|error| system(error.into()))?;
    match connect(&socket, &address.address) {
        Err(rustix::io::Errno::CONNREFUSED) => std::fs::remove_file(path).map_err(system),
        _ => Err(EndpointError::Taken(name.to_owned())),
    }
}

/// Creates a socket that is accessible only to its owner from the start: the file takes the mode of the
/// descriptor.
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
    fn endpoints_are_parsed_and_printed() {
        for text in ["unix:/run/disk.sock", "unix:a b", "tcp:localhost:10809", "tcp:[::1]:0"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        for text in ["", "unix:", "tcp:host", "tcp::1", "tcp:host:99999", "udp:a:1", "/run/disk.sock"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }

    #[test]
    fn other_addresses_than_loopback_need_permission() {
        let anywhere = Endpoint::Tcp("0.0.0.0:0".to_owned());
        assert!(matches!(Listener::bind(&anywhere, false), Err(EndpointError::Remote(_))));
        assert!(Listener::bind(&anywhere, true).is_ok());
        assert!(Listener::bind(&Endpoint::Tcp("127.0.0.1:0".to_owned()), false).is_ok());
    }

    #[test]
    fn a_unix_socket_is_private_and_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let endpoint = Endpoint::Unix(path.clone());
        let listener = Listener::bind(&endpoint, false).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(matches!(Listener::bind(&endpoint, false), Err(EndpointError::Taken(_))));
        drop(listener);
        assert!(!path.exists());
        drop(UnixListener::bind(&path).unwrap());
        assert!(Listener::bind(&endpoint, false).is_ok(), "a stale socket is replaced");
        std::fs::write(&path, "x").unwrap();
        assert!(matches!(Listener::bind(&endpoint, false), Err(EndpointError::NoSocket(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"x");
    }

    #[test]
    fn a_symbolic_link_is_neither_followed_nor_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("s"), folder.path().join("target"));
        for exists in [false, true] {
            std::os::unix::fs::symlink(&target, &path).unwrap();
            assert!(matches!(Listener::bind_path(&path), Err(EndpointError::NoSocket(_))));
            assert_eq!(target.exists(), exists, "nothing was created or removed behind the link");
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&target, "precious").unwrap();
        }
        drop(UnixListener::bind(folder.path().join("stale")).unwrap());
        std::os::unix::fs::symlink(folder.path().join("stale"), &path).unwrap();
        assert!(
            matches!(Listener::bind_path(&path), Err(EndpointError::NoSocket(_))),
            "also if it points to a stale socket"
        );
    }

    #[test]
    fn a_path_may_exceed_a_socket_address() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a".repeat(100));
        std::fs::create_dir(&deep).unwrap();
        let path = deep.join("control.sock");
        let timeout = Duration::from_secs(5);
        assert!(
            Listener::bind(&Endpoint::Unix(path.clone()), false).is_err(),
            "clients could not connect to it"
        );
        let listener = Listener::bind_path(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(connect_to(&path, timeout).is_ok());
        assert!(matches!(Listener::bind_path(&path), Err(EndpointError::Taken(_))));
        drop(listener);
        assert!(!path.exists() && connect_to(&path, timeout).is_err());
    }
}
