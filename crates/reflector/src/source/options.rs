//! What can be asked of a collection: the query parameters of LIST and WATCH.
//!
//! The structs hold every parameter that kube-apiserver 1.36 knows on these two verbs. The protocol fills them; a
//! source only writes them down.

use std::time::Duration;

use crate::ResourceVersion;

/// Which part of the collection is wanted. The same on every request of one reflector, on every page and on every
/// watch, since a continue token records none of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// `labelSelector`, in the text form of Kubernetes: `app=web,tier in (a,b)`.
    pub labels: Option<String>,
    /// `fieldSelector`: `spec.nodeName=node-1`.
    pub fields: Option<String>,
    /// `shardSelector` (KEP-5866, alpha): a server that does not know it ignores it, and the list's
    /// `metadata.shardInfo` is then missing.
    pub shard: Option<String>,
}

/// `resourceVersionMatch`: how a given version is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// State at least as new as the version.
    NotOlderThan,
    /// State at exactly the version.
    Exact,
}

impl VersionMatch {
    /// The value of the query parameter.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotOlderThan => "NotOlderThan",
            Self::Exact => "Exact",
        }
    }
}

/// One page of a LIST.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Which objects.
    pub selection: Selection,
    /// `resourceVersion`; `None` asks for the most recent state, "0" for any.
    pub version: Option<ResourceVersion>,
    /// `resourceVersionMatch`; must be `None` where `version` is `None` or `continue_token` is set (422 otherwise).
    pub version_match: Option<VersionMatch>,
    /// `limit`, in objects; `None` asks for everything at once.
    pub limit: Option<u32>,
    /// `continue`: the token of the page before.
    pub continue_token: Option<String>,
    /// `timeout`: the server's deadline for the whole request, in whole seconds; the server's own is 60 s.
    pub timeout: Option<Duration>,
}

/// One WATCH.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// Which objects.
    pub selection: Selection,
    /// `resourceVersion`: events after it are wanted.
    pub version: Option<ResourceVersion>,
    /// `resourceVersionMatch`; a server takes it only together with `send_initial_events`.
    pub version_match: Option<VersionMatch>,
    /// `sendInitialEvents`: the state first, as ADDED events, then a bookmark, then the changes (KEP-3157).
    pub send_initial_events: Option<bool>,
    /// `allowWatchBookmarks`.
    pub bookmarks: bool,
    /// `timeoutSeconds`, truncated to whole seconds: how long the server keeps the watch open.
    pub timeout: Option<Duration>,
}

/// One query parameter.
type Parameter = (&'static str, String);

impl ListOptions {
    /// The query parameters, in a fixed order, not yet percent-encoded.
    #[must_use]
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut query = selection(&self.selection);
        version(&mut query, self.version.as_ref(), self.version_match);
        query.extend(self.limit.map(|limit| ("limit", limit.to_string())));
        query.extend(self.continue_token.clone().map(|token| ("continue", token)));
        query.extend(self.timeout.map(|t| ("timeout", format!("{}s", t.as_secs()))));
        query
    }
}

impl WatchOptions {
    /// The query parameters, in a fixed order, not yet percent-encoded; `watch=true` comes first.
    #[must_use]
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut query = vec![("watch", "true".to_owned())];
        query.extend(selection(&self.selection));
        version(&mut query, self.version.as_ref(), self.version_match);
        query.extend(self.send_initial_events.map(|send| ("sendInitialEvents", send.to_string())));
        if self.bookmarks {
            query.push(("allowWatchBookmarks", "true".to_owned()));
        }
        query.extend(self.timeout.map(|t| ("timeoutSeconds", t.as_secs().to_string())));
        query
    }
}

fn selection(selection: &Selection) -> Vec<Parameter> {
    [
        ("labelSelector", &selection.labels),
        ("fieldSelector", &selection.fields),
        ("shardSelector", &selection.shard),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value.clone()?)))
    .collect()
}

fn version(
    query: &mut Vec<Parameter>,
    version: Option<&ResourceVersion>,
    version_match: Option<VersionMatch>,
) {
    query.extend(version.map(|v| ("resourceVersion", v.to_string())));
    query.extend(version_match.map(|m| ("resourceVersionMatch", m.as_str().to_owned())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_of_a_list_is_written() {
        let options = ListOptions {
            selection: Selection {
                labels: Some("a=b".into()),
                fields: Some("metadata.name=x".into()),
                shard: Some("s".into()),
            },
            version: ResourceVersion::new("7"),
            version_match: Some(VersionMatch::Exact),
            limit: Some(3),
            continue_token: Some("t".into()),
            timeout: Some(Duration::from_millis(9_900)),
        };
        let query: Vec<_> = options.parameters().into_iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(
            query.join("&"),
            "labelSelector=a=b&fieldSelector=metadata.name=x&shardSelector=s&resourceVersion=7\
             &resourceVersionMatch=Exact&limit=3&continue=t&timeout=9s"
        );
        assert!(ListOptions::default().parameters().is_empty());
    }

    #[test]
    fn every_parameter_of_a_watch_is_written() {
        let options = WatchOptions {
            version: ResourceVersion::new("7"),
            version_match: Some(VersionMatch::NotOlderThan),
            send_initial_events: Some(false),
            bookmarks: true,
            timeout: Some(Duration::from_secs(301)),
            ..WatchOptions::default()
        };
        let query: Vec<_> = options.parameters().into_iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(
            query.join("&"),
            "watch=true&resourceVersion=7&resourceVersionMatch=NotOlderThan&sendInitialEvents=false\
             &allowWatchBookmarks=true&timeoutSeconds=301"
        );
    }
}
