//! What is in a Secret, and the token that it was read with, are in no log and in no `Debug`: not while all is well, and not
//! when everything breaks.
//!
//! This binary records everything that is logged at any level, by this library and by all that it stands on.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(feature = "kube")]

mod support;

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    sync::{Mutex, MutexGuard, Once, PoisonError},
    time::Duration,
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::config::AuthInfo;
use reflector::{
    BodyForm, Format, KubeListWatch, Reflector, SharedInformer, health::Health, informer::Callbacks,
    kube_client, transform::TransformError,
};
use reflector_apiserver::{
    ApiServer, Verb,
    faults::{Effect, Fault},
};
use serde::Deserialize;
use serde_json::json;
use support::cluster::{PATIENCE, fast, until};
use tracing::{
    Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// In `data`, as base64 and as what that means; and the bearer token.
const PLAIN: &str = "correct-horse-battery-staple";
const BASE64: &str = "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5LXN0YXBsZQ==";
const TOKEN: &str = "bearer-token-nobody-may-see";

/// Everything that was logged.
static LOG: Mutex<String> = Mutex::new(String::new());

fn log() -> MutexGuard<'static, String> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes down every field of every span and event.
struct Recorder;

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut line = format!("\nspan {}", attributes.metadata().name());
        attributes.record(&mut Fields(&mut line));
        log().push_str(&line);
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        let mut line = String::new();
        values.record(&mut Fields(&mut line));
        log().push_str(&line);
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = format!("\n{} {}:", event.metadata().level(), event.metadata().target());
        event.record(&mut Fields(&mut line));
        log().push_str(&line);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

fn record() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Recorder).unwrap());
}

fn assert_clean(what: &str, text: &str) {
    for secret in [PLAIN, BASE64, TOKEN] {
        if let Some(at) = text.find(secret) {
            let from = text[..at].rfind('\n').unwrap_or(0);
            panic!("{what} shows it: {}", &text[from..at + secret.len()]);
        }
    }
}

/// A server that asks for the token, with some Secrets.
async fn cluster() -> ApiServer {
    let server = ApiServer::builder().token(TOKEN).start().await.unwrap();
    for name in ["a", "b", "c"] {
        server.with_core(|core| core.create("secrets", secret(name, 0)).unwrap());
    }
    server
}

fn secret(name: &str, n: u32) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"namespace": "ns", "name": name, "annotations": {"n": n.to_string()}},
        "data": {"password": BASE64},
    })
}

fn source(server: &ApiServer, token: &str) -> KubeListWatch<Secret> {
    let mut config = kube::Config::new(server.url().parse().unwrap());
    let token = serde_json::from_value(json!({ "token": token })).unwrap();
    config.auth_info = AuthInfo { ..token };
    KubeListWatch::namespaced(kube_client(config).unwrap(), "ns")
}

/// A type that no Secret fits.
#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "never made")]
struct Misfit {
    data: BTreeMap<String, u32>,
}

#[tokio::test]
async fn nothing_shows_a_secret_while_it_is_listed_watched_and_broken() {
    record();
    for format in [Format::Protobuf, Format::Json] {
        for faults in [
            vec![],
            vec![Fault::on(Verb::Watch).cut_after_bytes(700).times(2)],
            vec![Fault::on(Verb::List).or_on(Verb::Watch).effect(Effect::WithoutMetadata(1)).times(2)],
            vec![Fault::on(Verb::List).or_on(Verb::Watch).effect(Effect::Undecodable(1)).times(2)],
            vec![Fault::on(Verb::Watch).effect(Effect::UnknownType(2)).times(2)],
            vec![
                Fault::on(Verb::Watch).status(500).times(2),
                Fault::on(Verb::List).cut_after_bytes(300).once(),
            ],
            vec![Fault::on(Verb::Watch).error_event(410, 1).times(2)],
            vec![Fault::on(Verb::Watch).status(401).times(2)],
        ] {
            let server = cluster().await;
            for fault in faults {
                server.inject(fault.resource("secrets"));
            }
            let mut builder = Reflector::builder(source(&server, TOKEN).format(format)).options(fast).seed(1);
            let index = builder.index(|secret: &Secret| secret.data.clone().unwrap_or_default().into_keys());
            let secrets = builder.start();
            let mut events = secrets.cache().subscribe();
            until(&secrets, |status| status.synced).await;
            server.with_core(|core| core.update("secrets", secret("a", 1)).unwrap());
            server.with_core(|core| core.delete("secrets", "ns", "b").unwrap());
            until(&secrets, |_| secrets.cache().snapshot().len() == 2).await;
            let mut shown = format!("{secrets:?} {:?} {index:?}", secrets.status());
            let snapshot = secrets.cache().snapshot();
            write!(shown, "{snapshot:?} {snapshot:#?} {:?} {:?}", secrets.cache(), secrets.handle()).unwrap();
            for object in &snapshot {
                write!(shown, "{object:?} {:?} {:?}", object.meta(), object.get().err()).unwrap();
            }
            while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(50), events.next()).await {
                write!(shown, "{event:?}").unwrap();
            }
            let health = Health::new();
            health.add(secrets.monitor());
            write!(shown, "{health:?} {:?} {}", health.readyz(), health.readyz().to_json()).unwrap();
            assert_clean("Debug", &shown);
            secrets.stop().await;
            server.stop().await;
        }
    }
    let log = log();
    assert!(
        log.contains("the collection is complete") && log.contains("DEBUG kube_client"),
        "nothing was recorded"
    );
    assert_clean("the log", &log);
}

