/// Makes ring the TLS provider of the process; later calls have no effect.
///
/// Two providers in one build would otherwise make rustls panic at the first connection.
pub fn install_crypto() {
    // An error says that a provider is installed already.
    let _installed = rustls::crypto::ring::default_provider().install_default();
}
