//! One case on a server of its own.

use std::{path::Path, time::Duration};

use reflector_apiserver::{
    AccessRule, ApiServer, Verb,
    core::{Core, CoreOptions},
};
use serde_json::{Value, json};
use tokio::time;

use crate::{
    case::Case,
    compare,
    history::{self, History, Sight},
    http1,
};

/// How many pods the recorded server had in `bench-00`.
const BENCH_PODS: usize = 1_000;

const WIDGETS: &str = "widgets.example.com";

/// All cases, and the histories of the two recorded servers.
pub(crate) struct Replay {
    pub(crate) cases: Vec<Case>,
    sights: Vec<Sight>,
    histories: [History; 2],
}

impl Replay {
    pub(crate) fn new(cases: Vec<Case>, folder: &Path) -> Self {
        let of = |port: u16| History::of(cases.iter().filter(move |case| case.port == port));
        let mut histories = [of(16443), of(17443)];
        // The pods of the compressed lists, of which the recordings hold no plain copy.
        let corpus = std::fs::read(folder.join("../corpus/pods-200.json")).unwrap_or_default();
        let corpus: Value = serde_json::from_slice(&corpus).unwrap_or_default();
        for pod in corpus["items"].as_array().into_iter().flatten() {
            histories[0].learn_object("pods", pod);
        }
        let sights = cases.iter().map(history::sight).collect();
        Self { cases, sights, histories }
    }

    /// The revision at which the recorded server stood when this request came.
    fn start(&self, index: usize) -> u64 {
        let case = &self.cases[index];
        let sight = &self.sights[index];
        let earlier = self.cases.iter().zip(&self.sights).filter(|(other, _)| other.port == case.port);
        let carried = earlier.filter_map(|(other, sight)| {
            let over = other.date as f64 + other.elapsed <= case.date as f64;
            if over { Some(sight.end) } else { (other.date < case.date).then_some(sight.start?) }
        });
        let carried = carried.max().unwrap_or(1);
        let first_live = sight.live.first().map_or(u64::MAX, |(_, revision)| *revision);
        sight.start.unwrap_or(carried.max(sight.end)).min(first_live - 1).max(1)
    }

    pub(crate) async fn run(&self, index: usize, verbose: bool) -> Option<String> {
        let case = &self.cases[index];
        let sight = &self.sights[index];
        let history = &self.histories[usize::from(case.port != 16443)];
        let start = self.start(index);
        let mut options = CoreOptions::default();
        options.lenient_namespaces = false;
        options.graceful_pods = Some(Duration::from_secs(3_600));
        options.epoch = jiff::Timestamp::from_second(case.date).unwrap_or_default();
        let server = ApiServer::builder().core(options).token("TOKEN").start().await.unwrap();
        if let Err(error) = server.with_core(|core| prepare(core, case, history, start)) {
            return Some(format!("cannot prepare the server: {error}"));
        }
        credentials(case, &server);
        let headers: Vec<(&str, &str)> =
            case.request_headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let body = match case.name.as_str() {
            // Recorded without its three megabytes.
            "err-413" => vec![b'x'; (3 << 20) + 100],
            _ => case.request_body.clone().into_bytes(),
        };
        let patience = Duration::from_secs_f64(case.elapsed + 15.0);
        let asking = http1::request(server.address(), &case.method, &case.path, &headers, &body, patience);
        let began = time::Instant::now();
        let writing = async {
            if case.name == "watch-json-pod-graceful-delete" {
                delete_gracefully(case, &server, began).await;
                return Ok(());
            }
            let mut at = start;
            for (second, revision) in &sight.live {
                time::sleep_until(began + Duration::from_secs_f64(second - 0.04)).await;
                server.with_core(|core| history.apply(core, at, *revision))?;
                at = at.max(*revision);
            }
            if case.name == "crd-watch-crd-deleted" {
                time::sleep_until(began + Duration::from_secs(1)).await;
                let deleted = server.with_core(|core| core.delete("customresourcedefinitions", "", WIDGETS));
                deleted.map_err(|error| error.to_string())?;
            }
            Ok::<(), String>(())
        };
        let (reply, written) = tokio::join!(asking, writing);
        server.stop().await;
        if let Err(error) = written {
            return Some(format!("cannot replay the writes: {error}"));
        }
        match reply {
            Ok(reply) => {
                if verbose {
                    println!("{} {}\nstart {start} {sight:?}", case.method, case.path);
                    println!("< {} {:?}\n{}", reply.status, reply.headers, reply.text());
                    println!(
                        "recorded {} {:?}\n{}",
                        case.status,
                        case.headers,
                        String::from_utf8_lossy(&case.body)
                    );
                }
                compare::difference(case, &reply)
            }
            Err(error) => Some(format!("no answer: {error}")),
        }
    }
}

