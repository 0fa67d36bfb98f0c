//! How fast pods are read, as multiples of `serde_json` reading the same pods:
//!
//! ```text
//! cargo run --release -p reflector-protobuf --example speed -- ../shared/corpus
//! ```
//!
//! Both forms are without `managedFields`. Every number is the best of many rounds over all pods, one thread.
#![allow(clippy::print_stdout, reason = "a program for the command line")]

use std::{error::Error, fs, hint::black_box, path::Path, time::Instant};

use k8s_openapi::api::core::v1::Pod;
use reflector_protobuf::{
    Envelope, Kind, from_slice, to_json,
    wire::{Fields, Value, WireType, write_tag, write_varint},
};
use serde::Deserialize;

#[derive(Deserialize)]
#[allow(dead_code, reason = "only read into")]
struct Slim {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "only read into")]
struct Metadata {
    name: String,
    namespace: String,
    uid: String,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "only read into")]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "only read into")]
struct Status {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let corpus = std::env::args().nth(1).unwrap_or_else(|| "../shared/corpus".to_owned());
    let only = std::env::args().nth(2);
    let Ok(body) = fs::read(Path::new(&corpus).join("pods-200.pb")) else {
        println!("SKIPPED: no data in {corpus}");
        return Ok(());
    };
    let kind = Kind::find("v1", "Pod").ok_or("no such kind")?;

    let mut protobuf = Vec::new();
    for field in Fields::new(Envelope::parse(&body)?.raw) {
        let field = field?;
        if let (2, Value::Bytes(pod)) = (field.number, field.value) {
            protobuf.push(trimmed(pod)?);
        }
    }
    let list: serde_json::Value =
        serde_json::from_slice(&fs::read(Path::new(&corpus).join("pods-200.json"))?)?;
    let mut json = Vec::new();
    for item in list["items"].as_array().ok_or("no items")? {
        let mut item = item.clone();
        item["metadata"].as_object_mut().ok_or("no metadata")?.remove("managedFields");
        json.push(serde_json::to_vec(&item)?);
    }
    let bytes = |all: &[Vec<u8>]| all.iter().map(Vec::len).sum::<usize>() / all.len();
    println!("{} pods: {} bytes of JSON, {} of protobuf", json.len(), bytes(&json), bytes(&protobuf));
    for (json, protobuf) in json.iter().zip(&protobuf) {
        let (a, b): (Pod, Pod) = (serde_json::from_slice(json)?, from_slice(kind, protobuf)?);
        assert!(a == b, "the two forms differ");
    }

    let of_json = measure(&json, |pod| drop(black_box(serde_json::from_slice::<Pod>(pod))));
    let report = |name: &str, seconds: f64| {
        println!("{name:32} {:8.2} us {:6.2} x", seconds * 1e6, of_json / seconds);
    };
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    report("Pod from JSON", of_json);
    if wanted("clone") {
        let pods = json.iter().map(|pod| serde_json::from_slice(pod)).collect::<Result<Vec<Pod>, _>>()?;
        let mut pods = pods.iter().cycle();
        report("Pod cloned", measure(&json, |_| drop(black_box(pods.next().cloned()))));
    }
    if wanted("pod") {
        report("Pod", measure(&protobuf, |pod| drop(black_box(from_slice::<Pod>(kind, pod)))));
    }
    if wanted("slim") {
        report("six fields", measure(&protobuf, |pod| drop(black_box(from_slice::<Slim>(kind, pod)))));
        report(
            "six fields from JSON",
            measure(&json, |pod| drop(black_box(serde_json::from_slice::<Slim>(pod)))),
        );
    }
    if wanted("value") {
        let of = |pod: &Vec<u8>| drop(black_box(from_slice::<serde_json::Value>(kind, pod)));
        report("serde_json::Value", measure(&protobuf, of));
    }
    if wanted("json") {
        let mut out = Vec::new();
        let of = |pod: &Vec<u8>| {
            out.clear();
            let _ = black_box(to_json(kind, pod, &mut out));
        };
        report("to_json", measure(&protobuf, of));
    }
    Ok(())
}

/// Seconds for one pod, in the best of many rounds.
fn measure(pods: &[Vec<u8>], mut f: impl FnMut(&Vec<u8>)) -> f64 {
    let mut best = f64::MAX;
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < 1.5 {
        let round = Instant::now();
        pods.iter().for_each(&mut f);
        best = best.min(round.elapsed().as_secs_f64());
    }
    best / pods.len() as f64
}

/// Without `metadata.managedFields`.
fn trimmed(pod: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut out = Vec::new();
    for field in Fields::new(pod) {
        let field = field?;
        match field.value {
            Value::Bytes(metadata) if field.number == 1 => {
                let mut kept = Vec::new();
                for field in Fields::new(metadata) {
                    let field = field?;
                    if field.number != 17 {
                        kept.extend_from_slice(&metadata[field.range]);
                    }
                }
                write_tag(1, WireType::Bytes, &mut out);
                write_varint(kept.len() as u64, &mut out);
                out.extend(kept);
            }
            _ => out.extend_from_slice(&pod[field.range]),
        }
    }
    Ok(out)
}
