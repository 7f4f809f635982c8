//! Kubernetes' IP and CIDR libraries.

use ::core::net::{IpAddr, Ipv6Addr};

use cel::common::types::{CelBool, CelInt, CelString};
use cel::{DeclarationError, Env, ExecutionError, add_member_overload, add_overload};

use super::values::{failed, value_type};

/// An address of either family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip(IpAddr);

/// An address with the length of its network's prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    length: u8,
}

value_type!(Ip, "net.IP");
value_type!(Cidr, "net.CIDR");

/// Declares the functions.
///
/// # Errors
/// Fails if the environment already has one of them.
pub fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    add_overload!(env, fn ip: (CelString) -> Result<Ip>)?;
    add_overload!(env, fn is_ip: (CelString) -> CelBool, name = "isIP")?;
    add_overload!(env, fn is_canonical: (CelString) -> Result<CelBool>, name = "ip.isCanonical")?;
    add_overload!(env, fn ip_string: (Ip) -> CelString, name = "string")?;
    add_member_overload!(env, fn family: (Ip) -> CelInt)?;
    add_member_overload!(env, fn is_unspecified: (Ip) -> CelBool)?;
    add_member_overload!(env, fn is_loopback: (Ip) -> CelBool)?;
    add_member_overload!(env, fn is_link_local_multicast: (Ip) -> CelBool)?;
    add_member_overload!(env, fn is_link_local_unicast: (Ip) -> CelBool)?;
    add_member_overload!(env, fn is_global_unicast: (Ip) -> CelBool)?;
    add_overload!(env, fn cidr: (CelString) -> Result<Cidr>)?;
    add_overload!(env, fn is_cidr: (CelString) -> CelBool, name = "isCIDR")?;
    add_overload!(env, fn cidr_string: (Cidr) -> CelString, name = "string")?;
    add_member_overload!(env, fn cidr_ip: (Cidr) -> Ip, name = "ip")?;
    add_member_overload!(env, fn contains_ip: (Cidr, Ip) -> CelBool, name = "containsIP")?;
    add_member_overload!(
        env,
        fn contains_ip_text: (Cidr, CelString) -> Result<CelBool>,
        name = "containsIP"
    )?;
    add_member_overload!(env, fn contains_cidr: (Cidr, Cidr) -> CelBool, name = "containsCIDR")?;
    add_member_overload!(
        env,
        fn contains_cidr_text: (Cidr, CelString) -> Result<CelBool>,
        name = "containsCIDR"
    )?;
    add_member_overload!(env, fn masked: (Cidr) -> Cidr)?;
    add_member_overload!(env, fn prefix_length: (Cidr) -> CelInt)
}

/// Parses an address. Refuses IPv4-mapped IPv6 addresses, as Kubernetes does.
fn parse_ip(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    let is_mapped = matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
    (!is_mapped).then_some(address)
}

fn parse_cidr(text: &str) -> Option<Cidr> {
    let (address, length) = text.split_once('/')?;
    let address = parse_ip(address)?;
    let is_number = length.bytes().all(|digit| digit.is_ascii_digit());
    let is_plain = is_number && (length == "0" || !length.starts_with('0'));
    let length = is_plain.then(|| length.parse::<u8>().ok()).flatten()?;
    (length <= bits(address)).then_some(Cidr { address, length })
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn ip(text: &CelString<'_>) -> Result<Ip, ExecutionError> {
    parse_ip(text.inner()).map(Ip).ok_or_else(|| failed("ip", "the text is no IP address"))
}

fn is_ip(text: &CelString<'_>) -> CelBool {
    parse_ip(text.inner()).is_some().into()
}

fn is_canonical(text: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    let address = ip(text)?;
    Ok((address.0.to_string() == text.inner()).into())
}

fn ip_string(this: &Ip) -> CelString<'static> {
    this.0.to_string().into()
}

fn family(this: &Ip) -> CelInt {
    (if this.0.is_ipv4() { 4 } else { 6 }).into()
}

fn is_unspecified(this: &Ip) -> CelBool {
    this.0.is_unspecified().into()
}

fn is_loopback(this: &Ip) -> CelBool {
    this.0.is_loopback().into()
}

fn is_link_local_multicast(this: &Ip) -> CelBool {
    match this.0 {
        IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => (address.segments()[0] & 0xff0f) == 0xff02,
    }
    .into()
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn is_link_local_unicast(this: &Ip) -> CelBool {
    is_link_local(this.0).into()
}

/// Whether it is global unicast in Go's sense, which includes private addresses.
fn is_global_unicast(this: &Ip) -> CelBool {
    let is_broadcast = matches!(this.0, IpAddr::V4(address) if address.is_broadcast());
    let is_other = this.0.is_unspecified() || this.0.is_loopback() || this.0.is_multicast();
    (!is_broadcast && !is_other && !is_link_local(this.0)).into()
}

fn cidr(text: &CelString<'_>) -> Result<Cidr, ExecutionError> {
    parse_cidr(text.inner()).ok_or_else(|| failed("cidr", "the text is no CIDR"))
}

fn is_cidr(text: &CelString<'_>) -> CelBool {
    parse_cidr(text.inner()).is_some().into()
}

fn cidr_string(this: &Cidr) -> CelString<'static> {
    format!("{}/{}", this.address, this.length).into()
}

fn cidr_ip(this: &Cidr) -> Ip {
    Ip(this.address)
}

fn network(address: IpAddr, length: u8) -> IpAddr {
    let keep = |bits: u8| u128::MAX.checked_shl(u32::from(bits - length)).unwrap_or_default();
    match address {
        IpAddr::V4(address) => {
            let kept = u128::from(address.to_bits()) & keep(32);
            IpAddr::V4(u32::try_from(kept).unwrap_or_default().into())
        }
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & keep(128))),
    }
}

fn contains(this: &Cidr, address: IpAddr) -> bool {
    this.address.is_ipv4() == address.is_ipv4()
        && network(this.address, this.length) == network(address, this.length)
}

fn contains_ip(this: &Cidr, other: &Ip) -> CelBool {
    contains(this, other.0).into()
}

fn contains_ip_text(this: &Cidr, other: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    Ok(contains_ip(this, &ip(other)?))
}

fn contains_cidr(this: &Cidr, other: &Cidr) -> CelBool {
    (this.length <= other.length && contains(this, other.address)).into()
}

fn contains_cidr_text(this: &Cidr, other: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    Ok(contains_cidr(this, &cidr(other)?))
}

fn masked(this: &Cidr) -> Cidr {
    Cidr { address: network(this.address, this.length), length: this.length }
}

fn prefix_length(this: &Cidr) -> CelInt {
    i64::from(this.length).into()
}
