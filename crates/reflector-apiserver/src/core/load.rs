//! Loading: many objects at once, from text that is nearly what is stored.
//!
//! A create parses the whole object, checks it and writes it anew. Here the text is only scanned: the members of
//! `metadata` are put in order around the new resourceVersion, everything else is copied.

use std::{borrow::Cow, collections::HashSet, fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    Core, OperatorError,
    etcd::Etcd,
    names,
    object::{Body, Labels, METADATA_ORDER, Object, Parts, storage_key},
    registry::Resource,
    status::Status,
};

impl Core {
    /// Stores many new objects of a resource, and returns how many: those whose name is taken are left out.
    ///
    /// Each text is one object as the API server writes it: compact, the keys of its maps sorted. Nothing but the
    /// members of `metadata` is looked at or changed. An object without a namespace goes to `default`, one without uid
    /// or creation time gets them.
    ///
    /// Nothing of it can be watched: it is as if the history of the resource began with the last object. Running
    /// watches of the resource end. From the first few hundred objects a dictionary is learned, with which this
    /// resource is kept in a fraction of the memory from then on, also what is written later.
    ///
    /// # Errors
    ///
    /// If the resource is unknown or a custom one, or a text is not an object with a valid name. What came before it
    /// is stored.
    ///
    /// ```
    /// use reflector_apiserver::{core::{Core, CoreOptions}, seed::{Cluster, ClusterOptions}};
    ///
    /// let mut core = Core::new(CoreOptions::default());
    /// let cluster = Cluster::new(ClusterOptions { pods: 100, ..ClusterOptions::default() });
    /// assert_eq!(core.load("pods", cluster.pods().map(|pod| pod.json))?, 100);
    /// # Ok::<(), reflector_apiserver::core::OperatorError>(())
    /// ```
    pub fn load<T: AsRef<[u8]>>(
        &mut self,
        resource: &str,
        texts: impl IntoIterator<Item = T>,
    ) -> Result<usize, OperatorError> {
        let resource = self.named(resource)?;
        if resource.custom {
            return Err(Status::bad_request("custom resources cannot be loaded").into());
        }
        let mut namespaces = HashSet::new();
        let mut count = 0;
        let mut result = Ok(());
        for text in texts {
            match self.load_one(&resource, text.as_ref(), &mut namespaces) {
                Ok(new) => count += usize::from(new),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        self.etcd.begin_history(&resource.storage);
        result.map(|()| count)
    }

    fn load_one(
        &mut self,
        resource: &Arc<Resource>,
        text: &[u8],
        namespaces: &mut HashSet<String>,
    ) -> Result<bool, OperatorError> {
        let parsed = Parsed::new(text).map_err(|error| Status::bad_request(error.to_string()))?;
        let namespace = match parsed.text("namespace") {
            _ if !resource.namespaced => Cow::Borrowed(""),
            namespace if namespace.is_empty() => Cow::Borrowed("default"),
            namespace => namespace,
        };
        let name = parsed.text("name");
        names::check(resource, &name)?;
        if self.etcd.get(&resource.storage, &storage_key(&namespace, &name)).is_some() {
            return Ok(false);
        }
        if !namespaces.contains(&*namespace) {
            self.require_namespace(resource, &namespace)?;
            namespaces.insert(namespace.clone().into_owned());
        }
        let given = parsed.text("uid");
        let uid = if given.is_empty() { Cow::Owned(self.random_uid()) } else { given };
        let created = self.timestamp();
        let known = Known { namespace: &namespace, name: &name, uid: &uid, created: &created };
        self.etcd
            .load(&resource.storage, |revision, labels| parsed.object(resource, &known, revision, labels));
        Ok(true)
    }
}

/// What the server decides where the text does not say it.
struct Known<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    created: &'a str,
}

/// A text and where its members are.
struct Parsed<'a> {
    members: Members<'a>,
    metadata: Members<'a>,
}

impl<'a> Parsed<'a> {
    fn new(text: &'a [u8]) -> Result<Self, serde_json::Error> {
        let members: Members<'a> = serde_json::from_slice(text)?;
        let metadata = match members.get("metadata") {
            Some(metadata) => serde_json::from_str(metadata)?,
            None => Members::default(),
        };
        Ok(Self { members, metadata })
    }