/// What the recorder did to a pod with a finalizer: create it, delete it twice, take the finalizer away.
async fn delete_gracefully(case: &Case, server: &ApiServer, began: time::Instant) {
    const PODS: &str = "/api/v1/namespaces/semantics/pods";
    let added = case.lines().first().map(|(_, line)| serde_json::from_slice(line).unwrap_or_default());
    let mut pod: Value = added.unwrap_or_default();
    let mut pod = pod["object"].take();
    pod["metadata"] = json!({"name": "gp", "finalizers": ["example.com/hold"]});
    let steps = [
        ("POST", PODS.to_owned(), pod),
        ("DELETE", format!("{PODS}/gp"), Value::Null),
        ("DELETE", format!("{PODS}/gp?gracePeriodSeconds=0"), Value::Null),
        ("PATCH", format!("{PODS}/gp"), json!({"metadata": {"finalizers": null}})),
    ];
    for (n, (method, path, body)) in steps.into_iter().enumerate() {
        time::sleep_until(began + Duration::from_millis(600 + 250 * n as u64)).await;
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = http::Request::builder().method(method).uri(path).header("Content-Type", kind);
        server.apply(request.body(body.into()).unwrap());
    }
}

/// Brings the server to where the recorded one stood.
fn prepare(core: &mut Core, case: &Case, history: &History, start: u64) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let defined = history.changes.range(..=start).any(|(_, change)| change.resource() == WIDGETS);
    if defined || case.name.starts_with("crd-") {
        core.create("customresourcedefinitions", widgets()).map_err(|error| text(&error))?;
    }
    for namespace in ["semantics", "bench-00", "slow"] {
        let object = json!({"metadata": {"name": namespace}});
        core.create("namespaces", object).map_err(|error| text(&error))?;
    }
    history.apply(core, core.revision().min(start), start)?;
    if case.path.contains("bench-00") && case.name.starts_with("gzip") {
        let pods = core.objects("pods").map_err(|error| text(&error))?;
        let there = pods.iter().filter(|pod| pod.namespace == "bench-00").count();
        for n in there..BENCH_PODS {
            let pod = json!({"metadata": {"name": format!("zz-{n:05}"), "namespace": "bench-00"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
            core.create("pods", pod).map_err(|error| text(&error))?;
        }
    }
    let name = case.name.as_str();
    let compacted = name.contains("compact") && !name.contains("uncompacted");
    if name.starts_with("err-410-") || compacted || name.contains("inconsistent-continue") {
        core.advance_revision_to(start + 10);
        if name == "list-cm-page2-after-compaction" {
            // Ordered in etcd directly: the API server had not noticed yet.
            core.compact_unnoticed(start + 10);
        } else {
            core.compact(start + 10);
        }
    }
    if name.contains("after-restart") || name.starts_with("err-410-cm") {
        core.advance_revision_to(start + 10);
        core.restart(Duration::ZERO);
    }
    if name == "watch-err-410-evicted" {
        core.advance_revision_to(1_271);
        core.forget_history("serviceaccounts").map_err(|error| text(&error))?;
    }
    if name == "crd-list-after-delete" {
        let deleted = core.delete("customresourcedefinitions", "", WIDGETS);
        deleted.map_err(|error| text(&error))?;
    }
    Ok(())
}

/// Whom the server knows.
fn credentials(case: &Case, server: &ApiServer) {
    let bearer = case.request_headers.iter().find_map(|(name, value)| {
        (name == "Authorization").then(|| value.trim_start_matches("Bearer ").to_owned())
    });
    server.with_auth(|auth| match case.name.as_str() {
        "err-403-sa-get" => {
            auth.token = bearer;
            auth.user = "system:serviceaccount:semantics:watcher".to_owned();
            auth.deny = vec![AccessRule { verbs: vec![Verb::Get], ..AccessRule::default() }];
        }
        "watch-rbac-revoked" => auth.token = bearer,
        _ => {}
    });
}

fn widgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
            }]
        }
    })
}
