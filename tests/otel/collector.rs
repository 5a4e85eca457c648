//! A collector: takes spans over OTLP and HTTP, and keeps them.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{LazyLock, Mutex, PoisonError},
};

use opentelemetry_proto::tonic::{collector::trace::v1::ExportTraceServiceRequest, trace::v1::Span};
use prost::Message;

pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
}

static RECEIVED: Mutex<Vec<Span>> = Mutex::new(Vec::new());

pub(crate) static COLLECTOR: LazyLock<Collector> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| serve(stream).expect("a request of OTLP")));
    Collector { address }
});

impl Collector {
    pub(crate) fn spans(&self, name: &str) -> Vec<Span> {
        let received = RECEIVED.lock().unwrap_or_else(PoisonError::into_inner);
        received.iter().filter(|span| span.name == name).cloned().collect()
    }
}

/// Answers one request, and closes.
fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = Vec::new();
    let (head, length) = loop {
        let mut some = [0; 4096];
        let read = stream.read(&mut some)?;
        assert!(read > 0, "the request has an end");
        request.extend_from_slice(&some[..read]);
        if let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
            break (end + 4, length.expect("it says how long it is"));
        }
    };
    let mut body = request.split_off(head);
    let missing = length - body.len();
    Read::by_ref(&mut stream).take(missing as u64).read_to_end(&mut body)?;
    let export = ExportTraceServiceRequest::decode(&*body).expect("it is protobuf");
    let spans = export.resource_spans.into_iter().flat_map(|all| all.scope_spans).flat_map(|scope| scope.spans);
    RECEIVED.lock().unwrap_or_else(PoisonError::into_inner).extend(spans);
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}
