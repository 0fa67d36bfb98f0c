//! What bad input gets: one line that says what was tried and what was answered, and a code.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;

use reflector_apiserver::{
    AccessRule, ApiServer, Verb,
    faults::{ErrorBody, Fault},
};
use support::{Server, old::answering, run};

/// The line of a command that fails with this code.
fn fails(code: i32, args: &[&str]) -> String {
    let ended = run(args).expect(code);
    assert_eq!(ended.stdout, "", "{args:?}");
    ended.error().to_owned()
}

#[test]
fn a_server_that_cannot_be_reached() {
    // A port that was free a moment ago, and that nobody listens on.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for once in [&["--once"][..], &[]] {
        let error = fails(1, &[&["watch", "pods", "--server", &url][..], once].concat());
        assert!(error.starts_with(&format!("cannot reach {url}: ")), "{error}");
        assert!(error.to_lowercase().contains("refused"), "{error}");
    }
}

#[test]
fn a_server_that_is_no_kubernetes() {
    let html = answering(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<!doctype html><title>Welcome</title>",
    );
    let error = fails(1, &["watch", "pods", "--server", &html]);
    assert!(error.contains("GET /api with 200 and a web page (\"Welcome\")"), "{error}");
    let text = answering("HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\nconnection: close\r\n\r\nnot found");
    let error = fails(1, &["watch", "pods", "--server", &text]);
    assert!(error.contains("404 Not Found (\"not found\"): it is no Kubernetes API server"), "{error}");
    let json =
        answering("HTTP/1.1 200 OK\r\ncontent-length: 13\r\nconnection: close\r\n\r\n{\"kind\":\"Elk\"}");
    let error = fails(1, &["watch", "pods", "--server", &json]);
    assert!(error.contains("does not answer GET /api as a Kubernetes API server does"), "{error}");
    let noise = answering("SSH-2.0-OpenSSH_9.9\r\n");
    let error = fails(1, &["watch", "pods", "--server", &noise]);
    assert!(error.starts_with(&format!("cannot reach {noise}: ")), "{error}");
}

#[test]
fn addresses_that_are_none() {
    for url in ["127.0.0.1:8080", "ftp://x", "http://"] {
        let error = fails(2, &["watch", "pods", "--server", url]);
        assert!(error.contains("is no address; expected http://HOST:PORT"), "{error}");
    }
}

#[test]
fn resources_that_are_not_there() {
    let server = Server::start(ApiServer::builder());
    let url = server.url();
    let error = fails(1, &["watch", "deploymnet", "--server", &url]);
    assert_eq!(
        error,
        format!("the server has no resource `deploymnet`; did you mean `deployments.apps`? (asked {url})")
    );
    let error = fails(1, &["watch", "zzzzz", "--server", &url]);
    assert_eq!(error, format!("the server has no resource `zzzzz` (asked {url})"));
    fails(2, &["watch", "pods/one", "--server", &url]);
    fails(2, &["watch", "pods", "-n", "a/b", "--server", &url]);
}

#[test]
fn what_is_forbidden() {
    let rule = AccessRule { resource: Some("pods".to_owned()), ..AccessRule::default() };
    let server = Server::start(ApiServer::builder().deny(rule));
    for once in [&["--once"][..], &[]] {
        let error =
            fails(1, &[&["watch", "pods", "-n", "shop", "--server", &server.url()][..], once].concat());
        assert!(error.contains("pods in namespace shop: 403 Forbidden: pods is forbidden"), "{error}");
        assert!(error.ends_with("; somebody has to grant `list` and `watch`"), "{error}");
    }
}

#[test]
fn credentials_that_are_not_accepted() {
    let server = Server::start(ApiServer::builder().token("secret"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    std::fs::write(&file, server.api.kubeconfig().replace("secret", "stolen")).unwrap();
    let error = fails(1, &["watch", "pods", "--kubeconfig", file.to_str().unwrap()]);
    assert!(
        error.contains("401 Unauthorized") && error.contains("does not accept these credentials"),
        "{error}"
    );
}

#[test]
fn selectors_that_are_none() {
    let server = Server::start(ApiServer::builder());
    for (option, selector) in [("-l", "a in ("), ("--field-selector", "spec.color=red")] {
        for once in [&["--once"][..], &[]] {
            let error = fails(
                1,
                &[&["watch", "pods", "--server", &server.url(), option, selector][..], once].concat(),
            );
            assert!(error.contains("400 BadRequest") && error.ends_with("; check the selectors"), "{error}");
        }
    }
}

#[test]
fn kubeconfigs_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    let name = file.to_str().unwrap();
    let error = fails(1, &["watch", "pods", "--kubeconfig", name]);
    assert!(error.starts_with(&format!("cannot read the kubeconfig {name}: ")), "{error}");
    std::fs::write(&file, "clusters: [").unwrap();
    let error = fails(1, &["watch", "pods", "--kubeconfig", name]);
    assert!(error.starts_with(&format!("the kubeconfig {name} is no valid YAML")), "{error}");
    std::fs::write(&file, "").unwrap();
    let error = fails(1, &["watch", "pods", "--kubeconfig", name]);
    assert!(error.contains("has no contexts"), "{error}");
    std::fs::write(&file, "contexts: [{name: a, context: {cluster: c}}, {name: b, context: {cluster: c}}]\n")
        .unwrap();
    let error = fails(1, &["watch", "pods", "--kubeconfig", name, "--context", "x"]);
    assert_eq!(error, format!("the kubeconfig {name} has no context `x`; it has a, b"));
    let error = fails(1, &["watch", "pods", "--kubeconfig", name]);
    assert!(error.contains("has no current context; choose one with --context: it has a, b"), "{error}");
    let error = fails(1, &["watch", "pods", "--kubeconfig", name, "--context", "a"]);
    assert!(error.contains("has no cluster `c`"), "{error}");
}

#[test]
fn without_any_configuration() {
    let error = fails(1, &["watch", "pods"]);
    assert!(
        error.starts_with("cannot read the kubeconfig") && error.contains("this is not a pod"),
        "{error}"
    );
    assert!(error.ends_with("name a cluster with --server or --kubeconfig"), "{error}");
}

#[test]
fn servers_that_refuse_for_a_while_are_asked_again() {
    let server = Server::with_objects();
    server.api.inject(
        Fault::on(Verb::Watch)
            .or_on(Verb::List)
            .resource("pods")
            .times(2)
            .status(503)
            .body(ErrorBody::Text("not now".into())),
    );
    let ended = run(&["watch", "pods", "--once", "-o", "name", "--server", &server.url()]).expect(0);
    assert_eq!(ended.stdout, "pod/lone\n");
    assert!(ended.stderr.contains("503") && ended.stderr.contains("trying again in"), "{}", ended.stderr);
}

#[test]
fn what_makes_no_sense_is_usage() {
    for args in [
        &[][..],
        &["wach", "pods"],
        &["watch"],
        &["watch", "pods", "-A", "-n", "x"],
        &["watch", "pods", "-o", "table"],
        &["demo", "--duration", "long"],
        &["demo", "--rate", "-1"],
        &["demo", "--faults", "hurricane"],
        &["apiserver", "--listen", "nowhere"],
        &["completions", "cmd"],
    ] {
        let ended = run(args).expect(2);
        assert_eq!(ended.stdout, "", "{args:?}");
        assert!(!ended.stderr.is_empty(), "{args:?}");
    }
    let error = fails(2, &["apiserver", "--faults", "watch:pods:hung"]);
    assert!(error.contains("unknown setting `hung`"), "{error}");
}
