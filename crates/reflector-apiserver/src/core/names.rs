//! The rules for object names.

use super::{
    registry::Resource,
    status::{Cause, Outcome, Status},
};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                         and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// Refuses names that the resource does not allow.
pub(super) fn check(resource: &Resource, name: &str) -> Outcome<()> {
    let invalid = |reason, message: String| {
        let cause = Cause { reason, message, field: "metadata.name" };
        Err(Status::invalid(&resource.group, &resource.kind, name, vec![cause]))
    };
    if name.is_empty() {
        return invalid("FieldValueRequired", "Required value: name or generateName is required".into());
    }
    let why = match (resource.group.as_str(), resource.plural.as_str()) {
        ("rbac.authorization.k8s.io", _) => {
            let broken = matches!(name, "." | "..") || name.contains(['/', '%']);
            broken.then_some("may not be '.' or '..' and may not contain '/' or '%'")
        }
        ("", "namespaces" | "services") => (name.len() > 63 || !is_label(name)).then_some(LABEL),
        _ => broken_by_subdomain(name),
    };
    match why {
        Some(why) => invalid("FieldValueInvalid", format!("Invalid value: \"{name}\": {why}")),
        None => Ok(()),
    }
}

/// The rule for DNS subdomains that a text breaks.
pub(super) fn broken_by_subdomain(text: &str) -> Option<&'static str> {
    if text.len() > 253 {
        return Some("must be no more than 253 bytes");
    }
    (!text.split('.').all(is_label)).then_some(SUBDOMAIN)
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|b| alphanumeric(b) || *b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Registry;

    #[test]
    fn names_follow_the_rules_of_their_resource() {
        let registry = Registry::new();
        let long = "a".repeat(254);
        let table = [
            ("configmaps", "cm-01.x", true),
            ("configmaps", "Bad_Name", false),
            ("configmaps", "a..b", false),
            ("configmaps", "-a", false),
            ("configmaps", long.as_str(), false),
            ("configmaps", "", false),
            ("namespaces", "a.b", false),
            ("clusterroles", "system:node", true),
            ("clusterroles", "a/b", false),
        ];
        for (resource, name, expected) in table {
            let resource = registry.by_name(resource).unwrap();
            assert_eq!(check(resource, name).is_ok(), expected, "{name}");
        }
    }
}
