//! Converters of addresses.

use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha1::{Digest as _, Sha1};

use super::{Function, INT, Kind, STRING, function, optional, required};
use crate::program::{Arguments, Expr};
use crate::scene::Scene;
use crate::value::{Failure, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    function(
        "CommunityID",
        &[
            required("source_ip", STRING),
            required("source_port", INT),
            required("destination_ip", STRING),
            required("destination_port", INT),
            optional("protocol", STRING),
            optional("seed", INT),
        ],
        community_id,
    )
    .checked(check_community_id),
    function("IsInCIDR", &[required("target", STRING), required("networks", Kind::Values)], is_in_cidr)
        .checked(check_networks),
];

/// The address in a text. An IPv4 address that is written as an IPv6 address counts as an IPv4 address.
fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok().map(|address: IpAddr| address.to_canonical())
}

const NO_ADDRESS: &str = "is not an IP address";
const NO_NETWORK: &str = "is not a network in CIDR notation, like 10.0.0.0/8";
const NO_PROTOCOL: &str = "is none of the protocols ICMP, TCP, UDP, RSVP, ICMP6 and SCTP";
const NO_UINT16: &str = "is not between 0 and 65535";

/// The protocols of the Community ID specification by name.
fn protocol(name: &str) -> Option<u8> {
    Some(match name {
        "ICMP" => 1,
        "TCP" => 6,
        "UDP" => 17,
        "RSVP" => 46,
        "ICMP6" => 58,
        "SCTP" => 132,
        _ => return None,
    })
}

/// A port or a seed.
fn uint16<'a>(arguments: &'a Arguments, index: usize, scene: &mut Scene<'a>) -> Result<u16, Failure> {
    let value = arguments.int(index, scene)?;
    u16::try_from(value).map_err(|_| Failure::new(format!("a port or a seed {NO_UINT16}")))
}

fn check_community_id(arguments: &Arguments) -> Result<(), String> {
    for index in [0, 2] {
        if let Some(text) = arguments.constant_text(index) {
            address(text).ok_or_else(|| format!("\"{text}\" {NO_ADDRESS}"))?;
        }
    }
    for value in [1, 3, 5].into_iter().filter_map(|index| arguments.constant_int(index)) {
        u16::try_from(value).map_err(|_| format!("{value} {NO_UINT16}"))?;
    }
    match arguments.constant_text(4) {
        Some(name) if protocol(name).is_none() => Err(format!("\"{name}\" {NO_PROTOCOL}")),
        _ => Ok(()),
    }
}

fn check_networks(arguments: &Arguments) -> Result<(), String> {
    for literal in arguments.expressions(1).iter().filter_map(Expr::as_literal) {
        match literal {
            Value::String(network) => {
                Network::parse(network).ok_or_else(|| format!("\"{network}\" {NO_NETWORK}")).map(drop)?;
            }
            other => return Err(format!("a network must be a string, not a {}", other.type_name())),
        }
    }
    Ok(())
}

/// One end of a connection.
fn endpoint<'a>(arguments: &'a Arguments, index: usize, scene: &mut Scene<'a>) -> Result<(IpAddr, u16), Failure> {
    let text = arguments.text(index, scene)?;
    let port = uint16(arguments, index + 1, scene)?;
    Ok((address(&text).ok_or_else(|| Failure::about(&text, NO_ADDRESS))?, port))
}

/// Version 1 of the Community ID flow hash.
fn community_id<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let ends = [endpoint(arguments, 0, scene)?, endpoint(arguments, 2, scene)?];
    let protocol = match arguments.has(4) {
        true => {
            let name = arguments.text(4, scene)?;
            protocol(&name).ok_or_else(|| Failure::about(&name, NO_PROTOCOL))?
        }
        false => 6,
    };
    let seed = if arguments.has(5) { uint16(arguments, 5, scene)? } else { 0 };
    // The same for both directions; an IPv4 address, being shorter, comes before an IPv6 one.
    let (from, to) = if ends[0] <= ends[1] { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
    let mut hash = Sha1::new();
    hash.update(seed.to_be_bytes());
    for (address, _) in [from, to] {
        match address {
            IpAddr::V4(address) => hash.update(address.octets()),
            IpAddr::V6(address) => hash.update(address.octets()),
        }
    }
    hash.update([protocol, 0]);
    hash.update(from.1.to_be_bytes());
    hash.update(to.1.to_be_bytes());
    Ok(Value::text(format!("1:{}", BASE64_STANDARD.encode(hash.finalize()))))
}

/// A range of addresses: the bits of the first one, and how many of them all have in common.
struct Network {
    address: IpAddr,
    prefix: u32,
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let written: IpAddr = address.parse().ok()?;
        let prefix: u32 = prefix.bytes().all(|byte| byte.is_ascii_digit()).then(|| prefix.parse().ok())??;
        let bits = if written.is_ipv4() { 32 } else { 128 };
        // 96 bits say that an IPv6 address is an IPv4 one.
        let is_mapped = written.is_ipv6() && written.to_canonical().is_ipv4() && prefix >= 96;
        match (prefix <= bits, is_mapped) {
            (false, _) => None,
            (true, true) => Some(Self { address: written.to_canonical(), prefix: prefix - 96 }),
            (true, false) => Some(Self { address: written, prefix }),
        }
    }

    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differences = network.to_bits() ^ address.to_bits();
                differences.leading_zeros() >= self.prefix
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differences = network.to_bits() ^ address.to_bits();
                differences.leading_zeros() >= self.prefix
            }
            _ => false,
        }
    }
}

fn is_in_cidr<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let text = arguments.text(0, scene)?;
    let Some(address) = address(&text) else { return Ok(Value::Bool(false)) };
    for expr in arguments.expressions(1) {
        let text = scene.eval(expr)?.into_text()?;
        let network = Network::parse(&text).ok_or_else(|| Failure::about(&text, NO_NETWORK))?;
        if network.contains(address) {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}
