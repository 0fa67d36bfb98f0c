//! Pods to measure with: small ones, since reads do not depend on the size of a body.

/// The JSON of `count` pods in a hundred namespaces, on a node per thirty pods, of an application per fifty.
pub(crate) fn pods(count: usize) -> Vec<String> {
    (0..count).map(|i| pod(i, count, r#""resourceVersion":"1","#)).collect()
}

/// One of them, without a version.
pub(crate) fn unversioned(i: usize, count: usize) -> String {
    pod(i, count, "")
}

fn pod(i: usize, count: usize, version: &str) -> String {
    let (nodes, apps) = ((count / 30).max(1), (count / 50).max(1));
    // Spread as in a cluster: neighbours by name are on different nodes.
    let node = i.wrapping_mul(7919) % nodes;
    let app = i.wrapping_mul(104_729) % apps;
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"ns-{:02}","name":"pod-{i:06}","uid":"uid-{i}",
        {version}"labels":{{"app":"app-{app}","tier":"t{}"}}}},
        "spec":{{"nodeName":"node-{node}","containers":[{{"name":"main","image":"registry.example/app:{app}"}}]}},
        "status":{{"phase":"Running","podIP":"10.0.0.1"}}}}"#,
        i % 100,
        app % 3,
    )
}
