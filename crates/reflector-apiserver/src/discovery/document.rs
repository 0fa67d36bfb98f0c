//! The documents of discovery, made from the registry.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::core::{Registry, Resource};

/// The registry by group and version; in each, the resources by name.
pub(super) struct Groups<'a> {
    groups: BTreeMap<&'a str, BTreeMap<Version<'a>, BTreeMap<&'a str, &'a Resource>>>,
}

/// A version, ordered as clients prefer them (apimachinery, `version.CompareKubeAwareVersionStrings`): general availability
/// before beta before alpha, higher before lower.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version<'a> {
    rank: (u8, std::cmp::Reverse<u64>, std::cmp::Reverse<u64>),
    name: &'a str,
}

impl<'a> Version<'a> {
    fn new(name: &'a str) -> Self {
        let stage = ["alpha", "beta"].into_iter().zip([2, 1]).find_map(|(stage, rank)| {
            let (major, minor) = name.split_once(stage)?;
            Some((rank, major, minor))
        });
        let (rank, major, minor) = stage.unwrap_or((0, name, ""));
        let number = |text: &str| text.trim_start_matches('v').parse().unwrap_or(0);
        Self { rank: (rank, std::cmp::Reverse(number(major)), std::cmp::Reverse(number(minor))), name }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceList {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'static str>,
    group_version: String,
    resources: Vec<ApiResource>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResource {
    name: String,
    singular_name: String,
    namespaced: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    version: String,
    kind: String,
    verbs: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
}

impl<'a> Groups<'a> {
    pub(super) fn new(registry: &'a Registry) -> Self {
        let mut groups: BTreeMap<&str, BTreeMap<Version<'_>, BTreeMap<&str, &Resource>>> = BTreeMap::new();
        for resource in registry.resources() {
            let versions = groups.entry(&resource.group).or_default();
            let resources = versions.entry(Version::new(&resource.version)).or_default();
            resources.insert(&resource.plural, resource);
        }
        Self { groups }
    }

    fn resources(&self, group: &str, version: &str) -> Option<Vec<&'a Resource>> {
        let resources = self.groups.get(group)?.get(&Version::new(version))?;
        Some(resources.values().copied().collect())
    }

    /// One version of one group.
    pub(super) fn resource_list(&self, group: &str, version: &str) -> Option<ResourceList> {
        let mut resources = Vec::new();
        for resource in self.resources(group, version)? {
            resources.push(ApiResource {
                name: resource.plural.clone(),
                singular_name: resource.singular.clone(),
                namespaced: resource.namespaced,
                group: String::new(),
                version: String::new(),
                kind: resource.kind.clone(),
                verbs: resource.verbs.clone(),
                short_names: resource.short_names.clone(),
                categories: resource.categories.clone(),
            });
            for subresource in &resource.subresources {
                let own = subresource.group == resource.group && subresource.version == resource.version;
                let foreign = |text: &String| if own { String::new() } else { text.clone() };
                resources.push(ApiResource {
                    name: format!("{}/{}", resource.plural, subresource.name),
                    singular_name: String::new(),
                    namespaced: resource.namespaced,
                    group: foreign(&subresource.group),
                    version: foreign(&subresource.version),
                    kind: subresource.kind.clone(),
                    verbs: subresource.verbs.clone(),
                    short_names: Vec::new(),
                    categories: Vec::new(),
                });
            }
        }
        resources.sort_by(|a, b| a.name.cmp(&b.name));
        // The core group's list is written without apiVersion: it is of the version "v1" of no group.
        let api_version = (!group.is_empty()).then_some("v1");
        Some(ResourceList {
            kind: "APIResourceList",
            api_version,
            group_version: group_version(group, version),
            resources,
        })
    }

    /// All named groups.
    pub(super) fn group_list(&self) -> Value {
        let groups: Vec<Value> = self.named().filter_map(|group| self.group_entry(group)).collect();
        json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
    }

    /// One named group.
    pub(super) fn group(&self, group: &str) -> Option<Value> {
        let mut entry = self.group_entry(group).filter(|_| !group.is_empty())?;
        entry["kind"] = "APIGroup".into();
        entry["apiVersion"] = "v1".into();
        Some(entry)
    }

    fn named(&self) -> impl Iterator<Item = &'a str> {
        self.groups.keys().copied().filter(|group| !group.is_empty())
    }

    fn group_entry(&self, group: &str) -> Option<Value> {
        let versions = self.groups.get(group)?.keys();
        let versions: Vec<Value> = versions
            .map(|version| json!({ "groupVersion": group_version(group, version.name), "version": version.name }))
            .collect();
        Some(json!({ "name": group, "preferredVersion": versions.first(), "versions": versions }))
    }

    /// Aggregated discovery, of the core group or of the named ones.
    pub(super) fn discovery(&self, core: bool) -> Value {
        let groups = self.groups.iter().filter(|(group, _)| group.is_empty() == core);
        let items: Vec<Value> = groups
            .map(|(group, versions)| {
                let metadata = if core {
                    json!({ "creationTimestamp": null })
                } else {
                    json!({ "name": group, "creationTimestamp": null })
                };
                let versions: Vec<Value> = versions
                    .iter()
                    .map(|(version, resources)| {
                        let resources: Vec<Value> =
                            resources.values().map(|resource| discovered(resource)).collect();
                        json!({ "version": version.name, "resources": resources, "freshness": "Current" })
                    })
                    .collect();
                json!({ "metadata": metadata, "versions": versions })
            })
            .collect();
        json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items })
    }

    /// Where the OpenAPI documents are.
    pub(super) fn openapi_index(&self) -> Value {
        let mut paths = serde_json::Map::new();
        for (group, versions) in &self.groups {
            for version in versions.keys() {
                let path = api_path(group, version.name);
                let url = format!("/openapi/v3/{path}");
                paths.insert(path, json!({ "serverRelativeURL": url }));
            }
        }
        json!({ "paths": paths })
    }

    /// The parameters of PATCH, by which kubectl learns that the server validates fields.
    pub(super) fn openapi(&self, group: &str, version: &str) -> Option<Value> {
        let mut paths = serde_json::Map::new();
        let parameter = |name: &str| json!({ "name": name, "in": "query", "schema": { "type": "string", "uniqueItems": true } });
        for resource in self.resources(group, version)? {
            let scope = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
            let path = format!("/{}/{scope}{}/{{name}}", api_path(group, version), resource.plural);
            let parameters = ["dryRun", "fieldManager", "fieldValidation", "force"].map(parameter);
            let patch = json!({
                "parameters": parameters,
                "responses": { "200": { "description": "OK" } },
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": { "group": group, "version": version, "kind": resource.kind },
            });
            paths.insert(path, json!({ "patch": patch }));
        }
        Some(json!({
            "openapi": "3.0.0",
            "info": { "title": "Kubernetes", "version": "v1.36.0" },
            "paths": paths,
            "components": { "schemas": {} },
        }))
    }
}

fn discovered(resource: &Resource) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({ "group": group, "version": version, "kind": kind });
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": kind(&resource.group, &resource.version, &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    let subresources: Vec<Value> = resource
        .subresources
        .iter()
        .map(|subresource| {
            json!({
                "subresource": subresource.name,
                "responseKind": kind(&subresource.group, &subresource.version, &subresource.kind),
                "verbs": subresource.verbs,
            })
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

/// `v1` or `apps/v1`.
fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// `api/v1` or `apis/apps/v1`.
fn api_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_preference() {
        let mut versions = ["v1alpha1", "v1", "v2beta1", "v2", "v1beta2", "v1beta1"].map(Version::new);
        versions.sort();
        assert_eq!(
            versions.map(|version| version.name),
            ["v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v1alpha1"]
        );
    }
}
