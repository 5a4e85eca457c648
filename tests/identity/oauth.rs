//! Credentials from an authorization server: each flow, and each way in which it ends.

use std::{future::pending, time::Duration};

use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use http::Request;
use proptest::prelude::*;
use serde_json::json;
use tokio::time::{Instant, advance, sleep};
use toolstack::{
    BoxError,
    credential::{
        AuthChallenge, Cached, CredentialError, CredentialProvider, StaticCredentials, Token, TokenRequest,
        oauth::{AuthorizationCode, Client, ClientCredentials, DeviceFlow, HttpClient, Https, TokenExchange},
    },
    model::Principal,
};

use crate::server::{Reply, Server};

const TOKEN: &str = "https://id.example/token";

fn client(server: &Server) -> Client {
    let client = Client::with_http("agent", TOKEN, server.clone()).unwrap();
    client.device_url("https://id.example/device").unwrap().authorize_url("https://id.example/authorize").unwrap()
}

fn mail() -> TokenRequest {
    TokenRequest::new("mail.read mail.send")
}

fn text(token: Result<Token, CredentialError>) -> String {
    match token {
        Ok(token) => token.secret().expose().to_owned(),
        Err(CredentialError::Challenge(challenge)) => challenge.code.unwrap_or_default(),
        Err(CredentialError::Failed(source)) => source.to_string(),
        Err(error) => format!("{error:?}"),
    }
}

