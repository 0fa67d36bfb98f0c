//! The HTTP front and the faults, over a real socket.
#![allow(clippy::unwrap_used, reason = "in the functions that tests share, too")]

#[path = "support/http1.rs"]
mod http1;

use std::{io, time::Duration};

use http1::{Connection, Ending, get, request};
use reflector_apiserver::{
    AccessRule, ApiServer, Verb,
    core::CoreOptions,
    faults::{ErrorBody, Fault, Faults, Gzip, InitialEventsEnd, Interruption, Point, Profile},
};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(20);
const LIST: &str = "/api/v1/namespaces/a/configmaps";
const WATCH: &str =
    "/api/v1/namespaces/a/configmaps?watch=true&resourceVersion=0&allowWatchBookmarks=true&timeoutSeconds=1";

async fn server(fault: impl Into<Option<Fault>>) -> ApiServer {
    let server = ApiServer::start().await.unwrap();
    for name in ["one", "two", "three"] {
        create(&server, name);
    }
    if let Some(fault) = fault.into() {
        server.inject(fault);
    }
    server
}

fn create(server: &ApiServer, name: &str) {
    let object = json!({"metadata": {"namespace": "a", "name": name}, "data": {"k": name}});
    server.with_core(|core| core.create("configmaps", object).unwrap());
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn every_answer_has_the_headers_of_an_api_server() {
    let server = server(None).await;
    let reply = get(server.address(), LIST).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("cache-control"), Some("no-cache, private"));
    assert_eq!(reply.header("audit-id").unwrap().len(), 36);
    // The epoch of the core's clock, not the time of day.
    assert!(reply.header("date").unwrap().starts_with("Thu, 01 Jan 1970 00:00:0"));
    assert_eq!(reply.header("content-length"), Some(reply.body.len().to_string().as_str()));
    server.stop().await;
}

