#!/usr/bin/env bash
# What people do with kubectl, against the server of the kubeconfig in $1, which has $2 pods.
set -euo pipefail

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
# A cache of discovery of its own: the port may have been another server's.
k() { kubectl --kubeconfig "$config" --cache-dir "$folder/cache" "$@"; }
config="$1"

# To the end of its input, so that nobody writes into a closed pipe.
has() { grep "$@" >/dev/null; }

fail() {
    echo "failed: $*" >&2
    exit 1
}

k version >/dev/null
k api-resources | has '^pods .*po .*v1 .*true .*Pod' || fail api-resources
k api-versions | has -x 'apps/v1' || fail api-versions

# Lists, tables, pages.
[ "$(k get pods -A --no-headers | wc -l)" = "$2" ] || fail "get pods -A"
[ "$(k get pods -A --no-headers --chunk-size=7 | wc -l)" = "$2" ] || fail "get pods --chunk-size"
k get pods -A -o wide | has 'NAMESPACE .*NAME .*READY .*STATUS .*RESTARTS .*AGE .*IP .*NODE' || fail "get pods -o wide"
[ "$(k get node node-0000 -o name)" = node/node-0000 ] || fail "get nodes"

# One object, all of its life.
# (`kubectl create configmap` and its like speak protobuf, which the server does not read.)
k create -f - >/dev/null <<<'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"data":{"k":"1"}}'
[ "$(k get configmap one -o 'jsonpath={.data.k}')" = 1 ] || fail "get -o jsonpath"
k describe configmap one | has '^Name: *one' || fail describe
k patch configmap one --type merge -p '{"data":{"k":"2"}}' >/dev/null
k patch configmap one --type json -p '[{"op":"add","path":"/data/j","value":"x"}]' >/dev/null
k patch configmap one -p '{"data":{"s":"y"}}' >/dev/null
[ "$(k get configmap one -o 'jsonpath={.data}')" = '{"j":"x","k":"2","s":"y"}' ] || fail patch
k label configmap one team=red >/dev/null
[ "$(k get configmaps -l team=red -o name)" = configmap/one ] || fail "get -l"
k annotate configmap one note=n >/dev/null

# A watch shows the writes that follow.
k get configmaps --watch-only --output-watch-events >"$folder/watch" 2>&1 &
watcher=$!
k get configmap one >/dev/null
for _ in $(seq 200); do
    # The watch may not have begun at the first writes.
    k annotate --overwrite configmap one "n=$RANDOM$RANDOM" >/dev/null
    grep -q MODIFIED "$folder/watch" && break
done
kill "$watcher"
wait "$watcher" 2>/dev/null || true
grep -q MODIFIED "$folder/watch" || fail "get -w: $(cat "$folder/watch")"

# wait, for what is there and for what is gone.
k wait --for=jsonpath='{.data.k}'=2 configmap/one --timeout=10s >/dev/null
k delete configmap one >/dev/null
k wait --for=delete configmap/one --timeout=10s >/dev/null
{ k get configmap one 2>&1 || true; } | has 'configmaps "one" not found' || fail "get of what is gone"

# apply: create, change, nothing.
cat >"$folder/deployment.yaml" <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "i:1"}]}
Y
k apply -f "$folder/deployment.yaml" | has created || fail "apply creates"
k apply -f "$folder/deployment.yaml" | has unchanged || fail "apply leaves unchanged"
sed -i 's/i:1/i:2/' "$folder/deployment.yaml"
k apply -f "$folder/deployment.yaml" | has configured || fail "apply configures"
[ "$(k get deployment web -o 'jsonpath={.spec.template.spec.containers[0].image}')" = i:2 ] || fail "apply changes"
k scale deployment web --replicas=5 >/dev/null
[ "$(k get deployment web -o 'jsonpath={.spec.replicas}')" = 5 ] || fail scale

# A kind of one's own.
cat >"$folder/crd.yaml" <<'Y'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, shortNames: [gd]}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
Y
cat >"$folder/gadget.yaml" <<'Y'
apiVersion: example.com/v1
kind: Gadget
metadata: {name: g}
spec: {size: 3}
Y
k apply -f "$folder/crd.yaml" >/dev/null
k wait --for=condition=Established crd/gadgets.example.com --timeout=10s >/dev/null
k apply -f "$folder/gadget.yaml" >/dev/null
k get gd | has '^g *3' || fail "get of a custom resource"
k delete -f "$folder/gadget.yaml" >/dev/null
k delete -f "$folder/crd.yaml" >/dev/null
k get events -A >/dev/null 2>&1 || fail "get events"
k create -f - >/dev/null <<<'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"extra"}}'
k delete namespace extra >/dev/null

echo ok
