//! Every bound of this crate, with its reason. Input past a bound is an error, never a crash and
//! never a silent cut.

/// Bytes of a file with a password, a token, a key or certificates. A bundle of all public
/// authorities has 250 KiB.
pub const CREDENTIAL_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Bytes of one armoured signature of a commit. OpenPGP signatures by RSA keys have some 900 bytes;
/// other content of a signature is not needed.
pub const SIGNATURE_BYTES_MAX: usize = 64 * 1024;
/// Lines of one allowed_signers file.
pub const ALLOWED_SIGNERS_MAX: usize = 10_000;
/// Bytes of one line of allowed_signers. An RSA key of 16,384 bits has 3 KiB; certificates are not
/// supported.
pub const ALLOWED_SIGNER_BYTES_MAX: usize = 16 * 1024;
/// OpenPGP keys of one file.
pub const OPENPGP_KEYS_MAX: usize = 1_000;
/// Parts of one OpenPGP key: subkeys, user ids, and the signatures on them. Keys on public servers
/// can be flooded with signatures of others; a key that an operator exports has a few dozen.
pub const OPENPGP_PARTS_MAX: usize = 1_000;
/// Bits of an RSA key. Smaller keys have been broken or soon will be (NIST SP 800-57).
pub const RSA_BITS_MIN: usize = 2_048;
/// Bits of an RSA key. The library refuses larger ones, because they take long to check.
pub const RSA_BITS_MAX: usize = 4_096;
