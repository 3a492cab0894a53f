import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { KubernetesClient } from '../../packages/tenure/src/clients/kubernetes/client.ts'
import { LeaderElector } from '../../packages/tenure/src/api/kubernetes.ts'
import { serviceAccount } from '../../packages/tenure/src/clients/kubernetes/credentials/service-account.ts'
import { candidate, race } from './candidate.ts'
import { blocksOfReadme, readme } from './deploy-manifests.ts'
import { whyNoKubectl } from './kubectl.ts'
import { collectionOf, folder, parseObjects, readManifest, type Manifest } from './manifests.ts'
import { newTestNamespace } from './test-namespace.ts'
import { requestJson } from '../servers/https-json.ts'
import { describeWithCluster, describeWithRight } from '../servers/suite.ts'

interface FlowSchema extends Manifest {
  readonly spec: { readonly rules: readonly { readonly subjects: readonly { readonly serviceAccount: object }[] }[] }
}
interface NetworkPolicy extends Manifest {
  readonly spec: { readonly egress: readonly { readonly to?: readonly { readonly podSelector: object }[] }[] }
}
const flowSchema = readManifest('components/flow-control/flowschema.yaml') as FlowSchema

describeWithRight(whyNoKubectl(), 'the components, by kubectl', () => {
  describeWithCluster('on a real API server', (cluster) => {
    test.each(['leader-label', 'leader-endpoints'])(
      'an overlay that renames the manifests and moves them to another namespace applies with the components, with %s',
      (way) => {
        const { url, caFile, adminToken, namespace } = cluster()
        const place = mkdtempSync(join(tmpdir(), 'tenure-components-'))
        onTestFinished(() => rmSync(place, { recursive: true }))
        for (const name of ['deploy', 'overlay']) mkdirSync(join(place, name))
        symlinkSync(folder, join(place, 'deploy/kubernetes'))
        const overlay = (blocksOfReadme.find((code) => code.includes('kind: Kustomization')) ?? '')
          .replace('namespace: payments', `namespace: ${namespace}`)
          .replaceAll('payments-', `${way}-`)
        const components = [way, 'flow-control', 'network-policy', 'metrics'].map(
          (name) => `  - ../deploy/kubernetes/components/${name}\n`,
        )
        for (const component of components) expect(readme).toContain(`components:\n${component}`)
        writeFileSync(join(place, 'overlay/kustomization.yaml'), `${overlay}\ncomponents:\n${components.join('')}`)
        const kubectl = (...args: string[]) => {
          const access = [`--server=${url}`, `--certificate-authority=${caFile}`, `--token=${adminToken}`]
          return execFileSync('kubectl', [...args, ...access], { encoding: 'utf8', cwd: place })
        }
        const name = `${way}-my-app`
        onTestFinished(() => void kubectl('delete', 'flowschema', `${name}-leases`))
        kubectl('apply', '--validate=strict', '-k', 'overlay')
        const built = parseObjects(execFileSync('kubectl', ['kustomize', 'overlay'], { encoding: 'utf8', cwd: place }))
        const find = (kind: string, suffix = '') =>
          built.find((object) => object.kind === kind && object.metadata.name === `${name}${suffix}`)
        // The overlay adds no label that would make a standby an endpoint.
        const selector = { 'app.kubernetes.io/name': name }
        const own =
          way === 'leader-label' ? { 'tenure.dev/leader': 'true' } : { 'tenure.dev/endpoints': expect.any(String) }
        expect(find('Service', '-leader')).toMatchObject({ spec: { selector: { ...selector, ...own } } })
        const annotations = {
          'prometheus.io/scrape': 'true',
          'prometheus.io/port': '8080',
          'prometheus.io/path': '/metrics',
        }
        expect(find('Deployment')).toMatchObject({ spec: { template: { metadata: { annotations } } } })
        expect(find('NetworkPolicy')).toMatchObject({ spec: { podSelector: { matchLabels: selector } } })
        // The labels of the overlay must not be added to the selector of the DNS pods, which do not have them.
        const peers = (find('NetworkPolicy') as NetworkPolicy).spec.egress.flatMap(({ to = [] }) => to)
        expect(peers.map(({ podSelector }) => podSelector)).toEqual([
          { matchExpressions: [{ key: 'k8s-app', operator: 'In', values: ['kube-dns'] }] },
        ])
        const subject = { kind: 'ServiceAccount', serviceAccount: { name, namespace } }
        expect(find('FlowSchema', '-leases')).toMatchObject({ spec: { rules: [{ subjects: [subject] }] } })
        const names = JSON.stringify(find('Role', '-leader')).match(/"resourceNames":\[[^\]]*\]/g)
        expect(names).toEqual(way === 'leader-label' ? null : [`"resourceNames":["${name}-leader"]`])
      },
    )
  })
})

