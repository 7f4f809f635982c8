//! Makes serving certificates. Each has an authority of its own, whose key is thrown away: nobody
//! can make a second certificate that the API servers trust.

use gitwork_admission_rules::limits::CLOCK_SKEW;
use gitwork_admission_rules::rotation::CertificateDates;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use time::OffsetDateTime;

use crate::serving_certificate::{CertificateError, PemIdentity};

/// A new certificate and its authority.
pub(crate) struct MadeCertificate {
    pub identity: PemIdentity,
    /// The certificate of the authority, as PEM.
    pub authority: String,
}

/// Makes a certificate for these names: DNS names and IP addresses.
pub(crate) fn make(
    names: &[String],
    dates: CertificateDates,
) -> Result<MadeCertificate, CertificateError> {
    let made = try_make(names, dates);
    made.map_err(|problem| CertificateError {
        subject: format!("a certificate for {}", names.join(", ")),
        problem,
    })
}

fn try_make(names: &[String], dates: CertificateDates) -> Result<MadeCertificate, String> {
    let text = |error: rcgen::Error| error.to_string();
    let authority_key = KeyPair::generate().map_err(text)?;
    let mut params = CertificateParams::new([]).map_err(text)?;
    set_validity(&mut params, dates)?;
    // A name of its own, as the API servers may know several authorities.
    let name = format!("gitwork-admission-{}", dates.created.as_millisecond());
    set_name(&mut params, &name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = params.self_signed(&authority_key).map_err(text)?.pem();
    let issuer = Issuer::new(params, authority_key);

    let key = KeyPair::generate().map_err(text)?;
    let mut params = CertificateParams::new(names.to_vec()).map_err(text)?;
    set_validity(&mut params, dates)?;
    set_name(&mut params, "gitwork-admission");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(&key, &issuer).map_err(text)?.pem();
    let identity = PemIdentity { certificate, key: key.serialize_pem() };
    Ok(MadeCertificate { identity, authority })
}

fn set_name(params: &mut CertificateParams, name: &str) {
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, name);
}

fn set_validity(params: &mut CertificateParams, dates: CertificateDates) -> Result<(), String> {
    let from = dates.created.checked_sub(CLOCK_SKEW).map_err(|error| error.to_string())?;
    params.not_before = date(from)?;
    params.not_after = date(dates.expires)?;
    Ok(())
}

fn date(time: Timestamp) -> Result<OffsetDateTime, String> {
    OffsetDateTime::from_unix_timestamp(time.as_second()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_can_be_served_and_names_are_checked() {
        let created: Timestamp = "2026-11-20T10:00:00Z".parse().unwrap();
        let expires: Timestamp = "2027-11-20T10:00:00Z".parse().unwrap();
        let dates = CertificateDates { created, expires };
        let names = ["gitwork-admission.gitwork.svc", "127.0.0.1", "::1"].map(str::to_owned);
        let made = make(&names, dates).unwrap();
        made.identity.certified_key("it").unwrap();
        let other = make(&names, dates).unwrap();
        assert_ne!(made.authority, other.authority);
        let mixed = PemIdentity { key: other.identity.key, ..made.identity };
        let error = mixed.certified_key("it").unwrap_err();
        assert!(error.to_string().starts_with("cannot use it: "), "{error}");
        assert!(!format!("{error:?}{mixed:?}").contains("PRIVATE"));
        assert!(make(&["ä".to_owned()], dates).is_err());
    }
}