fn challenge(token: Result<Token, CredentialError>) -> AuthChallenge {
    match token {
        Err(CredentialError::Challenge(challenge)) => challenge,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_device_is_challenged_first_and_has_its_token_once_the_person_has_entered_the_code() {
    let server = Server::default();
    let flow = DeviceFlow::new(client(&server)).patience(Duration::from_secs(7));
    let asked = challenge(flow.token(&mail()).await);
    let message = "Sign in at https://id.example/device with the code CODE-1, then call the tool again.";
    let said = AuthChallenge::new(message).url("https://id.example/device").code("CODE-1").scope("mail.read mail.send");
    assert_eq!(asked, said);
    assert_eq!(server.posted("/device")[0].form["scope"], "mail.read mail.send");
    assert_eq!(server.posted("/device")[0].form["client_id"], "agent");
    // The person has done nothing yet.
    let began = Instant::now();
    assert_eq!(challenge(flow.token(&mail()).await), said);
    assert_eq!(began.elapsed(), Duration::from_secs(7));
    server.inside().approved = true;
    assert_eq!(text(flow.token(&mail()).await), "SECRET-TOKEN-0");
    let polls = server.posted("/token");
    assert!(polls.iter().all(|poll| poll.form["device_code"] == "SECRET-DEVICE-1"));
    assert_eq!(polls[1].at - polls[0].at, Duration::from_secs(5));
    assert_eq!(server.posted("/device").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn slow_down_raises_the_interval_for_good_and_across_calls() {
    let server = Server::default();
    server.will_say(["slow_down", "authorization_pending", "slow_down", "authorization_pending"].map(Reply::error));
    server.inside().approved = true;
    let flow = DeviceFlow::new(client(&server)).patience(Duration::from_secs(1));
    let mut answers = Vec::new();
    for _ in 0..200 {
        answers.push(text(flow.token(&mail()).await));
        if answers.last().unwrap().starts_with("SECRET") {
            break;
        }
        advance(Duration::from_millis(500)).await;
    }
    let at: Vec<_> = server.posted("/token").iter().map(|poll| poll.at).collect();
    let gaps: Vec<_> = at.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert_eq!(gaps, [10, 10, 15, 15]);
    assert!(answers.len() > 20 && answers.iter().rev().skip(1).all(|answer| answer == "CODE-1"), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn a_person_who_says_no_is_heard_and_the_next_call_begins_anew() {
    let server = Server::default();
    server.will_say([Reply::error("access_denied")]);
    let flow = DeviceFlow::new(client(&server));
    assert_eq!(text(flow.token(&mail()).await), "CODE-1");
    assert_eq!(text(flow.token(&mail()).await), "Denied");
    assert_eq!(text(flow.token(&mail()).await), "CODE-2");
}

#[tokio::test(start_paused = true)]
async fn a_code_that_is_over_is_replaced_by_a_new_one() {
    let server = Server::default();
    server.will_say([Reply::error("expired_token")]);
    let flow = DeviceFlow::new(client(&server));
    assert_eq!(text(flow.token(&mail()).await), "CODE-1");
    assert_eq!(text(flow.token(&mail()).await), "CODE-2");
    // The server need not be asked for that.
    advance(Duration::from_secs(600)).await;
    assert_eq!(text(flow.token(&mail()).await), "CODE-3");
    assert_eq!(server.posted("/token").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_leaves_the_sign_in_to_the_next_one() {
    let server = Server::default();
    let flow = DeviceFlow::new(client(&server));
    assert_eq!(text(flow.token(&mail()).await), "CODE-1");
    let request = mail();
    let mut dropped = flow.token(&request);
    for _ in 0..10 {
        assert!(dropped.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    drop(dropped);
    server.inside().approved = true;
    assert_eq!(text(flow.token(&mail()).await), "SECRET-TOKEN-0");
    assert_eq!(server.posted("/device").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_principal_and_scope_has_a_sign_in_of_its_own() {
    let server = Server::default();
    let flow = DeviceFlow::new(client(&server));
    let requests = [
        mail().principal(Principal::new("ada")),
        mail().principal(Principal::new("bob")),
        TokenRequest::new("x").principal(Principal::new("ada")),
    ];
    for (n, request) in requests.iter().enumerate() {
        assert_eq!(text(flow.token(request).await), format!("CODE-{}", n + 1));
    }
    server.inside().approved = true;
    assert_eq!(text(flow.token(&requests[1]).await), "SECRET-TOKEN-0");
    assert_eq!(server.posted("/token")[0].form["device_code"], "SECRET-DEVICE-2");
}

#[tokio::test(start_paused = true)]
async fn many_calls_at_once_are_one_sign_in() {
    let server = Server::default();
    let flow = Cached::new(DeviceFlow::new(client(&server)));
    let requests: Vec<_> = (0..50).map(|_| mail()).collect();
    for answer in join_all(requests.iter().map(|request| flow.token(request))).await {
        assert_eq!(text(answer), "CODE-1");
    }
    server.inside().approved = true;
    let before = server.posted("/token").len();
    for answer in join_all(requests.iter().map(|request| flow.token(request))).await {
        assert_eq!(text(answer), "SECRET-TOKEN-0");
    }
    assert_eq!((server.posted("/device").len(), server.posted("/token").len() - before), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_token_that_ends_is_refreshed_and_a_refresh_token_that_is_no_good_begins_the_flow_anew() {
    let server = Server::default();
    server.inside().approved = true;
    let flow = DeviceFlow::new(client(&server)).cached();
    assert_eq!(text(flow.token(&mail()).await), "CODE-1");
    for n in 0..3 {
        assert_eq!(text(flow.token(&mail()).await), format!("SECRET-TOKEN-{n}"));
        assert_eq!(text(flow.token(&mail()).await), format!("SECRET-TOKEN-{n}"));
        advance(Duration::from_secs(3600)).await;
    }
    let refreshed: Vec<_> = server.posted("/token").iter().filter_map(|posted| posted.form.get("refresh_token").cloned()).collect();
    assert_eq!(refreshed, ["SECRET-REFRESH-0", "SECRET-REFRESH-1"]);
    // A server that is down is no reason to bother the person.
    server.will_say([Reply::json(503, "{}")]);
    assert_eq!(text(flow.token(&mail()).await), "the authorization server answered with something else than a token");
    assert_eq!(text(flow.token(&mail()).await), "SECRET-TOKEN-3");
    flow.invalidate(&mail(), None);
    server.will_say([Reply::error("invalid_grant")]);
    assert_eq!(text(flow.token(&mail()).await), "CODE-2");
}

/// Comes back to this program as a browser would: the status.
async fn browse(url: impl AsRef<str>) -> Option<u16> {
    let request = Request::get(url.as_ref()).body(Vec::new()).unwrap();
    Https::new().unwrap().send(request).await.ok().map(|response| response.status().as_u16())
}

/// A flow over real sockets, so in real time.
async fn on_sockets(server: &Server) -> AuthorizationCode {
    let at = server.listen().await;
    let client = Client::new("agent", &format!("{at}/token")).unwrap().authorize_url(&format!("{at}/authorize")).unwrap();
    AuthorizationCode::new(client).patience(Duration::from_millis(300))
}

#[tokio::test]
async fn a_browser_comes_back_once_with_the_right_state_and_its_code_is_good_once() {
    let server = Server::default();
    let flow = on_sockets(&server).await;
    let url = challenge(flow.token(&mail()).await).url.unwrap();
    assert!(url.contains("scope=mail.read+mail.send") && url.contains("redirect_uri=http%3A%2F%2F127.0.0.1%3A"), "{url}");
    let back = server.sign_in(&url);
    // What is not the browser's answer is turned away and ends nothing.
    let with = |pairs: &[(&str, &str)]| {
        let mut url = back.clone();
        url.query_pairs_mut().clear().extend_pairs(pairs);
        url
    };
    let (code, state) = (back.query_pairs().next().unwrap().1.into_owned(), back.query_pairs().nth(1).unwrap().1.into_owned());
    for wrong in [
        with(&[("code", "forged"), ("state", "wrong")]),
        with(&[("code", "forged")]),
        with(&[("code", "forged"), ("state", "")]),
        with(&[("code", "forged"), ("state", &state[1..])]),
        with(&[("code", "forged"), ("state", &state), ("state", &state)]),
        with(&[("code", &code), ("code", "forged"), ("state", &state)]),
        with(&[("code", &code), ("error", "access_denied"), ("state", &state)]),
        with(&[("code", ""), ("state", &state)]),
        with(&[("state", &state)]),
        with(&[("error", "access_denied"), ("state", "wrong")]),
    ] {
        assert_eq!(browse(&wrong).await, Some(400), "{wrong}");
    }
    let mut elsewhere = back.clone();
    elsewhere.set_path("/other");
    assert_eq!(browse(&elsewhere).await, Some(404));
    assert_eq!(challenge(flow.token(&mail()).await).url.unwrap(), url);

    assert_eq!(browse(&back).await, Some(200));
    assert_ne!(browse(&back).await, Some(200));
    assert_eq!(text(flow.token(&mail()).await), "SECRET-TOKEN-0");
    let exchanged = &server.posted("/token")[0].form;
    assert_eq!((exchanged["grant_type"].as_str(), exchanged["code"].as_str()), ("authorization_code", "code-0"));
    // The port is closed by now.
    assert_eq!(browse(&back).await, None);
    assert_eq!(text(flow.token(&mail()).await), "SECRET-TOKEN-1");
}

#[tokio::test]
async fn a_code_that_was_used_already_is_no_good_and_a_code_for_another_sign_in_neither() {
    let server = Server::default();
    let (first, second) = (on_sockets(&server).await, on_sockets(&server).await);
    let url = challenge(first.token(&mail()).await).url.unwrap();
    let other = challenge(second.token(&mail()).await).url.unwrap();
    let (back, other) = (server.sign_in(&url), server.sign_in(&other));
    // The code of one, with the state of the other: its verifier does not meet the challenge.
    let mut mixed = other.clone();
    let code = back.query_pairs().next().unwrap().1.into_owned();
    let state = other.query_pairs().nth(1).unwrap().1.into_owned();
    mixed.query_pairs_mut().clear().append_pair("code", &code).append_pair("state", &state);
    assert_eq!(browse(&mixed).await, Some(200));
    assert_eq!(text(second.token(&mail()).await), "the authorization server refused: invalid_grant");
    // And it is used up.
    assert_eq!(browse(&back).await, Some(200));
    assert_eq!(text(first.token(&mail()).await), "the authorization server refused: invalid_grant");
    assert!(challenge(first.token(&mail()).await).url.unwrap() != url);
}

#[tokio::test]
async fn a_browser_that_brings_a_no_is_a_no_and_one_that_never_comes_is_not_waited_for_for_ever() {
    let server = Server::default();
    let flow = on_sockets(&server).await.life(Duration::from_millis(900));
    let url = challenge(flow.token(&mail()).await).url.unwrap();
    let mut back = server.sign_in(&url);
    let state = back.query_pairs().nth(1).unwrap().1.into_owned();
    back.query_pairs_mut().clear().append_pair("error", "access_denied").append_pair("state", &state);
    assert_eq!(browse(&back).await, Some(200));
    assert_eq!(text(flow.token(&mail()).await), "Denied");

    let url = challenge(flow.token(&mail()).await).url.unwrap();
    let back = server.sign_in(&url);
    let mut again = url.clone();
    while again == url {
        again = challenge(flow.token(&mail()).await).url.unwrap();
    }
    assert_eq!(browse(&back).await, None);
    let back = server.sign_in(&again);
    drop(flow);
    // Whoever gives up closes the port.
    while browse(&back).await.is_some() {
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_client_is_known_by_its_secret_in_the_header_or_in_the_body() {
    let server = Server::default();
    let known = client(&server).secret("SECRET-CLIENT:/+");
    assert_eq!(text(ClientCredentials::new(known.clone()).token(&mail()).await), "SECRET-TOKEN-0");
    assert_eq!(text(ClientCredentials::new(known.secret_in_body()).token(&mail()).await), "SECRET-TOKEN-1");
    let posted = server.posted("/token");
    assert_eq!((posted[0].form["grant_type"].as_str(), posted[0].form["scope"].as_str()), ("client_credentials", "mail.read mail.send"));
    // RFC 6749, 2.3.1: both parts are encoded as in a form first.
    let header = posted[0].authorization.as_deref().unwrap().strip_prefix("Basic ").unwrap();
    let header = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, header).unwrap();
    assert_eq!(header, b"agent:SECRET-CLIENT%3A%2F%2B");
    assert!(!posted[0].form.contains_key("client_secret"));
    assert_eq!((posted[1].authorization.as_deref(), posted[1].form["client_secret"].as_str()), (None, "SECRET-CLIENT:/+"));
}

#[tokio::test]
async fn a_token_is_exchanged_as_rfc_8693_has_it() {
    let server = Server::default();
    let subject = StaticCredentials::new().credential("mail.read mail.send", "SECRET-SUBJECT");
    let exchange = |client: Client| TokenExchange::new(client, subject.clone()).audience("mail").resource("https://mail.example/");
    assert_eq!(text(exchange(client(&server)).token(&mail()).await), "SECRET-TOKEN-0");
    assert_eq!(text(exchange(client(&server).secret("SECRET-CLIENT:/+")).token(&mail()).await), "SECRET-TOKEN-1");
    let posted = server.posted("/token");
    let expected = [
        ("audience", "mail"),
        ("client_id", "agent"),
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("resource", "https://mail.example/"),
        ("scope", "mail.read mail.send"),
        ("subject_token", "SECRET-SUBJECT"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:access_token"),
    ];
    assert_eq!(posted[0].form.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect::<Vec<_>>(), expected);
    let same = ClientCredentials::new(client(&server).secret("SECRET-CLIENT:/+"));
    same.token(&mail()).await.unwrap();
    assert_eq!(posted[1].authorization, server.posted("/token")[2].authorization);
    // What the subject's provider says is said.
    let nobody = TokenExchange::new(client(&server), StaticCredentials::new());
    assert!(text(nobody.token(&mail()).await).starts_with("Missing"));
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_not_exchanged_any_more_is_thrown_away() {
    let server = Server::default();
    server.inside().approved = true;
    let exchange = TokenExchange::new(client(&server), DeviceFlow::new(client(&server)).cached());
    assert_eq!(text(exchange.token(&mail()).await), "CODE-1");
    assert_eq!(text(exchange.token(&mail()).await), "the authorization server refused: invalid_grant");
    exchange.token(&mail()).await.unwrap_err();
    let grants: Vec<_> = server.posted("/token").iter().map(|posted| posted.form["grant_type"].clone()).collect();
    assert_eq!(grants[2], "refresh_token", "{grants:?}");
}

#[tokio::test]
async fn an_answer_that_is_no_token_is_a_failure_that_shows_nothing_of_it() {
    let unreadable = "the authorization server answered with something else than a token";
    let token = |kind: &str| json!({ "access_token": "SECRET-TOKEN", "token_type": kind });
    let cases = [
        (Reply::json(200, ""), unreadable),
        (Reply::json(200, "SECRET not json"), unreadable),
        (Reply::json(200, "{}"), unreadable),
        (Reply::json(200, json!({ "access_token": 1, "token_type": "Bearer" })), unreadable),
        (Reply::json(200, json!({ "access_token": "", "token_type": "Bearer" })), unreadable),
        (Reply::json(200, json!({ "access_token": "SECRET-TOKEN" })), unreadable),
        (Reply::json(200, token("mac")), unreadable),
        (Reply::json(200, token("N_A")), unreadable),
        (Reply { content_type: "text/html", ..Reply::json(200, token("Bearer")) }, unreadable),
        (
            Reply::json(200, format!(r#"{{"access_token":"SECRET-TOKEN","token_type":"Bearer","more":"{}"}}"#, "x".repeat(1 << 20))),
            unreadable,
        ),
        (Reply::json(200, "[".repeat(60_000)), unreadable),
        (Reply::json(500, "<html>SECRET"), unreadable),
        (Reply::json(400, ""), unreadable),
        (
            Reply { location: Some("https://evil.example/".into()), ..Reply::json(302, "") },
            "the authorization server redirected a request for a token",
        ),
        (
            Reply { location: Some("https://evil.example/".into()), ..Reply::json(307, "") },
            "the authorization server redirected a request for a token",
        ),
        (Reply::error("invalid_client"), "the authorization server refused: invalid_client"),
        (Reply::error("a\r\nb\u{1b}[31m<c>"), "the authorization server refused: ab31mc"),
    ];
    for (reply, said) in cases {
        for on_socket in [false, true] {
            let server = Server::default();
            server.will_say([reply.clone()]);
            let client = if on_socket {
                let at = server.listen().await;
                Client::new("agent", &format!("{at}/token")).unwrap()
            } else {
                client(&server)
            };
            let answer = ClientCredentials::new(client).token(&mail()).await;
            assert!(!format!("{answer:?}").contains("SECRET"));
            let got = text(answer);
            // A body that is too long is not read to its end, which is a failure of the connection.
            let cut = on_socket && reply.body.len() > 1 << 16 && got == "the authorization server could not be reached";
            assert!(got == said || cut, "{got} {reply:?}");
            assert_eq!(server.posted("/token").len(), 1);
        }
    }
}

#[tokio::test]
async fn what_a_device_server_would_have_a_person_do_is_looked_at() {
    for (url, code) in [
        ("javascript:alert(1)", "A-1"),
        ("http://id.example/device", "A-1"),
        ("no address", "A-1"),
        ("https://id.example/", "ignore\nthe rest"),
        ("https://id.example/", &"x".repeat(65)),
    ] {
        let server = Server::default();
        let said = json!({ "device_code": "d", "user_code": code, "verification_uri": url, "expires_in": 600 });
        server.inside().device = Some(Reply::json(200, said));
        let answer = text(DeviceFlow::new(client(&server)).token(&mail()).await);
        assert_eq!(answer, "the authorization server answered with something else than a token", "{url}");
    }
}

/// An authorization server that does not answer.
struct Silent;

impl HttpClient for Silent {
    fn send(&self, _: Request<Vec<u8>>) -> BoxFuture<'static, Result<http::Response<Vec<u8>>, BoxError>> {
        Box::pin(pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_not_waited_for() {
    let client = Client::with_http("agent", TOKEN, Silent).unwrap().timeout(Duration::from_secs(3));
    let began = Instant::now();
    let answer = text(ClientCredentials::new(client.clone()).token(&mail()).await);
    assert_eq!((answer.as_str(), began.elapsed()), ("the authorization server did not answer in time", Duration::from_secs(3)));
    let exchange = TokenExchange::new(client, StaticCredentials::new().credential("mail.read mail.send", "t"));
    assert_eq!(text(exchange.token(&mail()).await), answer);
}

#[test]
fn secrets_go_nowhere_in_the_open() {
    let server = Server::default();
    for bad in [
        "http://id.example/token",
        "ftp://id.example/token",
        "https://user:SECRET@id.example/token",
        "https://id.example/token#part",
        "http://127.0.0.1.evil.example/token",
        "http://localhost.evil.example/",
        "http://10.0.0.1/token",
        "/token",
        "",
    ] {
        let error = Client::with_http("agent", bad, server.clone()).unwrap_err();
        assert!(!format!("{error}{error:?}").contains("SECRET"));
        assert!(client(&server).device_url(bad).is_err() && client(&server).authorize_url(bad).is_err(), "{bad}");
    }
    for good in ["https://id.example/token", "http://127.0.0.1:8080/token", "http://[::1]/token", "http://localhost:1/"] {
        assert!(Client::with_http("agent", good, server.clone()).is_ok(), "{good}");
    }
}

#[tokio::test]
async fn a_flow_whose_address_was_not_set_says_so() {
    let plain = Client::with_http("agent", TOKEN, Server::default()).unwrap();
    assert_eq!(text(DeviceFlow::new(plain.clone()).token(&mail()).await), "the address of the device authorization was not set");
    assert_eq!(text(AuthorizationCode::new(plain).token(&mail()).await), "the address of the authorization was not set");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever a server says: nothing panics, and nothing of what it said is in an error.
    #[test]
    fn whatever_a_server_says_stays_out_of_errors(status in 200_u16..600, body in ".{0,200}", key in prop_oneof!["access_token", "error", "error_description", "token_type"]) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (seen, answer) = runtime.block_on(async {
            let server = Server::default();
            server.will_say([Reply::json(status, json!({ key: format!("{{SECRET}} {body}"), "more": body }))]);
            let provider = ClientCredentials::new(client(&server).secret("SECRET-CLIENT"));
            let answer = provider.token(&mail()).await;
            (format!("{answer:?} {provider:?} {:?}", answer.as_ref().map_err(ToString::to_string)), answer)
        });
        prop_assert!(answer.is_err());
        prop_assert!(!seen.contains("SECRET"), "{seen}");
    }
}
