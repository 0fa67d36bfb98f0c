//! The status of a pod in one word, by the rules of `kubectl` (kubernetes, `printers/internalversion`, `printPod`).

use jiff::Timestamp;
use serde_json::Value;

use super::{items, number, text};

/// READY, STATUS, RESTARTS.
pub(super) fn cells(pod: &Value, _: Timestamp) -> Vec<String> {
    let statuses = items(pod, "/status/containerStatuses");
    let ready = statuses.iter().filter(|c| is_ready(c)).count();
    let restarts: i64 = statuses.iter().map(|c| number(c, "/restartCount")).sum();
    let total = items(pod, "/spec/containers").len();
    vec![format!("{ready}/{total}"), status(pod), restarts.to_string()]
}

fn is_ready(container: &Value) -> bool {
    container.get("ready").and_then(Value::as_bool) == Some(true)
}

fn status(pod: &Value) -> String {
    if pod.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()) {
        return if text(pod, "/status/reason") == "NodeLost" {
            "Unknown".into()
        } else {
            "Terminating".into()
        };
    }
    if let Some(init) = initializing(pod) {
        return init;
    }
    let mut status = match text(pod, "/status/reason") {
        "" => text(pod, "/status/phase").to_owned(),
        reason => reason.to_owned(),
    };
    let mut running = false;
    // The first container says most, so it comes last.
    for container in items(pod, "/status/containerStatuses").iter().rev() {
        if let Some(reason) = stopped(container) {
            status = reason;
        } else if is_ready(container) && container.pointer("/state/running").is_some() {
            running = true;
        }
    }
    if status == "Completed" && running {
        let conditions = items(pod, "/status/conditions").iter();
        let ready =
            conditions.into_iter().any(|c| text(c, "/type") == "Ready" && text(c, "/status") == "True");
        status = if ready { "Running".into() } else { "NotReady".into() };
    }
    status
}

/// Why a container does not run.
fn stopped(container: &Value) -> Option<String> {
    let waiting = text(container, "/state/waiting/reason");
    if !waiting.is_empty() {
        return Some(waiting.to_owned());
    }
    let end = container.pointer("/state/terminated")?;
    Some(match (text(end, "/reason"), number(end, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(end, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    })
}

/// How far the init containers are, if they are not through.
fn initializing(pod: &Value) -> Option<String> {
    let statuses = items(pod, "/status/initContainerStatuses");
    let total = items(pod, "/spec/initContainers").len();
    for (index, container) in statuses.iter().enumerate() {
        let ended = container.pointer("/state/terminated");
        let sidecar = container.get("started").and_then(Value::as_bool) == Some(true);
        if sidecar || ended.is_some_and(|end| number(end, "/exitCode") == 0) {
            continue;
        }
        return Some(match stopped(container) {
            Some(reason) if reason != "PodInitializing" => format!("Init:{reason}"),
            _ => format!("Init:{index}/{total}"),
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_word_for_each_state() {
        let container =
            |state: Value, ready: bool| json!({"ready": ready, "restartCount": 2, "state": state});
        let cases = [
            (json!({"status": {"phase": "Pending"}}), "Pending"),
            (
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Running"}}),
                "Terminating",
            ),
            (json!({"status": {"phase": "Failed", "reason": "Evicted"}}), "Evicted"),
            (
                json!({"status": {"phase": "Running", "containerStatuses": [container(json!({"waiting": {"reason": "CrashLoopBackOff"}}), false)]}}),
                "CrashLoopBackOff",
            ),
            (
                json!({"status": {"phase": "Failed", "containerStatuses": [container(json!({"terminated": {"exitCode": 3}}), false)]}}),
                "ExitCode:3",
            ),
            (
                json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [
                    container(json!({"terminated": {"exitCode": 0, "reason": "Completed"}}), false), container(json!({"running": {}}), true)]}}),
                "Running",
            ),
            (
                json!({"spec": {"initContainers": [{}, {}]}, "status": {"phase": "Pending", "initContainerStatuses": [
                    container(json!({"terminated": {"exitCode": 0}}), false), container(json!({"running": {}}), false)]}}),
                "Init:1/2",
            ),
        ];
        for (pod, expected) in cases {
            assert_eq!(status(&pod), expected, "{pod}");
        }
        let pod = json!({"spec": {"containers": [{}, {}]}, "status": {"phase": "Running", "containerStatuses": [container(json!({"running": {}}), true)]}});
        assert_eq!(cells(&pod, Timestamp::UNIX_EPOCH), ["1/2", "Running", "2"]);
    }
}