#[tokio::test]
async fn bodies_of_more_than_two_kilobytes_come_in_chunks() {
    let server = server(None).await;
    let object = json!({"metadata": {"namespace": "a", "name": "large"}, "data": {"k": "x".repeat(3000)}});
    server.with_core(|core| core.create("configmaps", object).unwrap());
    let reply = get(server.address(), LIST).await;
    assert_eq!(reply.header("transfer-encoding"), Some("chunked"));
    assert_eq!(reply.json()["items"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn only_long_lists_are_compressed_and_only_for_whom_accepts_it() {
    // So that versions have the same length all along.
    let mut options = CoreOptions::default();
    options.first_revision = 1_000;
    let server = ApiServer::builder().core(options).start().await.unwrap();
    let ask = async |size: usize, accept: &str| {
        let object =
            json!({"metadata": {"namespace": "b", "name": "large"}, "data": {"k": "x".repeat(size)}});
        server.with_core(|core| {
            let _ = core.delete("configmaps", "b", "large");
            core.create("configmaps", object).unwrap();
        });
        let path = "/api/v1/namespaces/b/configmaps";
        request(server.address(), "GET", path, &[("Accept-Encoding", accept)], b"", PATIENCE).await.unwrap()
    };
    let plain = ask(130_000, "gzip").await;
    assert_eq!(plain.header("content-encoding"), None);
    let over = plain.body.len() - 130_000;
    assert_eq!(ask(131_072 - over, "gzip").await.header("content-encoding"), None);
    assert_eq!(ask(131_073 - over, "gzip;q=0.5").await.header("content-encoding"), None);
    let compressed = ask(131_073 - over, "br, gzip").await;
    assert_eq!(compressed.header("content-encoding"), Some("gzip"));
    assert_eq!(compressed.header("vary"), Some("Accept-Encoding"));
    assert_eq!(gunzip(&compressed.body).len(), 131_073);
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(bytes), &mut out).unwrap();
    out
}

#[tokio::test]
async fn a_watch_is_woken_by_a_write() {
    let server = server(None).await;
    let mut connection = Connection::open(server.address()).await.unwrap();
    let path = "/api/v1/namespaces/a/configmaps?watch=true&resourceVersion=0";
    connection.send("GET", path, &[], b"").await.unwrap();
    let mut reply = connection.head().await.unwrap();
    for _ in 0..3 {
        connection.more(&mut reply).await.unwrap();
    }
    create(&server, "four");
    connection.more(&mut reply).await.unwrap();
    assert_eq!(kinds(&reply.events()), ["ADDED", "ADDED", "ADDED", "ADDED"]);
    assert_eq!(reply.events()[3]["object"]["metadata"]["name"], "four");
}

#[tokio::test]
async fn a_watch_ends_at_its_deadline() {
    let server = server(None).await;
    let reply = get(server.address(), WATCH).await;
    assert_eq!(kinds(&reply.events()), ["ADDED", "ADDED", "ADDED", "BOOKMARK"]);
    assert_eq!(reply.ending, Ending::Complete);
    assert_eq!(reply.chunks, 4, "each event goes out on its own");
}

#[tokio::test]
async fn a_reader_that_goes_away_is_forgotten() {
    let server = server(None).await;
    let mut connection = Connection::open(server.address()).await.unwrap();
    connection.send("GET", "/api/v1/configmaps?watch=true", &[], b"").await.unwrap();
    connection.head().await.unwrap();
    assert_eq!(server.open_exchanges(), 1);
    drop(connection);
    let gone = async {
        while server.open_exchanges() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
}

#[tokio::test]
async fn stopping_ends_everything() {
    let server = server(None).await;
    let address = server.address();
    let mut connection = Connection::open(address).await.unwrap();
    connection.send("GET", "/api/v1/configmaps?watch=true", &[], b"").await.unwrap();
    let mut reply = connection.head().await.unwrap();
    server.stop().await;
    while connection.more(&mut reply).await.is_ok_and(|more| more) {}
    assert!(Connection::open(address).await.is_err());
}

#[tokio::test]
async fn requests_are_logged_in_order() {
    let server = server(Fault::on(Verb::Watch).status(500)).await;
    get(server.address(), LIST).await;
    get(server.address(), WATCH).await;
    get(server.address(), "/version").await;
    let log: Vec<String> = server.requests().iter().map(ToString::to_string).collect();
    assert_eq!(log, [format!("GET {LIST} 200"), format!("GET {WATCH} 500"), "GET /version 200".to_owned()]);
    assert_eq!(server.requests()[1].verb(), Some(Verb::Watch));
    server.clear_requests();
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn tokens_can_be_rotated_under_a_running_watch() {
    let server = ApiServer::builder().token("old").start().await.unwrap();
    let ask = async |token: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str())];
        request(server.address(), "GET", LIST, &headers, b"", PATIENCE).await.unwrap().status
    };
    assert_eq!(ask("old").await, 200);
    let mut connection = Connection::open(server.address()).await.unwrap();
    let path = "/api/v1/namespaces/a/configmaps?watch=true";
    connection.send("GET", path, &[("Authorization", "Bearer old")], b"").await.unwrap();
    let mut watch = connection.head().await.unwrap();
    server.with_auth(|auth| auth.token = Some("new".to_owned()));
    assert_eq!(ask("old").await, 401);
    assert_eq!(ask("new").await, 200);
    create(&server, "one");
    connection.more(&mut watch).await.unwrap();
    assert_eq!(kinds(&watch.events()), ["ADDED"]);
}

#[tokio::test]
async fn denied_requests_get_the_body_of_an_api_server() {
    let rule =
        AccessRule { verbs: vec![Verb::List], resource: Some("configmaps".to_owned()), namespace: None };
    let server = ApiServer::builder().deny(rule).start().await.unwrap();
    let reply = get(server.address(), LIST).await;
    assert_eq!((reply.status, reply.header("x-content-type-options")), (403, Some("nosniff")));
    assert_eq!(reply.json()["details"], json!({"kind": "configmaps"}));
}

#[tokio::test]
async fn made_up_answers_come_as_often_as_asked() {
    let server =
        server(Fault::on(Verb::List).resource("configmaps").times(2).status(429).retry_after(3)).await;
    for expected in [429, 429, 200] {
        let reply = get(server.address(), LIST).await;
        assert_eq!(reply.status, expected);
        if expected == 429 {
            assert_eq!(reply.header("retry-after"), Some("3"));
            assert_eq!(reply.json()["details"]["retryAfterSeconds"], 3);
        }
    }
    assert_eq!(server.with_faults(|faults| faults.injected().get("status").copied()), Some(2));
}

#[tokio::test]
async fn errors_come_with_any_body() {
    let bodies = [
        (ErrorBody::PrettyStatus, "application/json"),
        (ErrorBody::Text("no\n".to_owned()), "text/plain; charset=utf-8"),
        (ErrorBody::Html("<html>".to_owned()), "text/html"),
    ];
    for (body, kind) in bodies {
        let server = server(Fault::any().status(503).body(body)).await;
        let reply = get(server.address(), LIST).await;
        assert_eq!((reply.status, reply.header("content-type")), (503, Some(kind)));
    }
    let server = server(Fault::any().status(500).body(ErrorBody::Empty)).await;
    let reply = get(server.address(), LIST).await;
    assert_eq!((reply.status, reply.text().as_str(), reply.header("content-type")), (500, "", None));
}

/// K2: the answer of servers that do not know the version any more.
#[tokio::test]
async fn a_watch_can_end_at_once() {
    let server = server(Fault::on(Verb::Watch).end_at_once()).await;
    let reply = get(server.address(), WATCH).await;
    assert_eq!((reply.status, reply.body.len(), reply.ending), (200, 0, Ending::Complete));
}

#[tokio::test]
async fn answers_are_cut_at_any_byte() {
    let whole = get(server(None).await.address(), WATCH).await.body;
    for bytes in [0, 1, 7, 100, 200] {
        let server = server(Fault::on(Verb::Watch).cut_after_bytes(bytes)).await;
        let reply = get(server.address(), WATCH).await;
        assert_eq!(reply.ending, Ending::Closed, "{bytes}");
        assert_eq!(reply.body.len() as u64, bytes);
        // Uids and times are the same for the same seed.
        assert!(whole.starts_with(&reply.body[..reply.body.len().min(20)]));
    }
    let server = server(Fault::on(Verb::List).cut_after_bytes(50)).await;
    let reply = get(server.address(), LIST).await;
    assert_eq!((reply.body.len(), reply.ending), (50, Ending::Closed));
}

#[tokio::test]
async fn answers_are_cut_between_events() {
    let server = server(Fault::on(Verb::Watch).cut_after_events(2)).await;
    let reply = get(server.address(), WATCH).await;
    assert_eq!((reply.events().len(), reply.ending), (2, Ending::Closed));
}

#[tokio::test]
async fn connections_are_reset() {
    let server = server(Fault::on(Verb::List).reset()).await;
    let error = request(server.address(), "GET", LIST, &[], b"", PATIENCE).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    server.with_faults(|faults| {
        faults.clear();
        faults.add(Fault::on(Verb::Watch).interrupt(Point::Events(1), Interruption::Reset));
    });
    // What was sent before the reset may be lost with it.
    if let Ok(reply) = request(server.address(), "GET", WATCH, &[], b"", PATIENCE).await {
        assert_eq!(reply.ending, Ending::Reset);
    }
}

#[tokio::test]
async fn a_hanging_request_gets_no_answer_and_a_blackhole_nothing_after_the_head() {
    let server = server(Fault::on(Verb::List).hang()).await;
    let short = Duration::from_millis(100);
    let error = request(server.address(), "GET", LIST, &[], b"", short).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    server.inject(Fault::on(Verb::Watch).blackhole());
    let mut connection = Connection::open(server.address()).await.unwrap();
    connection.send("GET", WATCH, &[], b"").await.unwrap();
    let mut reply = connection.head().await.unwrap();
    assert_eq!(reply.status, 200);
    let more = tokio::time::timeout(short, connection.more(&mut reply)).await;
    assert!(more.is_err(), "nothing comes, and the connection stays open");
    // A dead connection does not keep the server from ending.
    server.stop().await;
}

#[tokio::test]
async fn error_events_end_a_watch() {
    let server = server(Fault::on(Verb::Watch).error_event(410, 1)).await;
    let events = get(server.address(), WATCH).await.events();
    assert_eq!(kinds(&events), ["ADDED", "ERROR"]);
    assert_eq!(events[1]["object"]["code"], 410);
    assert_eq!(events[1]["object"]["reason"], "Expired");
}

/// K5, and a client that takes any bookmark for the end.
#[tokio::test]
async fn the_end_bookmark_can_be_missing_plain_or_late() {
    let marked =
        |event: &Value| event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
    let ask = async |what| {
        let server = server(Fault::on(Verb::Watch).initial_events_end(what)).await;
        get(server.address(), WATCH).await.events()
    };
    assert_eq!(kinds(&ask(InitialEventsEnd::Missing).await), ["ADDED"; 3]);
    let plain = ask(InitialEventsEnd::Plain).await;
    assert_eq!(kinds(&plain), ["ADDED", "ADDED", "ADDED", "BOOKMARK"]);
    assert!(!marked(&plain[3]));
    let late = ask(InitialEventsEnd::Late(Duration::from_millis(300))).await;
    assert!(marked(&late[3]));
}

#[tokio::test]
async fn lost_parameters_are_as_if_never_sent() {
    let path = format!("{LIST}?watch=true&timeoutSeconds=1&sendInitialEvents=true");
    let server = server(None).await;
    assert_eq!(get(server.address(), &path).await.status, 422);
    server.inject(Fault::on(Verb::Watch).ignore_query(["sendInitialEvents"]));
    assert_eq!(get(server.address(), &path).await.status, 200);
}

/// K3, K4.
#[tokio::test]
async fn one_object_can_be_undecodable() {
    let server = server("list+watch:configmaps:undecodable=2".parse::<Fault>().unwrap()).await;
    let list = get(server.address(), LIST).await.json();
    let spoiled = |object: &Value| object["data"].is_string();
    let spoiled_items: Vec<bool> = list["items"].as_array().unwrap().iter().map(spoiled).collect();
    assert_eq!(spoiled_items, [false, true, false]);
    let events = get(server.address(), WATCH).await.events();
    assert!(spoiled(&events[1]["object"]) && !spoiled(&events[2]["object"]));
}

#[tokio::test]
async fn events_can_be_strange() {
    let server =
        server("watch:without-metadata=1,unknown-type=2,duplicate-events".parse::<Fault>().unwrap()).await;
    let events = get(server.address(), WATCH).await.events();
    assert_eq!(kinds(&events)[..4], ["ADDED", "ADDED", "RELOCATED", "RELOCATED"]);
    assert!(events[0]["object"].get("metadata").is_none());
}

/// K8.
#[tokio::test]
async fn versions_can_go_back_within_a_watch() {
    let server = server("watch:regress-versions".parse::<Fault>().unwrap()).await;
    let update = json!({"metadata": {"namespace": "a", "name": "one"}, "data": {"k": "new"}});
    let first =
        get(server.address(), LIST).await.json()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    server.with_core(|core| {
        core.update("configmaps", update.clone()).unwrap();
        let mut update = update;
        update["data"]["k"] = "newer".into();
        core.update("configmaps", update).unwrap();
    });
    let path = format!("{LIST}?watch=true&timeoutSeconds=1&resourceVersion={first}");
    let events = get(server.address(), &path).await.events();
    let values: Vec<&str> =
        events.iter().map(|event| event["object"]["data"]["k"].as_str().unwrap()).collect();
    assert_eq!(values, ["new", "newer", "new"]);
}

/// K6.
#[tokio::test]
async fn continue_tokens_can_always_be_expired() {
    let server = server("list:expire-continue".parse::<Fault>().unwrap()).await;
    let first = get(server.address(), &format!("{LIST}?limit=1")).await.json();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = get(server.address(), &format!("{LIST}?limit=1&continue={token}")).await;
    assert_eq!(second.status, 410);
    let fresh = second.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    server.with_faults(Faults::clear);
    let rest = get(server.address(), &format!("{LIST}?continue={fresh}")).await;
    assert_eq!(rest.json()["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn opaque_versions_go_both_ways() {
    let server = server("*:opaque-versions".parse::<Fault>().unwrap()).await;
    let list = get(server.address(), LIST).await.json();
    let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    assert!(version.starts_with("opaque-"));
    create(&server, "four");
    let path = format!("{LIST}?watch=true&timeoutSeconds=1&resourceVersion={version}");
    let events = get(server.address(), &path).await.events();
    assert_eq!(kinds(&events), ["ADDED"]);
    assert!(events[0]["object"]["metadata"]["resourceVersion"].as_str().unwrap().starts_with("opaque-"));
}

#[tokio::test]
async fn lists_can_have_the_habits_of_other_servers() {
    let server = server("list:items-first,empty-list-version".parse::<Fault>().unwrap()).await;
    let reply = get(server.address(), LIST).await;
    assert!(reply.body.starts_with(b"{\"items\":["));
    assert_eq!(reply.json()["metadata"]["resourceVersion"], "");
    server.with_faults(Faults::clear);
    server.inject("list:items-null".parse().unwrap());
    assert_eq!(get(server.address(), LIST).await.json()["items"], Value::Null);
}

/// Kubernetes 1.37 compresses every flush on its own.
#[tokio::test]
async fn watches_can_be_compressed_member_by_member() {
    for how in [Gzip::MemberPerEvent, Gzip::Whole] {
        let server = server(Fault::on(Verb::Watch).gzip(how)).await;
        let gzip = [("Accept-Encoding", "gzip")];
        let reply = request(server.address(), "GET", WATCH, &gzip, b"", PATIENCE).await.unwrap();
        assert_eq!(reply.header("content-encoding"), Some("gzip"));
        let members = reply.body.windows(3).filter(|bytes| *bytes == [0x1f, 0x8b, 8]).count();
        assert_eq!(members, if how == Gzip::Whole { 1 } else { 4 });
        assert_eq!(gunzip(&reply.body).iter().filter(|byte| **byte == b'\n').count(), 4);
        // Who does not accept it gets it plain.
        assert_eq!(get(server.address(), WATCH).await.header("content-encoding"), None);
    }
}

#[tokio::test]
async fn bytes_can_trickle() {
    let server = server("watch:chunks=1".parse::<Fault>().unwrap()).await;
    let reply = get(server.address(), WATCH).await;
    assert_eq!(reply.chunks, reply.body.len());
    assert_eq!(reply.events().len(), 4);
}

#[tokio::test]
async fn a_restart_ends_running_watches_and_moves_the_window() {
    let server = server(None).await;
    let mut connection = Connection::open(server.address()).await.unwrap();
    let path = format!("{LIST}?watch=true&resourceVersion=1");
    connection.send("GET", &path, &[], b"").await.unwrap();
    let mut reply = connection.head().await.unwrap();
    for _ in 0..3 {
        connection.more(&mut reply).await.unwrap();
    }
    server.restart();
    assert!(!connection.more(&mut reply).await.unwrap(), "a clean end");
    let events = get(server.address(), &path).await.events();
    assert_eq!(events[0]["object"]["code"], 410);
}

#[tokio::test]
async fn history_can_be_cut_by_a_fault() {
    let server = server("watch:forget-history,once".parse::<Fault>().unwrap()).await;
    let events = get(server.address(), &format!("{LIST}?watch=true&resourceVersion=1")).await.events();
    assert_eq!(events[0]["object"]["code"], 410);
}

/// A client without any cleverness gets through every profile.
#[tokio::test]
async fn profiles_let_a_client_make_progress() {
    for profile in [Profile::None, Profile::Some, Profile::Storm] {
        let server = server(None).await;
        server.with_faults(|faults| faults.set_profile(profile));
        for _ in 0..20 {
            let mut attempts = 0;
            loop {
                attempts += 1;
                let reply = request(server.address(), "GET", LIST, &[], b"", PATIENCE).await;
                if reply.is_ok_and(|reply| reply.status == 200 && reply.ending == Ending::Complete) {
                    break;
                }
                assert!(attempts < 6, "{profile}");
            }
        }
        let injected: u64 = server.with_faults(|faults| faults.injected().values().sum());
        assert_eq!(injected > 0, profile != Profile::None, "{profile}: {injected}");
    }
}

#[tokio::test]
async fn the_kubeconfig_names_server_and_token() {
    let server = ApiServer::builder().token("secret").start().await.unwrap();
    let config = server.kubeconfig();
    assert!(config.contains(&format!("server: \"{}\"", server.url())));
    assert!(config.contains("token: \"secret\""));
}

#[tokio::test]
async fn request_bodies_have_a_limit() {
    let server = server(None).await;
    let body = vec![b' '; (3 << 20) + 1];
    let kind = [("Content-Type", "application/json")];
    let reply = request(server.address(), "POST", LIST, &kind, &body, PATIENCE).await.unwrap();
    assert_eq!((reply.status, reply.header("connection")), (413, Some("close")));
}

/// Time is tokio's: an hour passes in no time.
#[tokio::test(start_paused = true)]
async fn a_paused_clock_moves_the_server_too() {
    let server = server(None).await;
    let mut connection = Connection::open(server.address()).await.unwrap();
    connection.send("GET", &format!("{LIST}?watch=true&timeoutSeconds=3600"), &[], b"").await.unwrap();
    let mut reply = connection.head().await.unwrap();
    while connection.more(&mut reply).await.unwrap() {}
    assert_eq!(reply.events().len(), 3);
    assert!(server.now() >= Duration::from_secs(3_600), "{:?}", server.now());
}

#[tokio::test]
async fn a_server_that_is_down_refuses_connections_and_comes_back_with_what_it_had() {
    let server = server(None).await;
    let mut watch = Connection::open(server.address()).await.unwrap();
    watch.send("GET", &format!("{LIST}?watch=true"), &[], b"").await.unwrap();
    let mut reply = watch.head().await.unwrap();
    // Kept open after its answer: a restart alone would leave it.
    let mut idle = Connection::open(server.address()).await.unwrap();
    idle.send("GET", LIST, &[], b"").await.unwrap();
    assert_eq!(idle.reply(PATIENCE).await.unwrap().status, 200);

    let outage = server.go_down().await;
    // It may be sent, into a socket that nobody has any more.
    let _ = idle.send("GET", LIST, &[], b"").await;
    assert!(idle.reply(PATIENCE).await.is_err());
    while watch.more(&mut reply).await.is_ok() {}
    assert!(reply.events().len() <= 3);
    let refused = Connection::open(server.address()).await.err().unwrap();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);

    drop(outage);
    let again = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Ok(connection) = Connection::open(server.address()).await {
                break connection;
            }
            tokio::task::yield_now().await;
        }
    });
    let mut again = again.await.unwrap();
    again.send("GET", LIST, &[], b"").await.unwrap();
    assert_eq!(again.reply(PATIENCE).await.unwrap().json()["items"].as_array().unwrap().len(), 3);
    server.stop().await;
}

/// HTTP/2 without TLS, by prior knowledge: many exchanges on one connection, some of them broken.
#[tokio::test]
async fn http2_carries_many_exchanges() {
    use http_body_util::{BodyExt, Empty};
    use hyper_util::rt::{TokioExecutor, TokioIo};

    let server = server(Fault::on(Verb::Watch).after(1).once().cut_after_events(1)).await;
    let stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let connection = tokio::spawn(connection);
    let mut ask = |path: &str| {
        let uri = format!("{}{path}", server.url());
        sender.send_request(http::Request::get(uri).body(Empty::<bytes::Bytes>::new()).unwrap())
    };
    let (watch, cut, list) = (ask(WATCH), ask(WATCH), ask(LIST));
    let (watch, cut, list) = tokio::join!(watch, cut, list);
    assert_eq!(list.unwrap().collect().await.unwrap().to_bytes().last(), Some(&b'\n'));
    assert!(cut.unwrap().collect().await.is_err(), "only this stream is broken");
    let body = watch.unwrap().collect().await.unwrap().to_bytes();
    assert_eq!(body.iter().filter(|byte| **byte == b'\n').count(), 4);
    drop(sender);
    server.stop().await;
    let _ = connection.await;
}
