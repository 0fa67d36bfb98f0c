//! From a path to a resource: `/api/v1/...`, `/apis/GROUP/VERSION/...` and the deprecated `watch/` prefix.

use std::sync::Arc;

use super::{
    query::unescape,
    registry::{Registry, Resource},
    status::{Outcome, Status},
};

/// What a path names.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) resource: Arc<Resource>,
    /// Empty for cluster-scoped resources and for lists over all namespaces.
    pub(super) namespace: String,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
    /// The deprecated prefix: a list is a watch.
    pub(super) watch: bool,
}

pub(super) fn route(path: &str, registry: &Registry) -> Outcome<Target> {
    let parts: Option<Vec<String>> =
        path.trim_matches('/').split('/').map(|part| unescape(part, false)).collect();
    let parts = parts.ok_or_else(Status::no_path)?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (group, version, mut rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return Err(Status::no_path()),
    };
    let built_in = registry.is_built_in_group(group);
    let lost = || {
        if built_in { Status::no_resource() } else { Status::no_path() }
    };
    if rest.is_empty() || (group.is_empty() && version != "v1") {
        return Err(if group.is_empty() { Status::no_path() } else { lost() });
    }
    let watch = rest[0] == "watch";
    if watch {
        rest = &rest[1..];
    }
    let (namespace, rest) = match rest {
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] if group.is_empty() => ("", rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        _ => ("", rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, None, None),
        [plural, name] => (*plural, Some(*name), None),
        [plural, name, subresource] => (*plural, Some(*name), Some(*subresource)),
        _ => return Err(lost()),
    };
    let resource = registry.find(group, version, plural).ok_or_else(lost)?;
    let misplaced =
        if resource.namespaced { namespace.is_empty() && name.is_some() } else { !namespace.is_empty() };
    let unknown = subresource.is_some_and(|s| resource.subresource(s).is_none());
    if misplaced || unknown || (watch && !resource.can("watch")) {
        return Err(lost());
    }
    Ok(Target {
        resource: resource.clone(),
        namespace: namespace.to_owned(),
        name: name.map(str::to_owned),
        subresource: subresource.map(str::to_owned),
        watch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_resources() {
        let registry = Registry::new();
        let table = [
            ("/api/v1/pods", "pods||-|-"),
            ("/api/v1/namespaces/a/pods", "pods|a|-|-"),
            ("/api/v1/namespaces/a/pods/p", "pods|a|p|-"),
            ("/api/v1/namespaces/a/pods/p/status", "pods|a|p|status"),
            ("/api/v1/namespaces", "namespaces||-|-"),
            ("/api/v1/namespaces/a", "namespaces||a|-"),
            ("/api/v1/namespaces/a/status", "namespaces||a|status"),
            ("/api/v1/nodes/n", "nodes||n|-"),
            ("/apis/apps/v1/namespaces/a/deployments/d/scale", "deployments|a|d|scale"),
            ("/api/v1/watch/namespaces/a/pods/p", "pods|a|p|-"),
            ("/api/v1/namespaces/a/pods/x%2Fy", "pods|a|x/y|-"),
        ];
        for (path, expected) in table {
            let target = route(path, &registry).unwrap_or_else(|e| panic!("{path}: {e:?}"));
            let or = |text: Option<String>| text.unwrap_or_else(|| "-".into());
            let found = format!(
                "{}|{}|{}|{}",
                target.resource.plural,
                target.namespace,
                or(target.name),
                or(target.subresource)
            );
            assert_eq!(found, expected, "{path}");
        }
    }

    #[test]
    fn what_is_not_there_is_refused_in_two_ways() {
        let registry = Registry::new();
        let status =
            ["/api/v1/widgets", "/apis/apps/v9/deployments", "/api/v1/namespaces/a/nodes", "/api/v1/pods/p"];
        let text = ["/nosuchpath", "/apis/example.com/v1/widgets", "/api/v2/pods", "/", "/api/v1/%ff"];
        for path in status {
            assert_eq!(route(path, &registry).unwrap_err(), Status::no_resource(), "{path}");
        }
        for path in text {
            assert_eq!(route(path, &registry).unwrap_err(), Status::no_path(), "{path}");
        }
    }
}
