//! JSON with its members in their order, so that answers are compared as they were written.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value whose objects keep the order of their members.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
        match self {
            Self::Object(members) => members.iter().find(|(have, _)| have == name).map(|(_, value)| value),
            _ => None,
        }
    }

    pub(crate) fn path(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, name| node.get(name))
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The first place where two values differ.
    pub(crate) fn difference(&self, other: &Self, path: &str) -> Option<String> {
        match (self, other) {
            (Self::Object(a), Self::Object(b)) => {
                let names = |members: &[(String, Node)]| {
                    members.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
                };
                if names(a) != names(b) {
                    return Some(format!("{path}: members {:?}, recorded {:?}", names(a), names(b)));
                }
                a.iter().zip(b).find_map(|((name, a), (_, b))| a.difference(b, &format!("{path}.{name}")))
            }
            (Self::Array(a), Self::Array(b)) => {
                let within = a.iter().zip(b).enumerate();
                let mut within = within.filter_map(|(n, (a, b))| a.difference(b, &format!("{path}[{n}]")));
                within.next().or_else(|| {
                    (a.len() != b.len())
                        .then(|| format!("{path}: {} elements, recorded {}", a.len(), b.len()))
                })
            }
            (a, b) if a == b => None,
            (a, b) => Some(format!("{path}: {a:?}, recorded {b:?}")),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }
            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Null)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
                Ok(Node::Bool(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
                Ok(Node::Number(value.to_string()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
                Ok(Node::Number(value.to_string()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
                Ok(Node::Number(value.to_string()))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Node, E> {
                Ok(Node::Text(value.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Node::Array(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Node::Object(members))
            }
        }
        deserializer.deserialize_any(Any)
    }
}
