//! An authorization server with the device flow (RFC 8628), and the mail that its tokens are for.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    routing::{get, post},
};
use serde_json::{Value, json};

/// One server; clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Server(Arc<Mutex<Inside>>);

#[derive(Default)]
struct Inside {
    address: String,
    codes: usize,
    approved: BTreeSet<String>,
    /// The token that is good.
    good: Option<String>,
    granted: usize,
}

impl Server {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves on a port of this machine, and says where.
    pub(crate) async fn listen(&self) -> io::Result<String> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}", listener.local_addr()?);
        self.inside().address.clone_from(&address);
        let app =
            Router::new().route("/device", post(device)).route("/token", post(token)).route("/inbox", get(inbox)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(address)
    }

    /// What the page at `/verify` does for a person who has entered the code; `false` if there is no such code.
    pub(crate) fn approve(&self, code: &str) -> bool {
        let mut inside = self.inside();
        let known = (1..=inside.codes).any(|n| code == user_code(n));
        known && inside.approved.insert(code.to_owned())
    }

    /// The token that is good is so no more.
    pub(crate) fn revoke(&self) {
        self.inside().good = None;
    }

    /// How many tokens were granted.
    pub(crate) fn granted(&self) -> usize {
        self.inside().granted
    }

    /// How many sign-ins were begun.
    pub(crate) fn sign_ins(&self) -> usize {
        self.inside().codes
    }
}

fn user_code(n: usize) -> String {
    format!("WDJB-{n:04}")
}

async fn device(State(server): State<Server>) -> Json<Value> {
    let mut inside = server.inside();
    inside.codes += 1;
    let n = inside.codes;
    Json(json!({
        "device_code": format!("device-{n}"),
        "user_code": user_code(n),
        "verification_uri": format!("{}/verify", inside.address),
        "expires_in": 600,
        "interval": 1,
    }))
}

async fn token(State(server): State<Server>, form: String) -> (StatusCode, Json<Value>) {
    let mut inside = server.inside();
    let approved = (1..=inside.codes).any(|n| form.contains(&format!("device_code=device-{n}")) && inside.approved.contains(&user_code(n)));
    if !approved && !form.contains(&format!("refresh_token=refresh-{}", inside.granted)) {
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": "authorization_pending" })));
    }
    inside.granted += 1;
    let n = inside.granted;
    inside.good = Some(format!("Bearer token-{n}"));
    let grant = json!({
        "access_token": format!("token-{n}"), "token_type": "Bearer", "expires_in": 3600, "refresh_token": format!("refresh-{n}")
    });
    (StatusCode::OK, Json(grant))
}

async fn inbox(State(server): State<Server>, headers: HeaderMap) -> (StatusCode, &'static str) {
    let sent = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    if sent.is_some() && sent == server.inside().good.as_deref() {
        (StatusCode::OK, "1 message: lunch at noon?")
    } else {
        (StatusCode::UNAUTHORIZED, "")
    }
}
