//! A service with its front doors, from the first client to the end.
//!
//! Invariant: when [`Server::stop`] returns, no client is left, everything that was answered is durable, and no socket of
//! the server is left in the file system.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::control::server::ControlServer;
use crate::core::{Backend, Service};
use crate::diagnostics;
use crate::endpoint::{Endpoint, EndpointError};
use crate::nbd::server::{NbdServer, Options};

/// How long the last lines may take at the end.
const LINES_TIME: Duration = Duration::from_millis(200);

/// See the module page.
pub struct Server {
    service: Arc<Service>,
    control: Option<ControlServer>,
    nbd: Vec<NbdServer>,
}

impl Server {
    /// A backend without a front door.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self { service: Arc::new(Service::new(backend)), control: None, nbd: Vec::new() }
    }

    /// Answers requests for the status and settings at a path.
    ///
    /// # Errors
    /// When the path cannot be had.
    pub fn open_control(&mut self, path: &Path) -> Result<(), EndpointError> {
        self.control = Some(ControlServer::start(self.service.clone(), path)?);
        Ok(())
    }

    /// Speaks NBD at these places.
    ///
    /// # Errors
    /// When one of the places cannot be had.
    pub fn open_nbd(&mut self, places: &[Endpoint], options: Options) -> Result<(), EndpointError> {
        self.nbd.push(NbdServer::start(self.service.clone(), places, options)?);
        Ok(())
    }

    /// Where it is asked for the status.
    pub fn control(&self) -> Option<&Path> {
        self.control.as_ref().map(ControlServer::path)
    }

    /// Where it speaks NBD.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.nbd.iter().flat_map(NbdServer::endpoints)
    }

    /// The status, as JSON.
    pub fn status(&self) -> String {
        self.service.status().to_string()
    }

    /// Takes no more clients, lets those that are here finish, closes the backend.
    ///
    /// # Errors
    /// One line, when the backend cannot keep what was written.
    pub fn stop(mut self) -> Result<(), String> {
        self.control = None;
        self.nbd.iter_mut().for_each(NbdServer::end);
        let closed = self.service.backend.close();
        diagnostics::drain(LINES_TIME);
        closed
    }
}
