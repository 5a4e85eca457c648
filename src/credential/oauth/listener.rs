use std::{
    convert::Infallible,
    net::Ipv4Addr,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use oauth2::url::form_urlencoded::parse;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};

use super::OAuthError;
use crate::{credential::keyed::lock, model::Secret};

/// How many connections are open at once, and for how long; a browser opens some that it does not use.
const CONNECTIONS: usize = 16;
const CONNECTION: Duration = Duration::from_secs(10);

/// A port of this machine that a browser comes back to, once.
pub(super) struct Listener {
    port: u16,
    reply: oneshot::Receiver<Reply>,
    /// Ends when this is dropped, and closes the port.
    _task: JoinSet<()>,
}

/// What the browser brings.
pub(super) enum Reply {
    Code(Secret),
    Refused(String),
}

struct Expected {
    state: Secret,
    reply: Mutex<Option<oneshot::Sender<Reply>>>,
}

impl Listener {
    pub(super) async fn open(port: u16, state: Secret, ends: Instant) -> Result<Self, OAuthError> {
        let failed = |error: std::io::Error| OAuthError::Port(error.kind());
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
        let port = socket.local_addr().map_err(failed)?.port();
        let (sender, reply) = oneshot::channel();
        let expected = Arc::new(Expected { state, reply: Mutex::new(Some(sender)) });
        let mut task = JoinSet::new();
        task.spawn(async move {
            let _ = timeout_at(ends, listen(socket, expected)).await;
        });
        Ok(Self { port, reply, _task: task })
    }

    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/callback", self.port)
    }

    /// What the browser brought; `None` if it did not come in time. Dropping the future loses nothing.
    pub(super) async fn reply(&mut self) -> Option<Reply> {
        (&mut self.reply).await.ok()
    }
}

/// Serves until the browser has been here with the right state.
async fn listen(socket: TcpListener, expected: Arc<Expected>) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = open.join_next() => if lock(&expected.reply).is_none() { break },
            accepted = socket.accept(), if open.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    open.spawn(timeout(CONNECTION, serve(stream, Arc::clone(&expected))));
                }
                Err(_) => break,
            },
        }
    }
}

async fn serve(stream: TcpStream, expected: Arc<Expected>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (status, text) = answer(request.method(), request.uri(), &expected);
        let response = Response::builder()
            .status(status)
            .header("content-type", "text/plain; charset=utf-8")
            .header("cache-control", "no-store")
            .header("referrer-policy", "no-referrer")
            .body(Full::new(Bytes::from_static(text.as_bytes())));
        async move { Ok::<_, Infallible>(response.unwrap_or_default()) }
    });
    let _ = http1::Builder::new().keep_alive(false).max_buf_size(16 * 1024).serve_connection(TokioIo::new(stream), service).await;
}

/// Takes the browser's answer, if it is the one that is waited for.
fn answer(method: &Method, uri: &Uri, expected: &Expected) -> (StatusCode, &'static str) {
    if uri.path() != "/callback" || method != Method::GET {
        return (StatusCode::NOT_FOUND, "There is nothing here.");
    }
    let pairs: Vec<_> = parse(uri.query().unwrap_or_default().as_bytes()).collect();
    // One that stands twice may be read in two ways.
    let one = |name: &str| {
        let mut found = pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_ref());
        found.next().filter(|_| found.next().is_none())
    };
    if !one("state").is_some_and(|state| Secret::new(state) == expected.state) {
        return (StatusCode::BAD_REQUEST, "This is not the sign-in that was waited for.");
    }
    let (reply, text) = match (one("code"), one("error")) {
        (Some(code), None) if !code.is_empty() => (Reply::Code(Secret::new(code)), "You are signed in. You may close this window."),
        (None, Some(error)) => (Reply::Refused(error.to_owned()), "You are not signed in. You may close this window."),
        _ => return (StatusCode::BAD_REQUEST, "This is not the sign-in that was waited for."),
    };
    match lock(&expected.reply).take() {
        Some(sender) => {
            // Nobody may wait any more, and then there is nobody to tell.
            let _ = sender.send(reply);
            (StatusCode::OK, text)
        }
        None => (StatusCode::BAD_REQUEST, "This sign-in is over."),
    }
}
