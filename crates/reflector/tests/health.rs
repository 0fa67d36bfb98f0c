//! Probes: what is ready, what is live, and why not, against a source that the test answers, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use reflector::{
    Control, Reflector,
    health::{Health, HealthCheck, Probe, Report, Verdict},
    protocol::Failure,
};
use support::*;
use tokio::sync::oneshot;

/// A source under another name.
struct Named(Scripted, &'static str);

impl reflector::source::ListWatch<Json> for Named {
    async fn list(
        &self,
        options: reflector::source::ListOptions,
    ) -> Result<reflector::source::ListStream<Json>, Failure> {
        self.0.list(options).await
    }

    async fn watch(
        &self,
        options: reflector::source::WatchOptions,
    ) -> Result<reflector::source::WatchStream<Json>, Failure> {
        self.0.watch(options).await
    }

    fn describe(&self) -> String {
        self.1.to_owned()
    }
}

fn forbidden(message: &str) -> Failure {
    refused(403, "Forbidden", message)
}

fn start(name: &'static str) -> (Reflector<Json>, Server) {
    let (source, server) = scripted();
    (Reflector::builder(Named(source, name)).seed(1).start(), server)
}

/// Refuses the streaming list and the list after it.
async fn refuse(reflector: &Reflector<Json>, server: &mut Server, failure: &Failure) {
    server.watch().await.refuse(failure.clone());
    let mut status = reflector.handle().watch_status();
    if status.wait_for(|status| status.blocked.is_some()).await.is_err() {
        panic!("the reflector has ended");
    }
}

fn lines(report: &Report) -> Vec<String> {
    report.to_string().lines().map(ToOwned::to_owned).collect()
}

/// CR#1653: a timeout without a cause. radar#477: one type that cannot sync blocks all others.
#[tokio::test(start_paused = true)]
async fn a_source_that_fails_names_itself_and_its_cause_and_nobody_else() {
    let (pods, mut pod_server) = start("pods");
    let (secrets, mut secret_server) = start("secrets in namespace shop");
    let health = Health::new();
    health.add(pods.monitor());
    health.add(secrets.monitor());
    let starting = health.readyz();
    assert!(!starting.is_ok());
    assert_eq!(starting.failed().count(), 2);
    assert!(lines(&starting)[0].starts_with("[-]pods failed: not synced yet: "), "{starting}");

    let _stream = pod_server.sync(&[object("a", "u", "5")], "7").await;
    pods.ready().await.unwrap();
    refuse(&secrets, &mut secret_server, &forbidden("secrets is forbidden")).await;
    let report = health.readyz();
    assert_eq!(
        lines(&report),
        [
            "[+]pods ok",
            "[-]secrets in namespace shop failed: cannot watch: 403 Forbidden: secrets is forbidden",
            "readyz check failed"
        ]
    );
    assert_eq!(
        report.failed().map(|source| source.name.as_str()).collect::<Vec<_>>(),
        ["secrets in namespace shop"]
    );
    // Nothing that a restart would cure.
    assert_eq!(
        lines(&health.livez()),
        ["[+]pods ok", "[+]secrets in namespace shop ok", "livez check passed"]
    );
    pods.stop().await;
    secrets.stop().await;
}

/// CR#1653 again: failures that are waited out are causes too.
#[tokio::test(start_paused = true)]
async fn a_failure_that_is_waited_out_is_named_until_the_first_sync() {
    let (pods, mut server) = start("pods");
    let health = Health::new();
    health.add(pods.monitor());
    server.watch().await.refuse(Failure::transport("connection refused"));
    let mut status = pods.handle().watch_status();
    status.wait_for(|status| status.last_error.is_some()).await.unwrap();
    let cause = health.readyz().sources[0].cause.clone().unwrap();
    assert_eq!(cause, "not synced yet: waiting to retry; cannot watch: connection refused");
    let _stream = server.sync(&[], "7").await;
    pods.ready().await.unwrap();
    assert_eq!(health.readyz().to_string(), "[+]pods ok\nreadyz check passed\n");
    pods.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stale_source_is_not_live_until_it_is_current_again() {
    let (pods, mut server) = start("pods");
    let health = Health::new();
    let clone = health.clone();
    health.add(pods.monitor());
    let stream = server.sync(&[], "7").await;
    pods.ready().await.unwrap();
    tokio::time::sleep(Duration::from_secs(85)).await;
    assert!(health.livez().is_ok(), "there is no limit by default");
    let health = health.stale_limit(Duration::from_secs(60));
    let report = clone.livez();
    assert_eq!(
        lines(&report),
        ["[-]pods failed: stale for 85 s, more than the limit of 60 s", "livez check failed"]
    );
    assert!(health.readyz().is_ok());
    assert_eq!(health.readyz().sources[0].staleness, Some(Duration::from_secs(85)));
    stream.send(vec![bookmark("9")]);
    let mut status = pods.handle().watch_status();
    status.wait_for(|status| status.counts.bookmarks == 1).await.unwrap();
    assert!(health.livez().is_ok());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(health.livez().is_ok(), "at the limit is not beyond it");
    pods.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_has_ended_unasked_is_neither_ready_nor_live() {
    let (source, mut server) = scripted();
    let (said, is_said) = oneshot::channel();
    let mut said = Some(said);
    let letters = Reflector::builder(source)
        .on_error(move |_| {
            said.take().map(|said| said.send(()));
            Control::Stop
        })
        .start();
    let health = Health::new();
    health.add(letters.monitor());
    let stream = server.sync(&[], "7").await;
    letters.ready().await.unwrap();
    assert!(health.readyz().is_ok() && health.livez().is_ok());
    stream.fail(Failure::transport("reset by peer"));
    is_said.await.unwrap();
    let mut status = letters.handle().watch_status();
    status.wait_for(|status| status.phase == reflector::protocol::Phase::Stopped).await.unwrap();
    let cause = "[-]letters in namespace ns failed: stopped, though nobody asked for it; the last failure was: \
                 cannot watch: reset by peer";
    assert_eq!(lines(&health.readyz()), [cause, "readyz check failed"]);
    assert_eq!(lines(&health.livez()), [cause, "livez check failed"]);
}

/// A handle that was dropped by mistake looks like a reflector that runs, to everybody but this.
#[tokio::test(start_paused = true)]
async fn a_monitor_keeps_nothing_alive_and_a_forgotten_handle_is_noticed() {
    let (letters, mut server) = start("letters");
    let health = Health::new();
    let monitor = letters.monitor();
    health.add(monitor.clone());
    let stream = server.sync(&[], "7").await;
    letters.ready().await.unwrap();
    drop(letters);
    stream.closed().await;
    let mut looked = 0;
    while health.livez().is_ok() {
        looked += 1;
        assert!(looked < 100, "{}", health.livez());
        tokio::task::yield_now().await;
    }
    assert_eq!(monitor.check().stopped.as_deref(), Some("stopped, though nobody asked for it"));
    assert!(!health.readyz().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_source_that_was_stopped_is_not_ready_but_live() {
    let (letters, mut server) = start("letters");
    let health = Health::new();
    let id = health.add(letters.monitor());
    let _stream = server.sync(&[], "7").await;
    letters.ready().await.unwrap();
    letters.stop().await;
    assert_eq!(lines(&health.readyz())[0], "[-]letters failed: stopped");
    assert!(health.livez().is_ok());
    assert!(health.remove(id) && !health.remove(id));
    assert!(health.readyz().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_reflector_and_its_handle_are_checks_too() {
    let (letters, mut server) = start("letters");
    let checks: [&dyn HealthCheck; 2] = [&letters, letters.handle()];
    assert!(checks.iter().all(|check| check.name() == "letters" && check.check().not_ready.is_some()));
    let _stream = server.sync(&[], "7").await;
    letters.ready().await.unwrap();
    assert!(checks.iter().all(|check| check.check().not_ready.is_none()));
}

#[tokio::test(start_paused = true)]
async fn causes_hold_no_credentials() {
    let (letters, mut server) = start("letters");
    let health = Health::new();
    health.add(letters.monitor());
    refuse(&letters, &mut server, &forbidden("no list with Authorization: Bearer hunter2hunter2 for\nyou"))
        .await;
    let report = health.readyz();
    let said = "403 Forbidden: no list with Authorization [redacted]";
    assert!(report.to_string().contains(said), "{report}");
    assert!(report.to_json().contains(said) && !report.to_json().contains("hunter2"));
}

/// Answers every request with 403 from now on, and waits until that is noticed.
async fn deny(letters: &Reflector<Json>, mut server: Server) {
    tokio::spawn(async move {
        loop {
            match server.next().await {
                Request::Watch(_, answer) => drop(answer.send(Err(forbidden("not yours any more")))),
                Request::List(_, answer) => drop(answer.send(Err(forbidden("not yours any more")))),
                Request::Refresh => {}
            }
        }
    });
    let mut status = letters.handle().watch_status();
    status.wait_for(|status| status.blocked.is_some()).await.unwrap();
}

/// Its copy is there, so it is ready; but it must not look well, and a restart must say what it is for.
#[tokio::test(start_paused = true)]
async fn a_source_that_is_refused_after_its_sync_is_ready_with_a_warning_and_its_staleness_has_a_cause() {
    let (letters, mut server) = start("letters");
    let health = Health::new().stale_limit(Duration::from_secs(300));
    health.add(letters.monitor());
    let stream = server.sync(&[], "7").await;
    letters.ready().await.unwrap();
    drop(stream);
    deny(&letters, server).await;
    let trouble = "cannot watch: 403 Forbidden: not yours any more";
    for report in [health.readyz(), health.livez()] {
        assert!(report.is_ok());
        assert_eq!(lines(&report)[0], format!("[~]letters ok, but {trouble}"));
        assert!(
            report.to_json().contains(&format!(r#""ok":true,"warning":"{trouble}""#)),
            "{}",
            report.to_json()
        );
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(health.readyz().is_ok());
    let live = health.livez();
    let line = &lines(&live)[0];
    assert!(line.starts_with("[-]letters failed: stale for 60"), "{line}");
    assert!(line.ends_with(&format!(" s, more than the limit of 300 s; {trouble}")), "{line}");
    assert_eq!(live.sources[0].warning, None, "it is in the cause");
}

/// Also while a request is under way that may hang.
#[tokio::test(start_paused = true)]
async fn a_failure_after_the_sync_is_shown_until_something_works_again() {
    let (letters, mut server) = start("letters");
    let health = Health::new();
    health.add(letters.monitor());
    let stream = server.sync(&[], "7").await;
    letters.ready().await.unwrap();
    stream.fail(Failure::transport("reset by peer"));
    let request = server.watch().await;
    assert_eq!(lines(&health.readyz())[0], "[~]letters ok, but cannot watch: reset by peer");
    let _stream = request.open();
    let mut status = letters.handle().watch_status();
    status.wait_for(|status| status.phase == reflector::protocol::Phase::Watching).await.unwrap();
    assert_eq!(lines(&health.readyz())[0], "[+]letters ok");
}

/// It would be restarted for ever, for something that it has been told to do.
#[tokio::test(start_paused = true)]
async fn a_source_that_was_stopped_stays_live_however_old_its_data_gets() {
    let (letters, mut server) = start("letters");
    let health = Health::new().stale_limit(Duration::from_secs(60));
    health.add(letters.monitor());
    let _stream = server.sync(&[], "7").await;
    letters.ready().await.unwrap();
    letters.stop().await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(lines(&health.livez())[0], "[+]letters ok");
    assert_eq!(lines(&health.readyz())[0], "[-]letters failed: stopped");
}

/// The name comes from the application, and may have a resource in it that a user chose.
#[test]
fn the_name_of_a_check_cannot_forge_a_line_or_show_a_credential() {
    struct Forged;
    impl HealthCheck for Forged {
        fn name(&self) -> String {
            "bad\n[+]good ok\nreadyz check passed https://me:hunter2@example.com".into()
        }
        fn check(&self) -> Verdict {
            Verdict::not_ready("x")
        }
    }
    let health = Health::new();
    health.add(Forged);
    let report = health.readyz();
    assert_eq!(lines(&report).len(), 2, "{report}");
    assert!(!report.to_string().contains("hunter2") && !report.sources[0].name.contains('\n'), "{report}");
}

#[test]
fn a_check_that_panics_is_not_ready_and_the_others_are_heard() {
    struct Panics(bool);
    impl HealthCheck for Panics {
        fn name(&self) -> String {
            if self.0 { panic!("a name that panics") } else { "panics".into() }
        }
        fn check(&self) -> Verdict {
            panic!("a check that panics")
        }
    }
    struct Well;
    impl HealthCheck for Well {
        fn name(&self) -> String {
            "well".into()
        }
        fn check(&self) -> Verdict {
            Verdict::ready()
        }
    }
    let health = Health::new();
    health.add(Panics(false));
    health.add(Panics(true));
    health.add(Well);
    let expected = [
        "[-]panics failed: the check panicked",
        "[-]a check without a name failed: the check panicked",
        "[+]well ok",
        "readyz check failed",
    ];
    assert_eq!(lines(&health.readyz()), expected);
    assert!(health.livez().is_ok());
}

/// One's own checks; they are asked without the lock, so that they may use the list themselves.
#[tokio::test]
async fn a_check_may_be_anything_even_one_that_asks_the_list() {
    struct Nested(Health);
    impl HealthCheck for Nested {
        fn name(&self) -> String {
            "nested".into()
        }
        fn check(&self) -> Verdict {
            let id = self.0.add(std::sync::Arc::new(Fixed));
            self.0.remove(id);
            Verdict::not_ready("as\never")
        }
    }
    struct Fixed;
    impl HealthCheck for Fixed {
        fn name(&self) -> String {
            "fixed".into()
        }
        fn check(&self) -> Verdict {
            Verdict::ready().staleness(Some(Duration::from_millis(1500)))
        }
    }
    let health = Health::new();
    health.add(Nested(health.clone()));
    health.add(Fixed);
    let report = health.readyz();
    assert_eq!(report.probe, Probe::Ready);
    assert_eq!(
        report.to_json(),
        r#"{"probe":"readyz","ok":false,"sources":[{"name":"nested","ok":false,"cause":"as ever"},{"name":"fixed","ok":true,"stalenessSeconds":1.5}]}"#
    );
}

#[cfg(feature = "axum")]
mod http {
    use axum::{
        body::{Body, to_bytes},
        http::{Request, header},
    };
    use tower::ServiceExt;

    use super::*;

    async fn get(health: &Health, path: &str, accept: Option<&str>) -> (u16, String, String) {
        let mut request = Request::get(path);
        if let Some(accept) = accept {
            request = request.header(header::ACCEPT, accept);
        }
        let response = health.router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
        let content_type = response.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
        let body = to_bytes(response.into_body(), 1 << 16).await.unwrap();
        (code, content_type, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn the_router_answers_probes_in_text_and_json() {
        let (letters, mut server) = start("letters");
        let health = Health::new();
        health.add(letters.monitor());
        refuse(&letters, &mut server, &forbidden("not yours")).await;
        let (code, content_type, body) = get(&health, "/readyz", Some("*/*")).await;
        assert_eq!((code, content_type.as_str()), (503, "text/plain; charset=utf-8"));
        assert_eq!(body, "[-]letters failed: cannot watch: 403 Forbidden: not yours\nreadyz check failed\n");
        assert_eq!(get(&health, "/livez", None).await.2, "ok");
        assert_eq!(get(&health, "/livez", None).await.0, 200);
        assert_eq!(get(&health, "/livez?verbose", None).await.2, "[+]letters ok\nlivez check passed\n");
        for (path, accept) in [
            ("/readyz?format=json", None),
            ("/readyz?verbose=1&format=json", Some("text/plain")),
            ("/readyz", Some("text/html, Application/JSON;q=0.9")),
        ] {
            let (code, content_type, body) = get(&health, path, accept).await;
            assert_eq!((code, content_type.as_str()), (503, "application/json"), "{path}");
            assert_eq!(body, health.readyz().to_json());
        }
    }

    #[tokio::test]
    async fn other_paths_and_methods_are_refused() {
        let router = Health::new().router();
        let code = async |request: Request<Body>| {
            let response = router.clone().oneshot(request).await.unwrap();
            response.status().as_u16()
        };
        assert_eq!(code(Request::get("/healthz").body(Body::empty()).unwrap()).await, 404);
        assert_eq!(code(Request::post("/livez").body(Body::empty()).unwrap()).await, 405);
        assert_eq!(code(Request::head("/livez").body(Body::empty()).unwrap()).await, 200);
    }
}
