//! `reflector watch --once`: what is printed, in every form.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;

use serde_json::Value;
use support::{Server, create, gadget, gadgets, run};

fn once(server: &Server, args: &[&str]) -> String {
    let url = server.url();
    let mut all = vec!["watch", "--once", "--server", &url];
    all.extend(args);
    let ended = run(&all).expect(0);
    assert_eq!(ended.stderr, "", "{args:?}");
    ended.stdout
}

/// Cells of all lines.
fn cells(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn a_table_of_one_namespace() {
    let server = Server::with_objects();
    let text = once(&server, &["pods", "-n", "shop"]);
    let cells = cells(&text);
    assert_eq!(cells[0], ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    assert_eq!(cells[1][..4], ["cart", "1/1", "Running", "3"]);
    assert_eq!(cells[2][0], "till");
    assert_eq!(cells.len(), 3);
}

#[test]
fn the_default_namespace_is_meant_without_another() {
    let server = Server::with_objects();
    assert_eq!(once(&server, &["pods", "-o", "name"]), "pod/lone\n");
}

#[test]
fn all_namespaces_have_a_column() {
    let server = Server::with_objects();
    let text = once(&server, &["po", "-A"]);
    let cells = cells(&text);
    assert_eq!(cells[0][..2], ["NAMESPACE", "NAME"]);
    let names: Vec<_> = cells[1..].iter().map(|row| (row[0], row[1])).collect();
    assert_eq!(names, [("default", "lone"), ("shop", "cart"), ("shop", "till")]);
}

#[test]
fn a_wide_table_has_more() {
    let server = Server::with_objects();
    let text = once(&server, &["Pod", "-n", "shop", "-o", "wide"]);
    assert_eq!(cells(&text)[0][5..], ["IP", "NODE"]);
    assert_eq!(cells(&text)[1][5..], ["10.0.0.7", "node-1"]);
}

#[test]
fn selectors_select() {
    let server = Server::with_objects();
    assert_eq!(once(&server, &["pods", "-A", "-l", "app in (cart)", "-o", "name"]), "pod/cart\n");
    assert_eq!(
        once(&server, &["pods", "-A", "--field-selector", "metadata.name=till", "-o", "name"]),
        "pod/till\n"
    );
}

#[test]
fn names_carry_their_group() {
    let server = Server::with_objects();
    for name in ["deploy", "deployments.apps", "deployments.v1.apps", "Deployment"] {
        assert_eq!(once(&server, &[name, "-n", "shop", "-o", "name"]), "deployment.apps/web\n");
    }
}

#[test]
fn json_and_yaml_are_the_same_list() {
    let server = Server::with_objects();
    let json: Value = serde_json::from_str(&once(&server, &["pods", "-A", "-o", "json"])).unwrap();
    assert_eq!(json["kind"], "List");
    let items = json["items"].as_array().unwrap();
    assert_eq!(items.len(), 3);
    assert_eq!(items[0]["kind"], "Pod");
    assert_eq!(items[0]["apiVersion"], "v1");
    let yaml: Value = serde_saphyr::from_str(&once(&server, &["pods", "-A", "-o", "yaml"])).unwrap();
    assert_eq!(yaml, json);
}

#[test]
fn secrets_are_shown_only_where_they_are_asked_for() {
    let server = Server::with_objects();
    for form in [&[][..], &["-o", "wide"], &["-o", "name"]] {
        let args = [&["secrets", "-n", "shop"][..], form].concat();
        let text = once(&server, &args);
        assert!(text.contains("key") && !text.contains("aHVudGVyMg"), "{text}");
    }
    assert!(once(&server, &["secrets", "-n", "shop", "-o", "yaml"]).contains("aHVudGVyMg=="));
}

#[test]
fn metadata_alone() {
    let server = Server::with_objects();
    let text = once(&server, &["pods", "-n", "shop", "--metadata-only"]);
    assert_eq!(cells(&text)[0], ["NAME", "AGE"]);
    let json: Value =
        serde_json::from_str(&once(&server, &["pods", "-n", "shop", "--metadata-only", "-o", "json"]))
            .unwrap();
    assert_eq!(json["items"][0]["kind"], "PartialObjectMetadata");
    assert_eq!(json["items"][0].get("spec"), None);
    let asked = server.api.requests();
    assert!(asked.iter().any(|request| request.path.starts_with("/api/v1/namespaces/shop/pods")));
}

#[test]
fn resources_without_namespaces() {
    let server = Server::with_objects();
    let text = once(&server, &["no", "-n", "shop"]);
    assert_eq!(cells(&text)[0], ["NAME", "STATUS", "ROLES", "VERSION", "AGE"]);
    assert_eq!(cells(&text)[1][..2], ["node-1", "Unknown"]);
}

#[test]
fn custom_resources() {
    let server = Server::with_objects();
    server.core(|core| {
        create(core, "customresourcedefinitions.apiextensions.k8s.io", gadgets());
        create(core, "gadgets.example.com", gadget("one"));
    });
    for name in ["gadgets", "gd", "Gadget", "gadgets.example.com", "gadgets.v1.example.com"] {
        assert_eq!(once(&server, &[name, "-o", "name"]), "gadget.example.com/one\n", "{name}");
    }
    let text = once(&server, &["gadgets"]);
    assert_eq!(cells(&text)[0], ["NAME", "AGE"]);
}

#[test]
fn nothing_is_found() {
    let server = Server::with_objects();
    let ended = run(&["watch", "jobs", "--once", "--server", &server.url()]).expect(0);
    assert_eq!(ended.stdout, "");
    assert_eq!(ended.stderr, "No jobs.batch found in namespace default.\n");
    let json: Value = serde_json::from_str(&once(&server, &["jobs", "-o", "json"])).unwrap();
    assert_eq!(json["items"], serde_json::json!([]));
}

#[test]
fn old_servers_tell_each_group_on_its_own() {
    // A proxy that loses the Accept header makes any server an old one.
    let server = Server::with_objects();
    let old = support::old::Proxy::start(&server.url());
    let ended =
        run(&["watch", "deploy", "-n", "shop", "--once", "-o", "name", "--server", &old.url]).expect(0);
    assert_eq!(ended.stdout, "deployment.apps/web\n");
}

#[test]
fn a_kubeconfig_gives_the_server_and_the_namespace() {
    let server = Server::with_objects();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    let text = server.api.kubeconfig().replace("namespace: default", "namespace: shop");
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let ended =
        run(&["watch", "pods", "--once", "-o", "name", "--kubeconfig", file, "--context", "reflector"])
            .expect(0);
    assert_eq!(ended.stdout, "pod/cart\npod/till\n");
}

#[test]
fn colours_only_where_they_are_wanted() {
    let server = Server::with_objects();
    assert!(!once(&server, &["pods", "-A"]).contains('\u{1b}'));
    assert!(once(&server, &["pods", "-A", "--color", "always"]).contains('\u{1b}'));
}