describeWithRight(whyNoKubectl(), 'the pod of the doctor, by kubectl', () => {
  describeWithCluster('on a real API server', (cluster) => {
    test('the API server accepts a pod that runs tenure doctor under the account of the program', async () => {
      const tenant = await newTestNamespace(cluster())
      onTestFinished(tenant.remove)
      const { url, caFile, adminToken } = cluster()
      const page = readFileSync(join(folder, '../../docs/how-to/kubernetes-troubleshooting.md'), 'utf8')
      const [line = ''] = /^kubectl run tenure-doctor .*$/m.exec(page) ?? []
      // No pods run here, so waiting for the pod would never end.
      const command = line.replace(' --rm -i ', ` `).replaceAll(/\bjobs\b/g, tenant.namespace)
      const access = `--server=${url} --certificate-authority=${caFile} --token=${adminToken}`
      const made = execFileSync('sh', ['-c', command.replace(' -- ', ` ${access} --dry-run=server -o yaml -- `)])
      expect(parseObjects(made.toString())).toMatchObject([
        {
          kind: 'Pod',
          spec: {
            serviceAccountName: 'my-app',
            restartPolicy: 'Never',
            containers: [{ args: ['doctor', '--store', `kubernetes://${tenant.namespace}`] }],
          },
        },
      ])
    })
  })
})

