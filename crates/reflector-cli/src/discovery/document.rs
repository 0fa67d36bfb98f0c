//! The documents of discovery, without I/O.

use serde::Deserialize;

use crate::output::one_line;

/// A resource in one version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resource {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<String>,
}

impl Resource {
    /// `pods`, `deployments.apps`.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    pub(crate) fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }
}

/// All resources that a server has told, in its order: groups by priority, preferred versions first.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    pub(crate) resources: Vec<Resource>,
    /// Groups of which the server could not tell the resources.
    pub(crate) missing: Vec<String>,
}

impl Discovery {
    pub(super) fn add(&mut self, resources: Vec<Resource>) {
        self.resources.extend(resources);
    }

    pub(super) fn add_missing(&mut self, group: String) {
        if !self.missing.contains(&group) {
            self.missing.push(group);
        }
    }

    pub(super) fn add_aggregated(&mut self, groups: AggregatedGroups) {
        for group in groups.items {
            let name = group.metadata.name.unwrap_or_default();
            for version in group.versions {
                // The server could not ask the group's own server, and its last answer may be long ago or never.
                if version.freshness == "Stale" {
                    self.add_missing(name.clone());
                }
                self.add(version.resources.into_iter().map(|r| r.named(&name, &version.version)).collect());
            }
        }
    }
}

/// What `/api` or `/apis` is.
pub(super) enum Root {
    Aggregated(AggregatedGroups),
    /// The versions of the core group.
    Versions(Vec<String>),
    Groups(Groups),
}

/// Groups with their versions, the preferred one first.
pub(super) type Groups = Vec<(String, Vec<String>)>;

#[derive(Deserialize)]
struct RootDocument {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    versions: Vec<String>,
    #[serde(default)]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    name: String,
    versions: Vec<GroupVersion>,
    preferred_version: Option<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

#[derive(Deserialize)]
pub(super) struct AggregatedGroups {
    #[serde(default)]
    items: Vec<AggregatedGroup>,
}

#[derive(Deserialize)]
struct AggregatedGroup {
    metadata: Metadata,
    #[serde(default)]
    versions: Vec<AggregatedVersion>,
}

#[derive(Deserialize)]
struct Metadata {
    name: Option<String>,
}

#[derive(Deserialize)]
struct AggregatedVersion {
    version: String,
    #[serde(default)]
    resources: Vec<AggregatedResource>,
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    resource: String,
    response_kind: Option<Kind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(default)]
    kind: String,
}

impl AggregatedResource {
    fn named(self, group: &str, version: &str) -> Resource {
        Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: self.response_kind.map(|kind| kind.kind).unwrap_or_default(),
            plural: self.resource,
            singular: self.singular_resource,
            short_names: self.short_names,
            namespaced: self.scope == "Namespaced",
            verbs: self.verbs,
        }
    }
}

/// Reads the document at `/api` or `/apis`.
pub(super) fn root(json: &[u8]) -> Result<Root, String> {
    let wrong = |error: serde_json::Error| one_line(&error.to_string());
    let document: RootDocument = serde_json::from_slice(json).map_err(wrong)?;
    match document.kind.as_str() {
        "APIGroupDiscoveryList" => serde_json::from_slice(json).map(Root::Aggregated).map_err(wrong),
        "APIVersions" => Ok(Root::Versions(document.versions)),
        "APIGroupList" => Ok(Root::Groups(document.groups.into_iter().map(Group::ordered).collect())),
        other => Err(format!("it is of kind `{}`", one_line(other))),
    }
}

impl Group {
    fn ordered(self) -> (String, Vec<String>) {
        let mut versions: Vec<String> = self.versions.into_iter().map(|version| version.version).collect();
        if let Some(preferred) = self.preferred_version {
            versions.retain(|version| *version != preferred.version);
            versions.insert(0, preferred.version);
        }
        (self.name, versions)
    }
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<ListedResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedResource {
    name: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    kind: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
}

/// Reads the resources of one group and version; subresources are left out.
pub(super) fn resources(json: &[u8], group: &str, version: &str) -> Option<Vec<Resource>> {
    let list: ResourceList = serde_json::from_slice(json).ok()?;
    let named = |listed: ListedResource| Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: listed.kind,
        plural: listed.name,
        singular: listed.singular_name,
        short_names: listed.short_names,
        namespaced: listed.namespaced,
        verbs: listed.verbs,
    };
    Some(list.resources.into_iter().filter(|resource| !resource.name.contains('/')).map(named).collect())
}

