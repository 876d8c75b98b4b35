//! The crate from outside, with prost as the oracle of what OTLP bytes mean.

mod bytes_in;
mod cut;
mod generate;
mod json;
mod malformed;
mod model;
mod responses;
mod splice;