describeWithCluster('API Priority and Fairness', (cluster) => {
  const flows = '/apis/flowcontrol.apiserver.k8s.io/v1'
  const uidOf = async (path: string) => {
    const { body } = await cluster().admin.request<{ metadata: { uid: string } }>('GET', `${flows}/${path}`)
    return body.metadata.uid
  }

  test('Lease requests from a service account get the lowest priority level, or the leader-election level with the component', async () => {
    const { url, ca, admin } = cluster()
    const tenant = await newTestNamespace(cluster(), ['role.yaml', 'rolebinding.yaml'])
    onTestFinished(tenant.remove)
    await tenant.hasRight('update', 'leases')
    const { namespace, token } = tenant
    const askedAs = async (path: string, method = 'GET', body?: unknown) => {
      const { status, headers } = await requestJson({ url, ca, token, path, method, body })
      const level = headers['x-kubernetes-pf-prioritylevel-uid']
      return { status, schema: headers['x-kubernetes-pf-flowschema-uid'], level }
    }
    const leases = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`
    const lowest = {
      schema: await uidOf('flowschemas/service-accounts'),
      level: await uidOf('prioritylevelconfigurations/workload-low'),
    }
    expect(await askedAs(`${leases}/my-app`)).toEqual({ status: 404, ...lowest })

    const name = `${flowSchema.metadata.name}-${namespace}`
    const subjects = [{ kind: 'ServiceAccount', serviceAccount: { name: 'my-app', namespace } }]
    const rules = flowSchema.spec.rules.map((rule) => ({ ...rule, subjects }))
    const object = { ...flowSchema, metadata: { ...flowSchema.metadata, name }, spec: { ...flowSchema.spec, rules } }
    const path = collectionOf(flowSchema, namespace)
    const created = await admin.request('POST', `${path}?fieldValidation=Strict`, object)
    expect(created.status, JSON.stringify(created.body)).toBe(201)
    onTestFinished(() => void admin.request('DELETE', `${path}/${name}`))
    const own = {
      schema: await uidOf(`flowschemas/${name}`),
      level: await uidOf('prioritylevelconfigurations/leader-election'),
    }
    await expect.poll(() => askedAs(`${leases}/my-app`), { timeout: 20_000 }).toEqual({ status: 404, ...own })
    const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'my-app' } }
    expect(await askedAs(leases, 'POST', lease)).toEqual({ status: 201, ...own })
    expect(await askedAs(`${leases}/my-app`, 'PUT', lease)).toMatchObject(own)
    expect(await askedAs(`${leases}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dmy-app`)).toEqual({
      status: 200,
      ...own,
    })
    // Other requests from the service account get the default level.
    expect(await askedAs(`/api/v1/namespaces/${namespace}/pods`)).toEqual({ status: 403, ...lowest })
  })
})

describeWithCluster('a Lease of the whole cluster', (cluster) => {
  test('one of two pods in different namespaces leads a shared Lease, with a Role in the namespace of the Lease', async () => {
    const [home, other] = await Promise.all([newTestNamespace(cluster(), ['role.yaml']), newTestNamespace(cluster())])
    const subjects = [home, other].map(({ namespace }) => ({ kind: 'ServiceAccount', name: 'my-app', namespace }))
    const binding = { ...readManifest('rolebinding.yaml'), subjects }
    const { admin } = cluster()
    expect((await admin.request('POST', collectionOf(binding, home.namespace), binding)).status).toBe(201)
    onTestFinished(home.remove)
    onTestFinished(other.remove)
    const pods = [home, other].map(({ folder: mounted }, index) =>
      candidate(cluster(), { ...home, folder: mounted }, `pod-${index}`),
    )
    const { leader, standby } = await race(pods[0], pods[1])
    await leader.stop()
    expect(await standby.started).toMatchObject({ term: 2 })
  })
})

describeWithCluster('several Leases in one process', (cluster) => {
  test('several Leases in one process are led and released independently on one client', async () => {
    const tenant = await newTestNamespace(cluster(), ['rolebinding.yaml'])
    onTestFinished(tenant.remove)
    const role = readManifest('role.yaml')
    const rules = JSON.stringify(role['rules']).replace('["my-app"]', '["reports","billing"]')
    await tenant.create({ ...role, rules: JSON.parse(rules) as object[] })
    await tenant.hasRight('update', 'leases', 'billing')
    const client = new KubernetesClient(serviceAccount(cluster().url, tenant.folder))
    const electors = ['reports', 'billing'].map((leaseName) => {
      const stopping = new AbortController()
      const callbacks = { onStartedLeading: () => undefined }
      const options = {
        client,
        leaseName,
        leaseNamespace: tenant.namespace,
        identity: 'pod-a',
        leaseDurationMs: 3_000,
        callbacks,
      }
      const elector = new LeaderElector(options)
      const run = elector.run({ signal: stopping.signal })
      return { elector, stop: () => (stopping.abort(), run) }
    })
    const leading = () => electors.map(({ elector }) => elector.isLeader())
    await expect.poll(leading, { timeout: 10_000 }).toEqual([true, true])
    await electors[0]?.stop()
    expect(leading()).toEqual([false, true])
    // The end of one elector closes connections. The other one still renews.
    const renewTime = async () => {
      const path = `/apis/coordination.k8s.io/v1/namespaces/${tenant.namespace}/leases/billing`
      const { body } = await cluster().admin.request<{ spec: { renewTime: string } }>('GET', path)
      return body.spec.renewTime
    }
    const before = await renewTime()
    await expect.poll(renewTime, { timeout: 10_000 }).not.toBe(before)
    expect(leading()).toEqual([false, true])
    await electors[1]?.stop()
  })
})
