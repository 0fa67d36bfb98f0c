//! `reflector apiserver` serves.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;

use support::{Running, run};

fn start(args: &[&str]) -> (Running, String) {
    let mut server = Running::start(&[&["apiserver"][..], args].concat());
    let url = server.stdout("http://127.0.0.1:");
    (server, url)
}

#[test]
fn it_serves_until_it_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    let (mut server, url) = start(&["--objects", "30", "--kubeconfig-out", file.to_str().unwrap()]);
    server.stdout("kubectl --kubeconfig");
    server.stdout("current-context: reflector");
    let by_url = run(&["watch", "pods", "-A", "--once", "-o", "name", "--server", &url]).expect(0);
    let by_file =
        run(&["watch", "pods", "-A", "--once", "-o", "name", "--kubeconfig", file.to_str().unwrap()])
            .expect(0);
    assert_eq!(by_url.stdout.lines().count(), 30);
    assert_eq!(by_file.stdout, by_url.stdout);
    server.signal("TERM");
    server.end().expect(0);
}

#[test]
fn its_faults_are_told() {
    let (mut server, url) =
        start(&["--objects", "3", "-v", "--faults", "list+watch:pods:status=503,times=2"]);
    run(&["watch", "pods", "-A", "--once", "--server", &url]).expect(0);
    server.stderr("reflector: fault status injected (number 1 of its kind)");
    server.stderr("(number 2 of its kind)");
}

#[test]
fn its_pods_change() {
    let (_server, url) = start(&["--objects", "50", "--rate", "100", "--faults", "some"]);
    let mut watch = Running::start(&["watch", "pods", "-A", "--server", &url]);
    for event in ["ADDED", "MODIFIED", "DELETED"] {
        watch.stdout(event);
    }
    watch.signal("INT");
    watch.end().expect(0);
}

#[test]
fn an_address_that_is_taken() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let ended = run(&["apiserver", "--listen", &address]).expect(1);
    assert!(ended.error().starts_with(&format!("cannot listen on {address}: ")), "{}", ended.stderr);
}
