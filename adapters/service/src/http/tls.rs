//! TLS from PEM files.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::{Error, Result, Tls};

/// Accepts TLS 1.2 and 1.3.
pub(super) fn acceptor(files: &Tls) -> Result<TlsAcceptor> {
    let wrong = |path: &Path, message: String| Error::File { path: path.to_owned(), message };
    let certificates = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(&files.certificate, format!("{error}; expected certificates in PEM")))?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| wrong(&files.key, format!("{error}; expected a private key in PEM")))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Setting(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| {
            wrong(&files.certificate, format!("{error}; certificate and key must belong together"))
        })?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
