//! A service with its front doors, from start to shutdown.
//!
//! Invariant: when [`Server::stop`] returns, all clients are disconnected, every completed write is durable,
//! and the server has removed its sockets from the file system.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::control::server::ControlServer;
use crate::core::{Backend, Service};
use crate::diagnostics;
use crate::endpoint::{Endpoint, EndpointError};
use crate::nbd::server::{NbdServer, Options};

/// Time limit for writing the last diagnostic messages.
const DIAGNOSTICS_TIMEOUT: Duration = Duration::from_millis(200);

/// See the module page.
pub struct Server {
    service: Arc<Service>,
    control: Option<ControlServer>,
    nbd: Vec<NbdServer>,
}

impl Server {
    /// A backend without front doors.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self { service: Arc::new(Service::new(backend)), control: None, nbd: Vec::new() }
    }

    /// Serves status and settings on a Unix socket at `path`.
    ///
    /// # Errors
    /// When the server cannot listen at the path.
    pub fn open_control(&mut self, path: &Path) -> Result<(), EndpointError> {
        self.control = Some(ControlServer::start(self.service.clone(), path)?);
        Ok(())
    }

    /// Serves NBD on these endpoints.
    ///
    /// # Errors
    /// When the server cannot listen on one of them.
    pub fn open_nbd(&mut self, endpoints: &[Endpoint], options: Options) -> Result<(), EndpointError> {
        self.nbd.push(NbdServer::start(self.service.clone(), endpoints, options)?);
        Ok(())
    }

    /// The path of the control socket.
    pub fn control(&self) -> Option<&Path> {
        self.control.as_ref().map(ControlServer::path)
    }

    /// The NBD endpoints.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.nbd.iter().flat_map(NbdServer::endpoints)
    }

    /// The status, as JSON.
    pub fn status(&self) -> String {
        self.service.status().to_string()
    }

    /// Stops accepting clients, completes received requests, and closes the backend.
    ///
    /// # Errors
    /// One line, when the backend cannot make all writes durable.
    pub fn stop(mut self) -> Result<(), String> {
        self.control = None;
        self.nbd.iter_mut().for_each(NbdServer::stop);
        let closed = self.service.backend.close();
        diagnostics::drain(DIAGNOSTICS_TIMEOUT);
        closed
    }
}
