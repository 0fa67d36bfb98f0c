//! From a name that was typed to a resource.

use crate::discovery::{Discovery, Resource};

/// A name in its parts: `deploy`, `deployments.apps`, `deployments.v1.apps`, `pods.v1.`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name<'a> {
    text: &'a str,
    name: String,
    rest: Option<&'a str>,
}

/// How well a resource fits a name; better ones come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Plural,
    Singular,
    Kind,
    ShortName,
}

impl<'a> Name<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let (name, rest) = match text.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        Self { text, name: name.to_lowercase(), rest }
    }

    fn fit(&self, resource: &Resource) -> Option<Fit> {
        if resource.plural == self.name {
            Some(Fit::Plural)
        } else if resource.singular == self.name {
            Some(Fit::Singular)
        } else if resource.kind.to_lowercase() == self.name {
            Some(Fit::Kind)
        } else if resource.short_names.contains(&self.name) {
            Some(Fit::ShortName)
        } else {
            None
        }
    }

    /// Whether the group, or version and group, is the one that was typed. The beginning of a group is enough, as for
    /// `kubectl`: `ingresses.networking`.
    fn fits_group(&self, resource: &Resource) -> bool {
        let Some(rest) = self.rest else { return true };
        let is_group =
            |text: &str| resource.group == text || (!text.is_empty() && resource.group.starts_with(text));
        let versioned = rest.split_once('.').is_some_and(|(version, group)| {
            version == resource.version && (group == resource.group || (!group.is_empty() && is_group(group)))
        });
        versioned || is_group(rest)
    }

    /// The one resource that is meant.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong, and what may have been meant.
    pub(crate) fn find<'d>(&self, discovery: &'d Discovery) -> Result<&'d Resource, String> {
        let candidates = || discovery.resources.iter().filter(|resource| self.fits_group(resource));
        // The first of the best: discovery has the groups by priority, and the preferred version of each first.
        let found = candidates()
            .filter_map(|resource| Some((self.fit(resource)?, resource)))
            .min_by_key(|(fit, _)| *fit);
        let Some((_, found)) = found else { return Err(self.unknown(discovery)) };
        if found.can("list") {
            return Ok(found);
        }
        // The same name in another group may do.
        let other = candidates().find(|resource| self.fit(resource).is_some() && resource.can("list"));
        other.ok_or_else(|| {
            let verbs = if found.verbs.is_empty() { "nothing".to_owned() } else { found.verbs.join(", ") };
            format!("{} cannot be listed; the server offers {verbs}", found.qualified())
        })
    }

    fn unknown(&self, discovery: &Discovery) -> String {
        let mut message = format!("the server has no resource `{}`", self.text);
        let near = self.near(discovery);
        if !near.is_empty() {
            message.push_str("; did you mean ");
            message.push_str(&near.join(" or "));
            message.push('?');
        }
        if !discovery.missing.is_empty() {
            let groups = discovery.missing.join(", ");
            message.push_str(&format!("; it could not tell what is in the groups {groups}"));
        }
        message
    }

    /// Up to three names that look like this one, the nearest first.
    fn near(&self, discovery: &Discovery) -> Vec<String> {
        const ENOUGH: f64 = 0.8;
        let mut near: Vec<(f64, String)> = Vec::new();
        for resource in discovery.resources.iter().filter(|resource| resource.can("list")) {
            // The right name with the wrong group is as near as can be.
            let names = [&resource.plural, &resource.singular, &resource.kind.to_lowercase()];
            let names = names.into_iter().chain(&resource.short_names);
            let likeness = names.map(|name| strsim::jaro_winkler(name, &self.name)).fold(0.0, f64::max);
            let name = format!("`{}`", resource.qualified());
            if likeness >= ENOUGH && !near.iter().any(|(_, n)| *n == name) {
                near.push((likeness, name));
            }
        }
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        // What is much further off than the nearest is only in the way.
        let nearest = near.first().map_or(0.0, |(likeness, _)| *likeness);
        near.retain(|(likeness, _)| nearest - likeness < 0.1);
        near.truncate(3);
        near.into_iter().map(|(_, name)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
        short: &[&str],
        verbs: &[&str],
    ) -> Resource {
        Resource {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            singular: kind.to_lowercase(),
            short_names: short.iter().map(|s| (*s).into()).collect(),
            namespaced: true,
            verbs: verbs.iter().map(|s| (*s).into()).collect(),
        }
    }

    fn discovery() -> Discovery {
        let all = ["get", "list", "watch"];
        let resources = vec![
            resource("", "v1", "Pod", "pods", &["po"], &all),
            resource("", "v1", "Event", "events", &["ev"], &all),
            resource("", "v1", "Binding", "bindings", &[], &["create"]),
            resource("apps", "v1", "Deployment", "deployments", &["deploy"], &all),
            resource("apps", "v1beta1", "Deployment", "deployments", &["deploy"], &all),
            resource("networking.k8s.io", "v1", "Ingress", "ingresses", &["ing"], &all),
            resource("events.k8s.io", "v1", "Event", "events", &["ev"], &all),
            resource("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", &[], &["get", "list"]),
        ];
        Discovery { resources, missing: Vec::new() }
    }

    #[test]
    fn names_in_every_form_are_found() {
        let discovery = discovery();
        let cases = [
            ("pods", "/v1/pods"),
            ("pod", "/v1/pods"),
            ("po", "/v1/pods"),
            ("Pod", "/v1/pods"),
            ("PODS", "/v1/pods"),
            ("pods.v1.", "/v1/pods"),
            ("pods.metrics.k8s.io", "metrics.k8s.io/v1beta1/pods"),
            ("podmetrics", "metrics.k8s.io/v1beta1/pods"),
            ("deploy", "apps/v1/deployments"),
            ("deploy.apps", "apps/v1/deployments"),
            ("deployments.v1.apps", "apps/v1/deployments"),
            ("deployments.v1beta1.apps", "apps/v1beta1/deployments"),
            ("ing", "networking.k8s.io/v1/ingresses"),
            ("ingresses.networking", "networking.k8s.io/v1/ingresses"),
            ("events", "/v1/events"),
            ("events.events.k8s.io", "events.k8s.io/v1/events"),
        ];
        for (text, expected) in cases {
            let found = Name::new(text).find(&discovery).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(format!("{}/{}/{}", found.group, found.version, found.plural), expected, "{text}");
        }
    }

    #[test]
    fn unknown_names_get_suggestions() {
        let mut discovery = discovery();
        let error = |text: &str, discovery: &Discovery| Name::new(text).find(discovery).unwrap_err();
        assert_eq!(
            error("deploymnets", &discovery),
            "the server has no resource `deploymnets`; did you mean `deployments.apps`?"
        );
        assert!(error("deployments.batch", &discovery).contains("`deployments.apps`"));
        assert_eq!(error("zzz", &discovery), "the server has no resource `zzz`");
        assert_eq!(error("bindings", &discovery), "bindings cannot be listed; the server offers create");
        for text in ["", ".", "..", "pods..", ".v1"] {
            assert!(Name::new(text).find(&discovery).is_err(), "{text}");
        }
        discovery.missing.push("x.io".to_owned());
        assert!(error("zzz", &discovery).ends_with("; it could not tell what is in the groups x.io"));
    }
}
