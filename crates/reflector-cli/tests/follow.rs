//! `reflector watch`: changes as they happen, through what happens to the connection.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::io::{BufRead, BufReader};

use reflector_apiserver::{ApiServer, Verb, core::CoreOptions, faults::Fault};
use serde_json::{Value, json};
use support::{Running, Server, create, gadget, gadgets, pod};

fn watch(server: &Server, args: &[&str]) -> Running {
    let url = server.url();
    let mut all = vec!["watch", "--server", &url];
    all.extend(args);
    Running::start(&all)
}

/// Adds a label to a pod, past HTTP.
fn touch(server: &Server, namespace: &str, name: &str, label: &str) {
    server.core(|core| {
        let stored = core.object("pods", namespace, name).unwrap();
        let mut object: Value = serde_json::from_slice(&stored.body).unwrap();
        object["metadata"]["labels"][label] = json!("yes");
        core.update("pods", object).unwrap();
    });
}

#[test]
fn changes_are_printed_as_they_happen() {
    let server = Server::with_objects();
    let mut watch = watch(&server, &["pods", "-n", "shop"]);
    let header = watch.stdout("NAME");
    assert_eq!(header.split_whitespace().next(), Some("EVENT"));
    watch.stdout("ADDED      cart");
    watch.stdout("ADDED      till");
    assert!(watch.stderr("watching").contains("2 objects, version "));
    touch(&server, "shop", "cart", "x");
    watch.stdout("MODIFIED   cart");
    server.core(|core| core.delete("pods", "shop", "till")).unwrap();
    watch.stdout("DELETED    till");
    server.core(|core| create(core, "pods", pod("shop", "desk", "desk")));
    watch.stdout("ADDED      desk");
    watch.signal("INT");
    let ended = watch.end().expect(0);
    assert_eq!(ended.stdout.lines().count(), 6, "{}", ended.stdout);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
}

#[test]
fn a_collection_without_objects_prints_nothing() {
    let server = Server::with_objects();
    let mut watch = watch(&server, &["pods", "-n", "nowhere"]);
    assert!(watch.stderr("watching").contains("0 objects"));
    watch.signal("INT");
    assert_eq!(watch.end().expect(0).stdout, "", "not even a header");
}

