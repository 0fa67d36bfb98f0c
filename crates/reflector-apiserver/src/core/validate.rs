//! The defaulting and validation of list options: every violation is reported in one answer
//! (`k8s.io/apimachinery/pkg/apis/meta/internalversion/validation`).

use super::{
    query::ListOptions,
    status::{Cause, Outcome, Status},
};

/// A watch without resourceVersionMatch and sendInitialEvents at version "" or "0" is a watch-list (KEP-3157).
pub(super) fn default_watch(options: &mut ListOptions) {
    if options.version_match.is_empty()
        && options.send_initial_events.is_none()
        && matches!(options.version.as_str(), "" | "0")
    {
        options.send_initial_events = Some(true);
        options.version_match = "NotOlderThan".into();
    }
}

/// Checks the options of a list, or of a watch after [`default_watch`].
pub(super) fn check(options: &ListOptions) -> Outcome<()> {
    let causes = if options.watch { watch_causes(options) } else { list_causes(options) };
    if causes.is_empty() { Ok(()) } else { Err(Status::invalid("meta.k8s.io", "ListOptions", "", causes)) }
}

fn list_causes(options: &ListOptions) -> Vec<Cause> {
    let mut causes = Vec::new();
    if !options.version_match.is_empty() {
        if options.version.is_empty() {
            causes.push(forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"));
        }
        if !options.continue_token.is_empty() {
            causes.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
        }
        match options.version_match.as_str() {
            "Exact" if options.version == "0" => {
                causes
                    .push(forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
            }
            "Exact" | "NotOlderThan" => {}
            other => causes.push(unsupported(other, "\"Exact\", \"NotOlderThan\", \"\"")),
        }
    }
    if options.send_initial_events.is_some() {
        let mut cause = forbidden("sendInitialEvents is forbidden for list");
        cause.field = "sendInitialEvents";
        causes.push(cause);
    }
    causes
}

fn watch_causes(options: &ListOptions) -> Vec<Cause> {
    let mut causes = Vec::new();
    let matched = options.version_match.as_str();
    if options.send_initial_events.is_some() {
        if matched != "NotOlderThan" {
            causes.push(forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
        }
    } else if !matched.is_empty() {
        causes.push(forbidden(
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ));
    }
    if !matched.is_empty() {
        if matched != "NotOlderThan" {
            causes.push(unsupported(matched, "\"NotOlderThan\""));
        }
        if !options.continue_token.is_empty() {
            causes.push(forbidden("resourceVersionMatch is forbidden when continue is provided"));
        }
    }
    causes
}

fn forbidden(why: &str) -> Cause {
    Cause {
        reason: "FieldValueForbidden",
        message: format!("Forbidden: {why}"),
        field: "resourceVersionMatch",
    }
}

fn unsupported(value: &str, supported: &str) -> Cause {
    let message = format!("Unsupported value: \"{value}\": supported values: {supported}");
    Cause { reason: "FieldValueNotSupported", message, field: "resourceVersionMatch" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::query::Query;

    /// The fields and the first words of all violations.
    fn violations(query: &str) -> Vec<String> {
        let mut options = Query::parse(query).list_options().unwrap();
        if options.watch {
            default_watch(&mut options);
        }
        match check(&options) {
            Ok(()) => Vec::new(),
            Err(status) => {
                assert_eq!((status.code, status.reason), (422, "Invalid"));
                status.details.unwrap().causes.into_iter().map(|c| c.message).collect()
            }
        }
    }

    const NO_VERSION: &str =
        "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
    const CONTINUE: &str = "Forbidden: resourceVersionMatch is forbidden when continue is provided";
    const EXACT_0: &str = "Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
    const FOO: &str = "Unsupported value: \"Foo\": supported values: \"Exact\", \"NotOlderThan\", \"\"";
    const INITIAL: &str = "Forbidden: sendInitialEvents is forbidden for list";
    const NEEDS: &str = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
    const UNLESS: &str =
        "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
    const EXACT: &str = "Unsupported value: \"Exact\": supported values: \"NotOlderThan\"";

    #[test]
    fn all_violations_are_reported_at_once() {
        let table: &[(&str, &[&str])] = &[
            ("", &[]),
            ("resourceVersion=5&resourceVersionMatch=Exact&limit=2", &[]),
            ("resourceVersion=0&resourceVersionMatch=NotOlderThan", &[]),
            ("resourceVersionMatch=Exact", &[NO_VERSION]),
            ("resourceVersion=5&resourceVersionMatch=Exact&continue=x", &[CONTINUE]),
            ("resourceVersion=0&resourceVersionMatch=Exact", &[EXACT_0]),
            ("resourceVersion=5&resourceVersionMatch=Foo", &[FOO]),
            ("sendInitialEvents=false", &[INITIAL]),
            (
                "resourceVersionMatch=Foo&sendInitialEvents=true&continue=x",
                &[NO_VERSION, CONTINUE, FOO, INITIAL],
            ),
            ("watch=1", &[]),
            ("watch=1&resourceVersion=7", &[]),
            ("watch=1&resourceVersion=0", &[]),
            ("watch=1&sendInitialEvents=0&resourceVersionMatch=NotOlderThan", &[]),
            ("watch=1&sendInitialEvents=true", &[NEEDS]),
            ("watch=1&resourceVersionMatch=NotOlderThan", &[UNLESS]),
            ("watch=1&resourceVersionMatch=Exact", &[UNLESS, EXACT]),
            ("watch=1&sendInitialEvents=1&resourceVersionMatch=Exact", &[NEEDS, EXACT]),
            ("watch=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan&continue=x", &[CONTINUE]),
            ("watch=1&resourceVersion=7&continue=x", &[]),
        ];
        for (query, expected) in table {
            assert_eq!(violations(query), *expected, "{query}");
        }
    }

    #[test]
    fn one_violation_stands_without_brackets() {
        let options = Query::parse("resourceVersionMatch=Exact").list_options().unwrap();
        let status = check(&options).unwrap_err();
        assert_eq!(
            status.message,
            format!("ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: {NO_VERSION}")
        );
    }
}
