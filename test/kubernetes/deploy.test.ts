import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { filesNamedBy, folder, readManifest } from './manifests.ts'
import { isKustomization, files, objects, type Deployment, deployment } from './deploy-manifests.ts'

describe('the Kubernetes manifests', () => {
  test('the kustomization of each folder names every manifest in it', () => {
    for (const file of files.filter(isKustomization)) {
      const beside = files.filter((other) => dirname(other) === dirname(file) && other !== file)
      expect(filesNamedBy(readManifest(file), file)).toEqual(beside)
    }
    expect(files.filter(isKustomization)).toHaveLength(8)
  })

  test('the names and labels in the manifests match each other', () => {
    const labels = { 'app.kubernetes.io/name': 'my-app' }
    for (const file of objects) expect(readManifest(file).metadata.labels, file).toEqual(labels)
    expect(deployment.spec.selector.matchLabels).toEqual(labels)
    expect(deployment.spec.template.metadata.labels).toEqual(labels)
    expect(readManifest('poddisruptionbudget.yaml')['spec']).toMatchObject({ selector: { matchLabels: labels } })
    const account = readManifest('serviceaccount.yaml').metadata.name
    expect(deployment.spec.template.spec.serviceAccountName).toBe(account)
    for (const place of ['.', 'components/events', 'components/leader-label', 'components/leader-endpoints']) {
      const binding = readManifest(join(place, 'rolebinding.yaml'))
      expect(binding['roleRef']).toMatchObject({
        kind: 'Role',
        name: readManifest(join(place, 'role.yaml')).metadata.name,
      })
      expect(binding['subjects']).toEqual([{ kind: 'ServiceAccount', name: account, namespace: 'default' }])
    }
    expect(readManifest('components/polling/role.yaml').metadata).toEqual(readManifest('role.yaml').metadata)
  })

  test.each([
    ['kubernetes-deployment', ['events'], ['RECORD_EVENTS']],
    ['kubernetes-leader-service', ['leader-label', 'events'], ['LEADER_SERVICE', 'RECORD_EVENTS']],
    ['kubernetes-leader-service', ['leader-endpoints', 'events'], ['LEADER_SERVICE', 'POD_IP', 'RECORD_EVENTS']],
  ])(
    'for %s, the manifests with the components %j set the expected variables, and the program reads them all',
    (example, components, more) => {
      const program = readFileSync(join(folder, `../../examples/${example}/main.mjs`), 'utf8')
      const patches = components.map((name) => readManifest(`components/${name}/deployment-patch.yaml`) as Deployment)
      const set = [deployment, ...patches].flatMap(({ spec }) =>
        spec.template.spec.containers.flatMap(({ env }) => env),
      )
      for (const { name } of set) expect(program).toContain(name)
      const names = ['LEASE_NAME', 'POD_NAME', 'POD_NAMESPACE', 'PORT', ...more]
      expect(set.map(({ name }) => name).toSorted()).toEqual(names.toSorted())
    },
  )

  test.each(['kubernetes-deployment', 'kubernetes-leader-service'])(
    'the manifests let Prometheus scrape the pods of %s',
    (example) => {
      const program = readFileSync(join(folder, `../../examples/${example}/main.mjs`), 'utf8')
      const patch = readManifest('components/metrics/deployment-patch.yaml') as Deployment
      const { 'prometheus.io/path': path, 'prometheus.io/port': port } = patch.spec.template.metadata.annotations ?? {}
      expect(program).toContain(`'${path}'`)
      expect(JSON.stringify(deployment.spec.template.spec)).toContain(`"containerPort":${port}`)
    },
  )

  test.each(['kubernetes-deployment', 'kubernetes-leader-service'])(
    'the image of %s contains all files that its manifests use',
    (example) => {
      const place = join(folder, '../../examples', example)
      const [, copied = ''] = /^COPY (.*) \.\/$/m.exec(readFileSync(join(place, 'Dockerfile'), 'utf8')) ?? []
      const programs = readdirSync(place).filter((file) => file.endsWith('.mjs'))
      expect(copied.split(' ').toSorted()).toEqual(['tenure-*.tgz', ...programs].toSorted())
      const readme = readFileSync(join(place, 'README.md'), 'utf8')
      expect(readme).toContain(`docker build --tag my-app:1 examples/${example}\n`)
    },
  )

  test('the manifests give the program time to shut down', () => {
    const program = readFileSync(join(folder, '../../examples/kubernetes-deployment/main.mjs'), 'utf8')
    const drainMs = Number(/drainTimeoutMs: (\d+_\d+)/.exec(program)?.[1]?.replace('_', ''))
    const releaseMs = 5_000
    const eventMs = 5_000
    const graceMs = deployment.spec.template.spec.terminationGracePeriodSeconds * 1_000
    expect(graceMs).toBeGreaterThanOrEqual(drainMs + releaseMs + eventMs)
  })
})
