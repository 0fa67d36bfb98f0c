"""Lists and watches with the `kubernetes` package, against the server of the kubeconfig in argv[1]."""

import sys

from kubernetes import client, config, watch

config.load_kube_config(sys.argv[1])
api = client.CoreV1Api()

# Pages.
names, token = [], None
while True:
    page = api.list_pod_for_all_namespaces(limit=7, _continue=token)
    names += [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in page.items]
    token = page.metadata._continue
    if not token:
        break
whole = api.list_pod_for_all_namespaces()
assert sorted(names) == names, "lists are ordered by key"
assert names == [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in whole.items]
assert len(names) == int(sys.argv[2]), (len(names), sys.argv[2])
assert whole.items[0].spec.containers[0].name == "server"

# A watch from the list's version sees exactly what is written after it.
version = api.list_namespaced_config_map("default").metadata.resource_version
body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="py"), data={"k": "1"})
api.create_namespaced_config_map("default", body)
api.patch_namespaced_config_map("py", "default", {"data": {"k": "2"}})
api.delete_namespaced_config_map("py", "default")
seen = []
for event in watch.Watch().stream(
    api.list_namespaced_config_map, "default", resource_version=version, timeout_seconds=10
):
    seen.append((event["type"], event["object"].metadata.name, event["object"].data["k"]))
    if event["type"] == "DELETED":
        break
assert seen == [("ADDED", "py", "1"), ("MODIFIED", "py", "2"), ("DELETED", "py", "2")], seen

# Errors come as the library expects them.
try:
    api.read_namespaced_config_map("absent", "default")
    raise AssertionError("an absent object was read")
except client.ApiException as error:
    assert error.status == 404, error
    assert 'configmaps \\"absent\\" not found' in error.body, error.body

print("ok")
