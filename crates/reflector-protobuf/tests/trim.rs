//! A trimmed message reads as the object without those parts.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "also in what the tests share")]

mod data;

use proptest::{prelude::*, sample::Index};
use reflector_protobuf::{Field, Kind, Message, Shape, Trim, Type, from_json, from_slice};
use serde_json::Value;

use data::{Pair, objects};

/// What a value is.
#[derive(Clone, Copy)]
enum Place {
    Message(Message),
    /// A list or map in that message.
    Many(Message, Field),
    /// JSON that is not looked into.
    Json,
    Other,
}

impl Place {
    fn child(self, name: &str) -> Self {
        match self {
            Self::Message(message) => match member(message, name) {
                Some((message, field)) if field.shape() == Shape::Single => Self::single(message, field),
                Some((message, field)) => Self::Many(message, field),
                // An element of what can be a schema or a list of schemas.
                None => self,
            },
            Self::Many(message, field) => Self::single(message, field),
            other => other,
        }
    }

    fn single(message: Message, field: Field) -> Self {
        match field.ty() {
            Type::Message => Self::Message(field.message().unwrap()),
            Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStrings => Self::Message(message),
            Type::Json | Type::RawExtension => Self::Json,
            _ => Self::Other,
        }
    }
}

fn member(message: Message, name: &str) -> Option<(Message, Field)> {
    let own = message.field_by_json_name(name).map(|field| (message, field));
    let mut embedded = message.fields().filter(|field| field.is_inline()).filter_map(Field::message);
    own.or_else(|| embedded.find_map(|inner| member(inner, name)))
}

/// Removes what a path leads to, as one writes it with everything decoded.
fn remove(value: &mut Value, place: Place, here: &mut Vec<String>, paths: &[Vec<String>]) {
    let goes = |here: &[String]| {
        paths.iter().any(|path| {
            path.len() == here.len() && path.iter().zip(here).all(|(step, name)| step == "*" || step == name)
        })
    };
    let mut stays = |name: String, value: &mut Value| {
        let place = place.child(&name);
        here.push(name);
        let stays = !goes(here);
        if stays {
            remove(value, place, here, paths);
        }
        here.pop();
        stays
    };
    match (place, value) {
        (Place::Json, _) => {}
        (_, Value::Object(members)) => members.retain(|name, value| stays(name.clone(), value)),
        (_, Value::Array(elements)) => {
            let mut index = 0;
            elements.retain_mut(|value| {
                index += 1;
                stays((index - 1).to_string(), value)
            });
        }
        _ => {}
    }
}

/// Fills in what JSON always has, and takes away lists that are empty. Twice: an empty list is null first.
fn normal(kind: Kind, value: &Value) -> Value {
    let once =
        |value: &Value| from_slice(kind, &from_json(kind, value.to_string().as_bytes()).unwrap()).unwrap();
    once(&once(value))
}

fn pointer(path: &[String]) -> String {
    path.iter().map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1"))).collect()
}

fn check(kind: Kind, message: &[u8], paths: &[Vec<String>]) {
    let pointers: Vec<String> = paths.iter().map(|path| pointer(path)).collect();
    let trim = Trim::new(kind.message(), &pointers).unwrap();
    let mut trimmed = Vec::new();
    trim.trim(message, &mut trimmed).unwrap();
    let trimmed: Value = from_slice(kind, &trimmed).unwrap();

    let mut expected: Value = from_slice(kind, message).unwrap();
    let paths: Vec<Vec<String>> =
        paths.iter().filter(|path| !trim.ignored().contains(&pointer(path))).cloned().collect();
    remove(&mut expected, Place::Message(kind.message()), &mut Vec::new(), &paths);
    assert_eq!(normal(kind, &trimmed), normal(kind, &expected), "{kind:?} {pointers:?}");
}

/// Where the index leads: into one of the members of each object that the walk comes to.
fn walk(value: &Value, ways: &[(Index, u8)]) -> Vec<String> {
    let mut value = value;
    let mut path = Vec::new();
    for (way, kind_of_step) in ways {
        let (name, inner) = match value {
            Value::Object(members) if !members.is_empty() => {
                let (name, inner) = members.iter().nth(way.index(members.len())).unwrap();
                (name.clone(), inner)
            }
            Value::Array(elements) if !elements.is_empty() => {
                let index = way.index(elements.len());
                (index.to_string(), &elements[index])
            }
            _ => break,
        };
        path.push(match kind_of_step {
            0 => "*".to_owned(),
            1 => "x".to_owned(),
            _ => name,
        });
        value = inner;
    }
    // `*` alone would also take `apiVersion` and `kind` out of the JSON.
    if path.len() == 1 && path[0] == "*" {
        path[0] = "metadata".to_owned();
    }
    path
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn trimmed_objects_lack_those_parts(
        which: Index,
        ways in prop::collection::vec(prop::collection::vec((any::<Index>(), 0..8u8), 1..9), 1..5),
    ) {
        let Some(objects) = objects() else { return Ok(()) };
        let Pair { kind, message, .. } = &objects[which.index(objects.len())];
        let value: Value = from_slice(*kind, message).unwrap();
        let paths: Vec<_> = ways.iter().map(|ways| walk(&value, ways)).collect();
        check(*kind, message, &paths);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>, cut: Index, flip: Index, to: u8) {
        let pod = Kind::find("v1", "Pod").unwrap();
        let paths = ["/metadata/managedFields", "/metadata/annotations/a", "/spec/containers/*/env", "/*/volumes/1"];
        let trim = Trim::new(pod.message(), paths).unwrap();
        let _ = trim.trim(&bytes, &mut Vec::new());
        if let Some(objects) = objects() {
            let Pair { message, .. } = objects.iter().find(|pair| pair.kind == pod).unwrap();
            let mut message = message.clone();
            message.truncate(cut.index(message.len() + 1));
            if !message.is_empty() {
                let at = flip.index(message.len());
                message[at] = to;
            }
            let _ = trim.trim(&message, &mut Vec::new());
        }
    }
}

#[test]
fn what_is_trimmed_most_often() {
    let Some(objects) = objects() else { return };
    let paths =
        ["metadata/managedFields", "metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration"];
    let paths = paths.map(|path| path.split('/').map(|name| name.replace("~1", "/")).collect());
    for Pair { kind, message, .. } in objects {
        check(*kind, message, &paths);
    }
}
