//! Recorded answers of kube-apiserver 1.36 against the core: refusals must agree to the byte, apart from the current
//! revision and how the JSON parser words its errors.

use std::{fs, path::Path};

use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};

use super::Rig;

/// Cases whose subject is not the core's, or that need formats, gates or accidents that it does not have here.
fn is_out_of_scope(name: &str, case: &Value) -> bool {
    let path = case["path"].as_str().unwrap();
    let foreign = ["401", "403", "429", "413", "cbor", "yaml", "410", "expired-token", "err-404-root"];
    case["port"] != 16443 || !path.starts_with("/api") || foreign.iter().any(|part| name.contains(part))
}

/// The current revision is the server's own.
fn normalize(body: &str) -> String {
    let mut out = body.to_owned();
    for (before, after) in [("current: ", "\""), ("in record (", ")")] {
        if let Some(at) = out.find(before) {
            let start = at + before.len();
            let end = start + out[start..].find(after).unwrap_or(0);
            out.replace_range(start..end, "N");
        }
    }
    out
}

#[test]
fn refusals_agree_with_the_recorded_ones() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings");
    let Ok(index) = fs::read(folder.join("index.json")) else {
        eprintln!("SKIPPED: no recordings at {}", folder.display());
        return;
    };
    let index: Value = serde_json::from_slice(&index).unwrap();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (name, case) in index.as_object().unwrap() {
        if !name.starts_with("err-") || is_out_of_scope(name, case) {
            continue;
        }
        let mut rig = Rig::new();
        rig.core.create("namespaces", json!({"metadata": {"name": "semantics"}})).unwrap();
        rig.core
            .create("configmaps", json!({"metadata": {"name": "cm-01", "namespace": "semantics"}}))
            .unwrap();
        rig.core.advance_revision_to(50_000);
        let mut request =
            Request::builder().method(case["method"].as_str().unwrap()).uri(case["path"].as_str().unwrap());
        for header in case["reqheaders"].as_array().unwrap() {
            let (name, value) = header.as_str().unwrap().split_once(": ").unwrap();
            request = request.header(name, value);
        }
        let body = case["reqbody"].as_str().unwrap().to_owned();
        let answer = rig.complete(request.body(Bytes::from(body)).unwrap());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let recorded = text(&fs::read(folder.join(case["bodyfile"].as_str().unwrap())).unwrap());
        let answered = text(&answer.chunks.concat());
        let status = case["status"].as_str().unwrap();
        let code: u16 = status.split(' ').nth(1).unwrap().parse().unwrap();
        compared += 1;
        if code != answer.code || normalize(&recorded) != normalize(&answered) {
            wrong.push(format!(
                "{name}: {status}\n  recorded {recorded}\n  answered {} {}",
                answer.code, answered
            ));
        }
    }
    assert!(compared > 50, "only {compared} cases compared");
    assert!(wrong.is_empty(), "{} of {compared} differ\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn table_columns_agree_with_the_recorded_ones() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings");
    for (name, path) in
        [("list-cm-table-json", "/api/v1/configmaps"), ("list-pods-table-none-json", "/api/v1/pods")]
    {
        let Ok(recorded) = fs::read(folder.join(format!("{name}.body.json"))) else {
            eprintln!("SKIPPED: no recordings at {}", folder.display());
            return;
        };
        let recorded: Value = serde_json::from_slice(&recorded).unwrap();
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let answer = Rig::new().get_as(path, accept).json();
        assert_eq!(answer["columnDefinitions"], recorded["columnDefinitions"], "{name}");
    }
}