/// Secrets that fit no type, transforms that fail, an index that fails, a handler that is told of it all.
#[tokio::test]
async fn nothing_shows_a_secret_that_cannot_be_used() {
    record();
    for format in [Format::Protobuf, Format::Json] {
        for form in [BodyForm::wire, BodyForm::packed, BodyForm::decoded] {
            let server = cluster().await;
            let source = source(&server, TOKEN).format(format).read_as::<Misfit>();
            let mut builder = Reflector::builder(source).options(fast).seed(1).body(form());
            let index = builder.index(|secret: &Misfit| secret.data.values().copied().collect::<Vec<_>>());
            let informer = SharedInformer::new(builder);
            let (send, mut told) = tokio::sync::mpsc::unbounded_channel();
            let handler = Callbacks::new().on_add(move |secret: reflector::Object<Misfit>, _| {
                let decoded = secret.get();
                send.send(format!("{secret:?} {decoded:?} {decoded:#?} {}", decoded.as_ref().unwrap_err()))
                    .unwrap();
            });
            informer.add_handler(handler).unwrap();
            informer.start().unwrap();
            for _ in 0..3 {
                let shown = tokio::time::timeout(PATIENCE, told.recv()).await.unwrap().unwrap();
                assert!(shown.contains("invalid type: string, expected u32"), "{shown}");
                assert_clean("the error", &shown);
            }
            assert_clean("Debug", &format!("{informer:?} {index:?} {:?}", informer.status()));
            informer.stop().await.unwrap();
            // A transform that does not fit, and one that fails.
            for failing in [false, true] {
                let source = self::source(&server, TOKEN).format(format).read_as::<Misfit>();
                let secrets = Reflector::builder(source).options(fast).transform(
                    move |object: reflector::Object<Misfit>| {
                        if failing {
                            return Err(TransformError::new("no key"));
                        }
                        Ok(object.decode().map(|_| object.clone())?)
                    },
                );
                let secrets = secrets.start();
                until(&secrets, |status| status.synced).await;
                let snapshot = secrets.cache().snapshot();
                let errors: Vec<_> = snapshot.iter().map(|secret| secret.get().unwrap_err()).collect();
                assert_clean("the transform's error", &format!("{errors:?} {}", errors[0]));
                secrets.stop().await;
            }
            server.stop().await;
        }
    }
    let log = log();
    assert!(log.contains("object does not fit its type"), "nothing was recorded");
    assert_clean("the log", &log);
}

/// A token that the server does not take.
#[tokio::test]
async fn nothing_shows_a_token_that_is_refused() {
    record();
    let server = ApiServer::builder().token("another").start().await.unwrap();
    let source = source(&server, TOKEN);
    let shown = format!("{source:?}");
    let secrets = Reflector::builder(source).options(fast).start();
    let status = until(&secrets, |status| status.last_error.is_some()).await;
    assert!(status.last_error.as_ref().unwrap().to_string().contains("Unauthorized"), "{status:?}");
    assert_clean("Debug", &format!("{shown} {status:?} {:?} {secrets:?}", secrets.monitor()));
    secrets.stop().await;
    assert_clean("the log", &log());
}
