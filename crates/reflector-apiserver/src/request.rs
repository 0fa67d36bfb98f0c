//! What a request asks for: verb, resource, namespace, name.
//!
//! The rules are those of kube-apiserver's `RequestInfoFactory`: the verb follows from the method, from whether a name is
//! given, and from the `watch` parameter; `namespaces/NAME` is both the object and the namespace.

use std::{borrow::Cow, fmt, str::FromStr};

use http::{Method, Uri};

/// What a request does, in the words of Kubernetes authorization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads a collection.
    List,
    /// Follows a collection.
    Watch,
    /// Adds an object.
    Create,
    /// Replaces an object.
    Update,
    /// Changes a part of an object.
    Patch,
    /// Removes one object.
    Delete,
    /// Removes all objects that a selector matches.
    DeleteCollection,
}

impl Verb {
    const ALL: [Self; 8] = [
        Self::Get,
        Self::List,
        Self::Watch,
        Self::Create,
        Self::Update,
        Self::Patch,
        Self::Delete,
        Self::DeleteCollection,
    ];

    /// The lower-case word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The word names no verb.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown verb `{0}`: expected get, list, watch, create, update, patch, delete or deletecollection")]
pub struct UnknownVerb(String);

impl FromStr for Verb {
    type Err = UnknownVerb;

    fn from_str(text: &str) -> Result<Self, UnknownVerb> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == text).ok_or_else(|| UnknownVerb(text.to_owned()))
    }
}

/// A request on a resource, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestInfo {
    /// What it does.
    pub verb: Verb,
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version, such as `v1`.
    pub version: String,
    /// The plural name of the resource, such as `pods`.
    pub resource: String,
    /// The namespace, where one is named.
    pub namespace: Option<String>,
    /// The object's name, where one is given.
    pub name: Option<String>,
    /// `status`, `scale` and the like.
    pub subresource: Option<String>,
}

impl RequestInfo {
    /// Takes a request apart; `None` when it is not about a resource (discovery, health, unknown paths).
    pub fn parse(method: &Method, uri: &Uri) -> Option<Self> {
        let mut parts = uri.path().split('/').filter(|part| !part.is_empty()).map(decode).peekable();
        let group = match parts.next()?.as_ref() {
            "api" => String::new(),
            "apis" => parts.next()?.into_owned(),
            _ => return None,
        };
        let version = parts.next()?.into_owned();
        // The old `/api/v1/watch/...` paths.
        let watch_path = parts.next_if(|part| part == "watch").is_some();
        let mut rest: Vec<String> = parts.map(Cow::into_owned).collect();
        let mut namespace = None;
        if rest.len() >= 2 && rest[0] == "namespaces" {
            namespace = Some(rest[1].clone());
            // `namespaces/NAME` and its subresources are the namespace itself.
            if rest.len() > 2 && rest[2] != "finalize" && rest[2] != "status" {
                rest.drain(..2);
            }
        }
        let mut rest = rest.into_iter();
        let resource = rest.next()?;
        let name = rest.next();
        let subresource = rest.next();
        let watching = watch_path || (name.is_none() && is_true(query_value(uri.query(), "watch")));
        let verb = match *method {
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if name.is_some() => Verb::Delete,
            Method::DELETE => Verb::DeleteCollection,
            Method::GET | Method::HEAD if watching => Verb::Watch,
            Method::GET | Method::HEAD if name.is_some() => Verb::Get,
            Method::GET | Method::HEAD => Verb::List,
            _ => return None,
        };
        // A field selector on exactly one name names the object, also for authorization.
        let name = name.or_else(|| {
            let selector = query_value(uri.query(), "fieldSelector")?;
            let name = selector.strip_prefix("metadata.name=")?;
            let name = name.strip_prefix('=').unwrap_or(name);
            (!name.contains(',')).then(|| name.to_owned())
        });
        Some(Self { verb, group, version, resource, namespace, name, subresource })
    }
}

/// The first value of a query parameter: of a repeated one only the first counts.
pub(crate) fn query_value<'a>(query: Option<&'a str>, name: &str) -> Option<Cow<'a, str>> {
    pairs(query).find(|(key, _)| key == name).map(|(_, value)| value)
}

/// The query's parameters, decoded, in order.
pub(crate) fn pairs(query: Option<&str>) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    })
}

/// Booleans in queries: absent, `0` and `false` are false, everything else, also nothing at all, is true.
fn is_true(value: Option<Cow<'_, str>>) -> bool {
    value.is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
}

/// Percent-decoding; `+` is a space. What cannot be decoded stays as it is.
fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (byte, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(decoded)) => {
                out.push(decoded);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            _ => out.push(byte),
        }
        at += 1;
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &Method, uri: &str) -> RequestInfo {
        RequestInfo::parse(method, &uri.parse().unwrap()).unwrap()
    }

    #[test]
    fn verbs_follow_method_name_and_the_watch_parameter() {
        assert_eq!(parse(&Method::GET, "/api/v1/pods").verb, Verb::List);
        assert_eq!(parse(&Method::GET, "/api/v1/pods?watch").verb, Verb::Watch);
        assert_eq!(parse(&Method::GET, "/api/v1/pods?watch=0").verb, Verb::List);
        assert_eq!(parse(&Method::GET, "/api/v1/pods?watch=FALSE").verb, Verb::List);
        assert_eq!(parse(&Method::GET, "/api/v1/namespaces/a/pods/p?watch=1").verb, Verb::Get);
        assert_eq!(parse(&Method::GET, "/api/v1/watch/pods").verb, Verb::Watch);
        assert_eq!(parse(&Method::DELETE, "/api/v1/namespaces/a/pods").verb, Verb::DeleteCollection);
        assert_eq!(parse(&Method::PATCH, "/api/v1/namespaces/a/pods/p/status").verb, Verb::Patch);
    }

    #[test]
    fn paths_are_taken_apart() {
        let info = parse(&Method::PUT, "/apis/apps/v1/namespaces/a/deployments/d/scale");
        assert_eq!((info.group.as_str(), info.version.as_str()), ("apps", "v1"));
        assert_eq!(info.resource, "deployments");
        assert_eq!(info.namespace.as_deref(), Some("a"));
        assert_eq!(info.name.as_deref(), Some("d"));
        assert_eq!(info.subresource.as_deref(), Some("scale"));
        let info = parse(&Method::GET, "/api/v1/namespaces/a");
        assert_eq!((info.resource.as_str(), info.name.as_deref()), ("namespaces", Some("a")));
        let info = parse(&Method::GET, "/api/v1/pods?fieldSelector=metadata.name%3Dx");
        assert_eq!(info.name.as_deref(), Some("x"));
    }

    #[test]
    fn what_is_no_resource_is_none() {
        for path in ["/", "/api", "/api/v1", "/apis/apps/v1", "/version", "/api/v1/%zz/"] {
            let info = RequestInfo::parse(&Method::GET, &path.parse().unwrap());
            assert_eq!(info.is_none(), !path.contains("%zz"), "{path}");
        }
    }

    #[test]
    fn percent_signs_that_mean_nothing_stay() {
        assert_eq!(decode("a%3Db%"), "a=b%");
        assert_eq!(decode("a+b%2"), "a b%2");
    }
}
