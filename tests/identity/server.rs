//! A small authorization server for the tests: in process, or on a port of this machine.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
};

use axum::{body::Bytes, extract::State, http::StatusCode, http::header, response::Response, routing::post};
use base64::Engine as _;
use futures_util::future::BoxFuture;
use http::Request;
use oauth2::url::{Url, form_urlencoded};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use toolstack::{BoxError, credential::oauth::HttpClient};
use tower::ServiceExt;

/// What a client posted.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    pub(crate) path: &'static str,
    pub(crate) at: Instant,
    pub(crate) form: BTreeMap<String, String>,
    pub(crate) authorization: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) location: Option<String>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(status: u16, body: impl ToString) -> Self {
        Self { status, content_type: "application/json", location: None, body: body.to_string() }
    }

    pub(crate) fn error(code: &str) -> Self {
        Self::json(400, json!({ "error": code, "error_description": "SECRET-DESCRIPTION" }))
    }
}

#[derive(Default)]
pub(crate) struct Inside {
    pub(crate) posted: Vec<Posted>,
    /// Replies of the token endpoint that come before anything else.
    pub(crate) next: VecDeque<Reply>,
    /// What the device endpoint says in the place of its own.
    pub(crate) device: Option<Reply>,
    pub(crate) approved: bool,
    /// Codes of browsers, each with the challenge that its verifier has to meet and its redirect.
    codes: BTreeMap<String, (String, String)>,
    refresh: BTreeSet<String>,
    tokens: usize,
    devices: usize,
}

#[derive(Clone, Default)]
pub(crate) struct Server(Arc<Mutex<Inside>>);

impl Server {
    pub(crate) fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap()
    }

    pub(crate) fn posted(&self, path: &str) -> Vec<Posted> {
        self.inside().posted.iter().filter(|posted| posted.path == path).cloned().collect()
    }

    pub(crate) fn will_say(&self, replies: impl IntoIterator<Item = Reply>) {
        self.inside().next.extend(replies);
    }

    /// A person signs in at `url`: where the browser is sent then.
    pub(crate) fn sign_in(&self, url: &str) -> Url {
        let url = Url::parse(url).unwrap();
        let query: BTreeMap<_, _> = url.query_pairs().into_owned().collect();
        assert_eq!((query["response_type"].as_str(), query["code_challenge_method"].as_str()), ("code", "S256"));
        let mut inside = self.inside();
        let code = format!("code-{}", inside.codes.len());
        inside.codes.insert(code.clone(), (query["code_challenge"].clone(), query["redirect_uri"].clone()));
        let mut back = Url::parse(&query["redirect_uri"]).unwrap();
        back.query_pairs_mut().append_pair("code", &code).append_pair("state", &query["state"]);
        back
    }

    pub(crate) fn app(&self) -> axum::Router {
        axum::Router::new()
            .route("/device", post(async |State(server): State<Self>, request| server.answer("/device", request).await))
            .route("/token", post(async |State(server): State<Self>, request| server.answer("/token", request).await))
            .with_state(self.clone())
    }

    /// Serves on a port of this machine; the address of the server.
    pub(crate) async fn listen(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = self.app();
        tokio::spawn(async move { axum::serve(listener, app).await });
        format!("http://{address}")
    }

    async fn answer(&self, path: &'static str, request: axum::extract::Request) -> Response {
        let authorization = request.headers().get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
        let body: Bytes = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
        let form: BTreeMap<String, String> = form_urlencoded::parse(&body).into_owned().collect();
        let reply = {
            let mut inside = self.inside();
            inside.posted.push(Posted { path, at: Instant::now(), form: form.clone(), authorization });
            if path == "/device" { inside.device() } else { inside.next.pop_front().unwrap_or_else(|| inside.token(&form)) }
        };
        let mut response =
            Response::builder().status(StatusCode::from_u16(reply.status).unwrap()).header(header::CONTENT_TYPE, reply.content_type);
        if let Some(location) = reply.location {
            response = response.header(header::LOCATION, location);
        }
        response.body(reply.body.into()).unwrap()
    }
}

impl Inside {
    fn device(&mut self) -> Reply {
        if let Some(reply) = &self.device {
            return reply.clone();
        }
        self.devices += 1;
        let n = self.devices;
        let said = json!({
            "device_code": format!("SECRET-DEVICE-{n}"), "user_code": format!("CODE-{n}"), "verification_uri": "https://id.example/device",
            "expires_in": 600, "interval": 5
        });
        Reply::json(200, said)
    }

    fn token(&mut self, form: &BTreeMap<String, String>) -> Reply {
        let get = |key: &str| form.get(key).map_or("", String::as_str);
        let granted = match get("grant_type") {
            "urn:ietf:params:oauth:grant-type:device_code" if !self.approved => return Reply::error("authorization_pending"),
            "urn:ietf:params:oauth:grant-type:device_code" => true,
            "authorization_code" => self.codes.remove(get("code")).is_some_and(|(challenge, redirect)| {
                let met = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(Sha256::digest(get("code_verifier")));
                met == challenge && redirect == get("redirect_uri")
            }),
            "refresh_token" => self.refresh.remove(get("refresh_token")),
            "client_credentials" => return self.grant(false),
            "urn:ietf:params:oauth:grant-type:token-exchange" if get("subject_token") == "SECRET-SUBJECT" => return self.grant(false),
            _ => false,
        };
        if granted { self.grant(true) } else { Reply::error("invalid_grant") }
    }

    fn grant(&mut self, refresh: bool) -> Reply {
        let n = self.tokens;
        self.tokens += 1;
        let mut said = json!({ "access_token": format!("SECRET-TOKEN-{n}"), "token_type": "Bearer", "expires_in": 3600 });
        if refresh {
            let refresh = format!("SECRET-REFRESH-{n}");
            said["refresh_token"] = Value::from(refresh.clone());
            self.refresh.insert(refresh);
        }
        Reply::json(200, said)
    }
}

/// Speaks to the server without a socket, so that time can stand still.
impl HttpClient for Server {
    fn send(&self, request: Request<Vec<u8>>) -> BoxFuture<'static, Result<http::Response<Vec<u8>>, BoxError>> {
        let app = self.app();
        Box::pin(async move {
            let (parts, body) = app.oneshot(request.map(axum::body::Body::from)).await?.into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await?.to_vec();
            Ok(http::Response::from_parts(parts, body))
        })
    }
}
