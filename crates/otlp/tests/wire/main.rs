//! The crate from outside, with prost as the oracle of what OTLP bytes mean.

#[cfg(test)]
mod bytes_in;
#[cfg(test)]
mod cut;
#[cfg(test)]
mod generate;
#[cfg(test)]
mod json;
#[cfg(test)]
mod json_fields;
#[cfg(test)]
mod json_items;
#[cfg(test)]
mod json_requests;
#[cfg(test)]
mod malformed;
#[cfg(test)]
mod model;
#[cfg(test)]
mod reflect;
#[cfg(test)]
mod responses;
#[cfg(test)]
mod sdk;
#[cfg(test)]
mod splice;
#[cfg(test)]
mod to_json;
