//! A bare gRPC relay: the least that a gateway over tonic costs, to compare Weir with (`scripts/bench-tonic.sh`).
//!
//! It takes a call of any method, holds its message as bytes, sends it to a backend over one connection and answers with
//! what the backend answers. It decodes, checks, counts, limits and keeps nothing.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::{Buf, BufMut, Bytes};
use clap::Parser;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Largest message, as other gateways take it.
const MESSAGE_BYTES: usize = 64 << 20;

/// Pass gRPC calls on.
#[derive(Parser)]
struct Cli {
    /// Address to listen on
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:4317")]
    listen: SocketAddr,
    /// Where calls go, plain text
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:14317")]
    backend: Endpoint,
    /// Largest HTTP/2 frame that clients are told to send
    #[arg(long, value_name = "BYTES", default_value_t = 16 * 1024, value_parser = clap::value_parser!(u32).range(16_384..16_777_216))]
    frame_bytes: u32,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let backend = cli.backend.connect_lazy();
    let server = Server::builder().max_frame_size(cli.frame_bytes);
    Ok(server.serve(cli.listen, Relay { backend }).await?)
}

#[derive(Clone)]
struct Relay {
    backend: Channel,
}

impl Service<http::Request<Body>> for Relay {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let call = Call { backend: self.backend.clone(), method: request.uri().path_and_query().cloned() };
        Box::pin(async move {
            let mut server =
                tonic::server::Grpc::new(Messages).apply_max_message_size_config(Some(MESSAGE_BYTES), None);
            Ok(server.unary(call, request).await)
        })
    }
}

/// One call.
struct Call {
    backend: Channel,
    method: Option<PathAndQuery>,
}

impl Service<Request<Bytes>> for Call {
    type Response = Response<Bytes>;
    type Error = Status;
    type Future = BoxFuture<Self::Response, Status>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Status>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let (backend, method) = (self.backend.clone(), self.method.take());
        Box::pin(async move {
            let method = method.ok_or_else(|| Status::unimplemented("a call without a method"))?;
            let mut client = tonic::client::Grpc::new(backend);
            client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            client.unary(Request::new(request.into_inner()), method, Messages).await
        })
    }
}

/// Messages as the bytes they are.
#[derive(Clone, Copy)]
struct Messages;

impl Codec for Messages {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Messages {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(message);
        Ok(())
    }
}

impl Decoder for Messages {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(message.copy_to_bytes(message.remaining())))
    }
}