#[test]
fn json_is_one_line_per_change_and_yaml_one_document() {
    let server = Server::with_objects();
    let mut json = watch(&server, &["pods", "-n", "shop", "-o", "json"]);
    let mut yaml = watch(&server, &["pods", "-n", "shop", "-o", "yaml", "--metadata-only"]);
    json.stdout(r#"{"type":"ADDED","object":{"#);
    yaml.stdout("type: ADDED");
    json.stderr("watching");
    yaml.stderr("watching");
    touch(&server, "shop", "till", "x");
    let line = json.stdout(r#""type":"MODIFIED""#);
    let event: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(event["object"]["metadata"]["name"], "till");
    yaml.stdout("type: MODIFIED");
    for watch in [json, yaml] {
        watch.signal("TERM");
        watch.end().expect(0);
    }
}

#[test]
fn objects_that_leave_a_selection_are_gone() {
    let server = Server::with_objects();
    let mut watch = watch(&server, &["pods", "-A", "-l", "!x", "-o", "name"]);
    watch.stdout("pod/till");
    watch.stderr("watching");
    touch(&server, "shop", "cart", "x");
    watch.stdout("pod/cart");
}

#[test]
fn a_relist_is_told_with_its_reason() {
    let server = Server::with_objects();
    let mut watch = watch(&server, &["pods", "-n", "shop"]);
    watch.stderr("watching");
    // The next watch is told that its version is too old; the list after it is not disturbed.
    server.api.inject(Fault::on(Verb::Watch).resource("pods").error_event(410, 0).once());
    server.core(|core| core.delete("pods", "shop", "till")).unwrap();
    watch.stdout("DELETED    till");
    server.api.restart();
    watch.stderr("relisting: the version to watch from has expired (410)");
    watch.stderr("current again after");
    touch(&server, "shop", "cart", "x");
    watch.stdout("MODIFIED   cart");
    watch.signal("INT");
    let ended = watch.end().expect(0);
    // The relist found nothing new, and said so.
    assert_eq!(ended.stdout.matches("cart").count(), 2, "{}", ended.stdout);
}

#[test]
fn a_server_that_goes_is_waited_for() {
    let server = Server::with_objects();
    let address = server.api.address();
    let mut watch = watch(&server, &["pods", "-A"]);
    watch.stderr("watching");
    drop(server);
    let line = watch.stderr("stale since");
    assert!(line.contains("cannot watch pods") && line.contains("trying again in"), "{line}");
    // It comes back with all that has happened meanwhile, and without its history.
    let mut options = CoreOptions::default();
    options.first_revision = 1000;
    let again = Server::start(ApiServer::builder().core(options).address(address));
    again.core(|core| create(core, "pods", pod("shop", "new", "new")));
    watch.stderr("relisting: the version to watch from has expired (410)");
    watch.stderr("current again after");
    watch.stdout("DELETED    shop        cart");
    watch.stdout("ADDED      shop        new");
    watch.signal("INT");
    watch.end().expect(0);
}

#[test]
fn a_resource_that_goes_and_comes_back() {
    let server = Server::start(ApiServer::builder());
    let definitions = "customresourcedefinitions.apiextensions.k8s.io";
    server.core(|core| {
        create(core, definitions, gadgets());
        create(core, "gadgets.example.com", gadget("one"));
    });
    let mut watch = watch(&server, &["gadgets"]);
    watch.stdout("ADDED      one");
    watch.stderr("watching");
    server.core(|core| core.delete(definitions, "", "gadgets.example.com")).unwrap();
    watch.stdout("DELETED    one");
    watch.stderr("resource absent");
    server.core(|core| {
        create(core, definitions, gadgets());
        create(core, "gadgets.example.com", gadget("two"));
    });
    watch.stdout("ADDED      two");
    watch.stderr("current again after");
    watch.signal("INT");
    watch.end().expect(0);
}

#[test]
fn permission_that_is_taken_away_is_told() {
    let server = Server::with_objects();
    let mut watch = watch(&server, &["pods", "-A"]);
    watch.stderr("watching");
    server.api.with_auth(|auth| {
        auth.deny.push(reflector_apiserver::AccessRule {
            resource: Some("pods".to_owned()),
            ..Default::default()
        });
    });
    server.api.restart();
    let line = watch.stderr("forbidden");
    assert!(line.contains("403 Forbidden") && line.contains("trying again in"), "{line}");
    server.api.with_auth(|auth| auth.deny.clear());
    watch.stderr("current again after");
}

#[test]
fn a_reader_that_goes_ends_it_quietly() {
    let server = Server::with_objects();
    // As `| head -1` does: nothing else happens afterwards, and it still ends.
    let (watch, stdout) = Running::start_unread(&["watch", "pods", "-A", "--server", &server.url()]);
    let mut first = String::new();
    BufReader::new(stdout).read_line(&mut first).unwrap();
    assert!(first.contains("NAME"), "{first}");
    let ended = watch.end().expect(0);
    assert!(!ended.stderr.contains("error"), "{}", ended.stderr);
}

#[test]
fn a_list_for_a_reader_that_has_gone_is_no_error() {
    let server = Server::with_objects();
    server.core(|core| {
        for n in 0..2_000 {
            create(core, "pods", pod("shop", &format!("pod-{n}"), "many"));
        }
    });
    let (watch, stdout) =
        Running::start_unread(&["watch", "pods", "-A", "--once", "-o", "json", "--server", &server.url()]);
    drop(stdout);
    let ended = watch.end().expect(0);
    assert_eq!(ended.stderr, "");
}

#[test]
fn a_reader_that_does_not_read_holds_up_nothing() {
    // A server that forgets nothing: every change reaches the command, which has nowhere to put them.
    let mut options = CoreOptions::default();
    options.history = 1 << 20;
    options.watch_buffer = 1 << 20;
    let server = Server::start(ApiServer::builder().core(options));
    let url = server.url();
    let (mut watch, stdout) = Running::start_unread(&["watch", "pods", "-A", "-o", "json", "--server", &url]);
    watch.stderr("watching");
    // Far more than a pipe holds.
    for _ in 0..200 {
        server.core(|core| {
            for n in 0..100 {
                let name = format!("pod-{n}");
                create(core, "pods", pod("shop", &name, "many"));
                core.delete("pods", "shop", &name).unwrap();
            }
        });
    }
    watch.stderr("the reader of stdout is slow");
    watch.signal("INT");
    drop(stdout);
    watch.end().expect(0);
}
