use std::{io, sync::Arc};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

use super::{HttpClient, http::LONGEST};
use crate::error::BoxError;

/// HTTP/1.1 over TLS, with the root certificates of the operating system. It follows no redirect, keeps no connection open, and reads
/// 64 KiB at most. Plain HTTP is there for addresses of this machine, which are all that [`Client`](super::Client) takes it for.
#[derive(Clone, Debug)]
pub struct Https {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Https {
    /// A client.
    ///
    /// # Errors
    ///
    /// If the operating system has no root certificates.
    pub fn new() -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = HttpsConnectorBuilder::new();
        let connector = builder.with_provider_and_native_roots(provider)?.https_or_http().enable_http1().build();
        // A connection belongs to the runtime that opened it; tokens are fetched too seldom to keep one.
        Ok(Self { client: Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector) })
    }
}

impl HttpClient for Https {
    fn send(&self, request: Request<Vec<u8>>) -> BoxFuture<'static, Result<Response<Vec<u8>>, BoxError>> {
        let sent = self.client.request(request.map(|body| Full::new(Bytes::from(body))));
        Box::pin(async move {
            let (parts, body) = sent.await?.into_parts();
            let body = Limited::new(body, LONGEST).collect().await?.to_bytes();
            Ok(Response::from_parts(parts, body.to_vec()))
        })
    }
}
