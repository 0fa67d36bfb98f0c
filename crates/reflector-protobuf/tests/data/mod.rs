//! Objects in both formats: Kubernetes' fixtures, and lists and watches of a real server.
#![allow(dead_code, reason = "each test uses its part")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use reflector_protobuf::{
    Envelope, Kind,
    wire::{Fields, Value as Wire},
};
use serde_json::{Map, Value, json};

/// One object in both formats.
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) message: Vec<u8>,
    pub(crate) json: Vec<u8>,
}

fn folder(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(name);
    if folder.exists() {
        return Some(folder);
    }
    eprintln!("SKIPPED: no data at {}", folder.display());
    None
}

/// The fixtures whose kinds are in the table; `None`, said aloud, where the data are not there.
pub(crate) fn fixtures() -> Option<Vec<Pair>> {
    let mut pairs = Vec::new();
    for path in files(&folder("api-testdata")?) {
        let bytes = fs::read(&path).unwrap();
        let envelope = Envelope::parse(&bytes).unwrap();
        if let Some(kind) = Kind::find(envelope.api_version, envelope.kind) {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let json = fs::read(path.with_extension("json")).unwrap();
            pairs.push(Pair { name, kind, message: envelope.raw.to_vec(), json });
        }
    }
    Some(pairs)
}

/// Each list of the corpus, each item of them, and each object of the watch; `None` as for the fixtures.
pub(crate) fn corpus() -> Option<Vec<Pair>> {
    let folder = folder("corpus")?;
    let mut pairs = Vec::new();
    for path in files(&folder) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let bytes = fs::read(&path).unwrap();
        let list: Value = if name == "gadgets-60-metadata" {
            let gadgets: Value =
                serde_json::from_slice(&fs::read(folder.join("gadgets-60.json")).unwrap()).unwrap();
            partial(gadgets)
        } else {
            serde_json::from_slice(&fs::read(path.with_extension("json")).unwrap()).unwrap()
        };
        list_pairs(&name, &Envelope::parse(&bytes).unwrap(), list, &mut pairs);
    }
    let lines = fs::read_to_string(folder.join("pods-churn.jsonl")).unwrap();
    let frames = fs::read(folder.join("pods-churn.pbseq")).unwrap();
    let mut rest = &frames[..];
    for (i, line) in lines.lines().enumerate() {
        let (len, after) = rest.split_first_chunk::<4>().unwrap();
        let (frame, after) = after.split_at(u32::from_be_bytes(*len) as usize);
        rest = after;
        let (object, _) = bytes_of(frame, 2).unwrap();
        let (object, _) = bytes_of(object, 1).unwrap();
        let event: Value = serde_json::from_str(line).unwrap();
        let envelope = Envelope::parse(object).unwrap();
        pairs.push(pair(format!("frame {i}"), &envelope, &event["object"]));
    }
    assert!(rest.is_empty());
    Some(pairs)
}

/// Single objects: one of each kind there is, and what a server has (of many pods only some); `None` as for the fixtures.
pub(crate) fn objects() -> Option<&'static [Pair]> {
    static OBJECTS: OnceLock<Option<Vec<Pair>>> = OnceLock::new();
    let objects = OBJECTS.get_or_init(|| {
        let mut objects = fixtures()?;
        let is_one = |pair: &Pair| !pair.name.starts_with("List ");
        objects.extend(
            corpus()?
                .into_iter()
                .filter(is_one)
                .enumerate()
                .filter(|(i, _)| i % 4 == 0)
                .map(|(_, pair)| pair),
        );
        Some(objects)
    });
    objects.as_deref()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "pb")).collect();
    files.sort();
    files
}

/// The last field of that number, and where the message goes on.
fn bytes_of(message: &[u8], number: u32) -> Option<(&[u8], usize)> {
    let mut found = None;
    for field in Fields::new(message) {
        let field = field.unwrap();
        if let (true, Wire::Bytes(bytes)) = (field.number == number, field.value) {
            found = Some((bytes, field.range.end));
        }
    }
    found
}

fn pair(name: String, envelope: &Envelope<'_>, json: &Value) -> Pair {
    let kind = Kind::find(envelope.api_version, envelope.kind).unwrap();
    Pair { name, kind, message: envelope.raw.to_vec(), json: serde_json::to_vec(json).unwrap() }
}

fn list_pairs(name: &str, envelope: &Envelope<'_>, mut list: Value, pairs: &mut Vec<Pair>) {
    let (meta, _) = bytes_of(envelope.raw, 1).unwrap();
    // The token says when it was made, so the two differ.
    if let Some((token, _)) = bytes_of(meta, 3)
        && !token.is_empty()
    {
        list["metadata"]["continue"] = std::str::from_utf8(token).unwrap().into();
    }
    let item_kind = Kind::find(envelope.api_version, envelope.kind.strip_suffix("List").unwrap()).unwrap();
    let items = list["items"].as_array().unwrap();
    let mut messages = Fields::new(envelope.raw).map(Result::unwrap).filter(|field| field.number == 2);
    for (i, item) in items.iter().enumerate() {
        let Some(Wire::Bytes(message)) = messages.next().map(|field| field.value) else {
            panic!("no item {i}")
        };
        let mut object = Map::from_iter([
            ("apiVersion".into(), item_kind.api_version().into()),
            ("kind".into(), item_kind.kind().into()),
        ]);
        object.extend(item.as_object().unwrap().clone());
        let (name, json) = (format!("{name} item {i}"), serde_json::to_vec(&object).unwrap());
        pairs.push(Pair { name, kind: item_kind, message: message.to_vec(), json });
    }
    assert!(messages.next().is_none());
    pairs.push(pair(format!("List {name}"), envelope, &list));
}

/// What a server answers to a request for metadata alone.
fn partial(mut list: Value) -> Value {
    // A list of custom resources says so when there is no token; a list of types omits it.
    if list["metadata"]["continue"] == "" {
        list["metadata"].as_object_mut().unwrap().remove("continue");
    }
    let items: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|item| json!({"metadata": item["metadata"]})).collect();
    json!({
        "apiVersion": "meta.k8s.io/v1",
        "kind": "PartialObjectMetadataList",
        "metadata": list["metadata"],
        "items": items,
    })
}
