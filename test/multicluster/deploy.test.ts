import { dirname } from 'node:path'
import { expect, test } from 'vitest'
import { readCrd } from '../servers/multicluster-crd.ts'
import { filesNamedBy, type Manifest } from '../kubernetes/manifests.ts'
import { base, components, files, isKustomization, isPatch, readManifest, readme } from './manifests.ts'

const labels = { 'app.kubernetes.io/name': 'tenure-controller' }
const find = (kind: string) => base.find((manifest) => manifest.kind === kind) as Manifest & { spec: object }

test('the kustomization of each multi-cluster folder names every manifest in it', () => {
  for (const file of files.filter(isKustomization)) {
    const beside = files.filter((other) => dirname(other) === dirname(file) && other !== file)
    expect(filesNamedBy(readManifest(file), file)).toEqual(beside)
  }
})

test('the names, namespaces, and labels in the multi-cluster manifests match each other', () => {
  const namespace = find('Namespace').metadata.name
  for (const manifest of base) {
    expect(manifest.metadata.labels, manifest.kind).toMatchObject(labels)
    if (['Namespace', 'CustomResourceDefinition', 'ClusterRole', 'ClusterRoleBinding'].includes(manifest.kind)) continue
    expect(manifest.metadata, manifest.kind).toMatchObject({ name: 'tenure-controller', namespace })
  }
  for (const kind of ['Role', 'ClusterRole']) {
    expect(find(`${kind}Binding`)).toMatchObject({
      roleRef: { kind, name: find(kind).metadata.name },
      subjects: [{ kind: 'ServiceAccount', name: find('ServiceAccount').metadata.name, namespace }],
    })
  }
  expect(find('Deployment').spec).toMatchObject({
    selector: { matchLabels: labels },
    template: { metadata: { labels } },
  })
  expect(find('PodDisruptionBudget').spec).toMatchObject({ selector: { matchLabels: labels } })
  expect(find('CustomResourceDefinition')).toEqual(readCrd())
})

test('every patch of the multi-cluster manifests names an existing object', () => {
  const known = base.map(({ kind, metadata }) => `${kind} ${metadata.name}`)
  for (const file of files.filter(isPatch)) {
    const { kind, metadata } = readManifest(file)
    expect(known, file).toContain(`${kind} ${metadata.name}`)
  }
})

test('a controller has the same rights in one namespace and in all namespaces', () => {
  const limited = readManifest('components/one-namespace/role.yaml')
  expect(limited['rules']).toEqual(find('ClusterRole')['rules'])
})

test('the network policy selects the controllers and allows the port of their probes', () => {
  const policy = readManifest('components/network-policy/networkpolicy.yaml')
  expect(policy.metadata).toMatchObject({ namespace: find('Namespace').metadata.name, labels })
  expect(policy['spec']).toMatchObject({
    podSelector: { matchLabels: labels },
    policyTypes: ['Ingress', 'Egress'],
    ingress: [{ ports: [{ port: 'health' }] }],
  })
  expect(JSON.stringify(find('Deployment'))).toContain('"ports":[{"name":"health"')
})

test('the README of the multi-cluster manifests names every component', () => {
  for (const component of components) expect(readme).toContain(`\`${component}\``)
})

test('the probes use the port on which the controller listens', () => {
  const { TENURE_LISTEN: listen } = find('ConfigMap')['data'] as Record<string, string>
  expect(JSON.stringify(find('Deployment'))).toContain(`"containerPort":${listen?.slice(1)}`)
  expect(JSON.stringify(readManifest('components/metrics/deployment-patch.yaml'))).toContain(`"${listen?.slice(1)}"`)
})
