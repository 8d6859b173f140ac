//! Loads TLS certificates from PEM files.
//!
//! With a certificate authority for clients, only clients with a certificate that it has signed may connect
//! (mutual TLS).
//!
//! Source: the NBD protocol, "TLS versions": 1.2 and later.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// Why a TLS configuration cannot be used, as one line.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{0}: {1}; give a PEM file with {2}")]
    File(String, String, &'static str),
    /// rustls rejects the certificate or key.
    #[error("cannot use the TLS certificate: {0}; check that the certificate and key match")]
    Certificate(String),
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |error: &dyn std::fmt::Display| {
        TlsError::File(path.display().to_string(), error.to_string(), "certificates")
    };
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|error| failed(&error))?.collect();
    match found {
        Ok(found) if found.is_empty() => Err(failed(&"contains no certificate")),
        Ok(found) => Ok(found),
        Err(error) => Err(failed(&error)),
    }
}

/// Builds the TLS configuration of a server from a certificate chain, its key, and optionally a certificate
/// authority for clients.
///
/// # Errors
/// See [`TlsError`].
pub fn server_config(cert: &Path, key: &Path, clients: Option<&Path>) -> Result<Arc<ServerConfig>, TlsError> {
    let failed = |error: &dyn std::fmt::Display| TlsError::Certificate(error.to_string());
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| TlsError::File(key.display().to_string(), error.to_string(), "a private key"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(authority)? {
                roots.add(certificate).map_err(|error| failed(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| failed(&error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    builder.with_single_cert(certificates(cert)?, private).map(Arc::new).map_err(|error| failed(&error))
}
