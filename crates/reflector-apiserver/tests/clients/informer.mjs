// An informer of @kubernetes/client-node against the server of the kubeconfig in argv[2]; the package's folder is in argv[3].
import { createRequire } from 'node:module';
import { strict as assert } from 'node:assert';

const require = createRequire(`${process.argv[3]}/`);
const k8s = require('@kubernetes/client-node');

const config = new k8s.KubeConfig();
config.loadFromFile(process.argv[2]);
const api = config.makeApiClient(k8s.CoreV1Api);
const path = '/api/v1/namespaces/default/configmaps';
const informer = k8s.makeInformer(config, path, () => api.listNamespacedConfigMap({ namespace: 'default' }));

const seen = [];
const waiting = [];
for (const event of ['add', 'update', 'delete']) {
    informer.on(event, (object) => {
        seen.push(`${event} ${object.metadata.name} ${object.data?.k}`);
        waiting.splice(0).forEach((resolve) => resolve());
    });
}
let stopping = false;
informer.on('error', (error) => {
    // Stopping shows as an aborted request.
    if (stopping) return;
    console.error(error);
    process.exit(1);
});

async function until(expected) {
    while (!seen.includes(expected)) {
        await new Promise((resolve) => waiting.push(resolve));
    }
}

setTimeout(() => {
    console.error('too late; seen so far:', seen);
    process.exit(1);
}, 30000).unref();

const body = (k) => ({ metadata: { name: 'js' }, data: { k } });
await api.createNamespacedConfigMap({ namespace: 'default', body: body('1') });
await informer.start();
await until('add js 1');
await api.replaceNamespacedConfigMap({ name: 'js', namespace: 'default', body: body('2') });
await until('update js 2');
assert.equal(informer.get('js', 'default').data.k, '2');
await api.deleteNamespacedConfigMap({ name: 'js', namespace: 'default' });
await until('delete js 2');
assert.equal(informer.list().length, 0);
stopping = true;
await informer.stop();
console.log('ok');
process.exit(0);