/// Whether an answer is a web page.
pub(super) fn is_html(body: &[u8]) -> bool {
    body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'<')
}

/// What the server said, for the end of a sentence: the message of a Status, the title of a web page, or the text.
pub(super) fn said(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Status {
        message: String,
    }
    const LONGEST: usize = 200;
    let text = match serde_json::from_slice::<Status>(body) {
        Ok(status) => status.message,
        Err(_) => {
            let text = String::from_utf8_lossy(&body[..body.len().min(4096)]);
            if is_html(body) { title(&text).unwrap_or_default().to_owned() } else { text.into_owned() }
        }
    };
    match one_line(&text) {
        text if text.is_empty() => text,
        text => format!(" (\"{}\")", text.chars().take(LONGEST).collect::<String>()),
    }
}

fn title(html: &str) -> Option<&str> {
    let (_, rest) = html.split_once("<title>")?;
    rest.split_once("</title>").map(|(title, _)| title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_discovery_give_the_same() {
        let aggregated = br#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apps"},"versions":[{"version":"v1",
            "resources":[{"resource":"deployments","responseKind":{"group":"apps","version":"v1","kind":"Deployment"},
            "scope":"Namespaced","singularResource":"deployment","shortNames":["deploy"],"verbs":["list","watch"],
            "subresources":[{"subresource":"scale"}]}],"freshness":"Current"}]}]}"#;
        let Ok(Root::Aggregated(groups)) = root(aggregated) else { panic!("not aggregated") };
        let mut discovery = Discovery::default();
        discovery.add_aggregated(groups);
        let listed = br#"{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[
            {"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment","verbs":["list","watch"],
            "shortNames":["deploy"]},{"name":"deployments/scale","singularName":"","namespaced":true,"kind":"Scale","verbs":[]}]}"#;
        assert_eq!(Some(discovery.resources), resources(listed, "apps", "v1"));
        assert!(discovery.missing.is_empty());
    }

    #[test]
    fn the_preferred_version_comes_first() {
        let groups = br#"{"kind":"APIGroupList","groups":[{"name":"g","versions":[{"groupVersion":"g/v2","version":"v2"},
            {"groupVersion":"g/v1","version":"v1"}],"preferredVersion":{"groupVersion":"g/v1","version":"v1"}}]}"#;
        let Ok(Root::Groups(groups)) = root(groups) else { panic!("no groups") };
        assert_eq!(groups, [("g".to_owned(), vec!["v1".to_owned(), "v2".to_owned()])]);
    }

    #[test]
    fn stale_groups_are_remembered() {
        let stale = br#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"metrics.k8s.io"},
            "versions":[{"version":"v1beta1","freshness":"Stale"}]}]}"#;
        let Ok(Root::Aggregated(groups)) = root(stale) else { panic!("not aggregated") };
        let mut discovery = Discovery::default();
        discovery.add_aggregated(groups);
        assert_eq!(discovery.missing, ["metrics.k8s.io"]);
    }

    #[test]
    fn other_documents_are_refused_with_a_reason() {
        assert!(root(b"[]").is_err());
        assert_eq!(root(b"{}").err().as_deref(), Some("it is of kind ``"));
        assert_eq!(said(br#"{"kind":"Status","message":"no\nway"}"#), " (\"no way\")");
        assert_eq!(said(b"<html><title>Bad Gateway</title>"), " (\"Bad Gateway\")");
        assert_eq!(said(b""), "");
        assert!(is_html(b"\n <!doctype html>") && !is_html(b"{}"));
    }
}