    fn text(&self, name: &str) -> Cow<'a, str> {
        let text = self.metadata.get(name).and_then(|raw| serde_json::from_str::<Text<'_>>(raw).ok());
        text.map(|Text(text)| text).unwrap_or_default()
    }

    fn object(
        &self,
        resource: &Resource,
        known: &Known<'_>,
        revision: u64,
        seen: &mut HashSet<Labels>,
    ) -> Object {
        let Known { namespace, name, uid, created } = *known;
        let length: usize = self.members.0.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let mut body = Body::default();
        body.out.reserve(length + 160);
        body.out.push(b'{');
        body.name("metadata");
        let start = body.here();
        body.out.push(b'{');
        for member in METADATA_ORDER {
            match (member, self.metadata.get(member)) {
                ("resourceVersion", _) => body.revision(revision),
                ("namespace", _) if namespace.is_empty() => {}
                ("namespace", _) => body.member(member, namespace),
                ("uid", _) => body.member(member, uid),
                ("creationTimestamp", None | Some("null")) => body.member(member, created),
                (_, None | Some("null" | "\"\"" | "{}" | "[]")) => {}
                (_, Some(raw)) => body.raw(member, raw),
            }
        }
        body.out.push(b'}');
        body.metadata = start..body.here();
        for (name, raw) in &self.members.0 {
            if !matches!(&**name, "kind" | "apiVersion" | "metadata") {
                body.raw(name, raw);
            }
        }
        body.out.push(b'}');
        let fields = self.fields(resource);
        let labels = self.labels(seen);
        Object::new(Parts { namespace, name, uid, revision, labels, fields, body })
    }

    /// The values of the selectable fields. Those with the same first name are mostly members of one object, which is
    /// scanned once for all of them.
    fn fields(&self, resource: &Resource) -> Box<[Box<str>]> {
        let mut scanned: Vec<(&str, Members<'a>)> = Vec::new();
        let mut value = |path: &[String]| {
            let (first, rest) = path.split_first()?;
            if rest.is_empty() {
                return self.members.get(first);
            }
            if let Some((_, members)) = scanned.iter().find(|(name, _)| name == first) {
                return members.at(rest);
            }
            let (name, raw) = self.members.0.iter().rev().find(|(name, _)| name == first)?;
            let members: Members<'a> = serde_json::from_str(raw).ok()?;
            let value = members.at(rest);
            scanned.push((name, members));
            value
        };
        let scalar = |raw: &str| match raw.as_bytes().first()? {
            b'"' => serde_json::from_str::<Box<str>>(raw).ok(),
            b'{' | b'[' | b'n' => None,
            _ => Some(raw.into()),
        };
        let fields = resource.fields.iter();
        fields.map(|f| value(&f.path).and_then(scalar).unwrap_or_else(|| f.default.into())).collect()
    }

    /// The labels, shared with the objects before that have the same.
    fn labels(&self, seen: &mut HashSet<Labels>) -> Labels {
        let raw = self.metadata.get("labels").unwrap_or("{}");
        let members: Members<'_> = serde_json::from_str(raw).unwrap_or_default();
        let text = |raw: &str| serde_json::from_str::<Box<str>>(raw).unwrap_or_default();
        let mut labels: Vec<(Box<str>, Box<str>)> =
            members.0.iter().map(|(name, raw)| (Box::from(&**name), text(raw))).collect();
        labels.sort();
        match seen.get(labels.as_slice()) {
            Some(same) => same.clone(),
            None => {
                let labels = Labels::from(labels);
                // Where hardly any two are alike, remembering them all is no gain.
                if seen.len() < Etcd::LABELS_MAX {
                    seen.insert(labels.clone());
                }
                labels
            }
        }
    }
}

/// The members of a JSON object, as text.
#[derive(Default)]
struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Members<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        // The last one counts, as in any map.
        self.0.iter().rev().find(|(member, _)| member == name).map(|(_, raw)| *raw)
    }

    /// The value at the end of a path.
    fn at(&self, path: &[String]) -> Option<&'a str> {
        let (first, rest) = path.split_first()?;
        let raw = self.get(first)?;
        match rest {
            [] => Some(raw),
            rest => serde_json::from_str::<Members<'a>>(raw).ok()?.at(rest),
        }
    }
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Text(name), raw)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    members.push((name, raw.get()));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Collect)
    }
}
