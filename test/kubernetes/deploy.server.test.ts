import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { isTenureError } from '../../packages/tenure/src/common/errors.ts'
import { candidate, race } from './candidate.ts'
import { blocksOfReadme, deployment, objects, readme, type Deployment } from './deploy-manifests.ts'
import { whyNoKubectl } from './kubectl.ts'
import { collectionOf, folder, inNamespace, parseObjects, parseOne, readManifest, type Manifest } from './manifests.ts'
import { newTestNamespace } from './test-namespace.ts'
import { requestJson } from '../servers/https-json.ts'
import { describeWithCluster, describeWithRight } from '../servers/suite.ts'

const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'my-app' } }

describeWithRight(whyNoKubectl(), 'the Kubernetes manifests, with kubectl', () => {
  test('the overlay in the README, with both components, renames all objects and sets their namespace', () => {
    const place = mkdtempSync(join(tmpdir(), 'tenure-kustomize-'))
    onTestFinished(() => rmSync(place, { recursive: true }))
    mkdirSync(join(place, 'deploy'))
    symlinkSync(folder, join(place, 'deploy/kubernetes'))
    mkdirSync(join(place, 'overlay'))
    const overlay = blocksOfReadme.find((code) => code.includes('kind: Kustomization')) ?? ''
    const [polling, events] = ['polling', 'events'].map((name) => `  - ../deploy/kubernetes/components/${name}\n`)
    for (const component of [polling, events]) expect(readme).toContain(`components:\n${component}`)
    writeFileSync(join(place, 'overlay/kustomization.yaml'), `${overlay}\ncomponents:\n${polling}${events}`)
    const built = parseObjects(execFileSync('kubectl', ['kustomize', join(place, 'overlay')], { encoding: 'utf8' }))
    const names = built.map(({ kind, metadata }) => `${kind} ${metadata.name}`)
    expect(names.toSorted()).toEqual([
      'Deployment payments-my-app',
      'PodDisruptionBudget payments-my-app',
      'Role payments-my-app',
      'Role payments-my-app-events',
      'RoleBinding payments-my-app',
      'RoleBinding payments-my-app-events',
      'ServiceAccount payments-my-app',
    ])
    const text = JSON.stringify(built)
    for (const { metadata } of built) expect(metadata).toMatchObject({ namespace: 'payments' })
    expect(
      text.match(/"subjects":\[\{"kind":"ServiceAccount","name":"payments-my-app","namespace":"payments"\}\]/g),
    ).toHaveLength(2)
    expect(text).not.toContain('"app.kubernetes.io/name":"my-app"')
    expect(text).toContain('"image":"example.com/payments:1.4.0"')
    expect(text).toContain('{"name":"RECORD_EVENTS","value":"true"}')
    expect(text).not.toContain('"watch"')
    // The name of the Lease follows from the label.
    expect(text.match(/"resourceNames":\[[^\]]*\]/g)).toEqual(['"resourceNames":["payments-my-app"]'])
  })
})

describeWithCluster('the Kubernetes manifests on a real API server', (cluster) => {
  const tenantOf = async (...given: string[]) => {
    const tenant = await newTestNamespace(cluster(), given)
    onTestFinished(tenant.remove)
    return tenant
  }

  test('the API server accepts every field of the Kubernetes manifests', async () => {
    const { create } = await tenantOf(...objects.filter((file) => !/serviceaccount|polling|leader-|flow/.test(file)))
    const others = objects.filter((file) => /polling|leader-/.test(file))
    // Some objects share their names with others. Another test creates the cluster-wide one.
    for (const [index, file] of others.entries()) await create(nameWith(readManifest(file), `-${index}`))
    await expect(
      create({ ...nameWith(deployment, '-wrong'), spec: { ...deployment.spec, replica: 2 } }),
    ).rejects.toThrow(/unknown field \\"spec.replica\\"/)
  })

  test('the component for Events patches the Kubernetes manifests', async () => {
    const { url, ca, adminToken: token } = cluster()
    const { namespace } = await tenantOf('deployment.yaml')
    const { status, body } = await requestJson<Deployment>({
      url,
      ca,
      token,
      method: 'PATCH',
      path: `${collectionOf(deployment, namespace)}/my-app?fieldValidation=Strict`,
      contentType: 'application/strategic-merge-patch+json',
      body: readManifest('components/events/deployment-patch.yaml'),
    })
    expect(status).toBe(200)
    const variables = body.spec.template.spec.containers.map(({ env }) => env.map(({ name }) => name).toSorted())
    expect(variables).toEqual([['LEASE_NAME', 'POD_NAME', 'POD_NAMESPACE', 'PORT', 'RECORD_EVENTS']])
  })

  test('the pods of the Kubernetes manifests pass the strictest pod security standard', async () => {
    const { admin, namespace } = cluster()
    const strict = `${namespace}-strict`
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' }
    await admin.request('POST', '/api/v1/namespaces', { metadata: { name: strict, labels } })
    const { metadata, spec } = deployment.spec.template
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, name: 'my-app' }, spec }
    const path = `${collectionOf(pod, strict)}?fieldValidation=Strict`
    expect((await admin.request('POST', path, inNamespace(pod, strict))).status).toBe(201)
    const careless = { ...pod, metadata: { name: 'careless' }, spec: { ...spec, securityContext: {} } }
    expect(await admin.request('POST', path, careless)).toMatchObject({ status: 403 })
  })

  describe('the rights of the manifests', () => {
    test('the Role of the manifests gives an elector all it needs: a standby learns of a release through its watch', async () => {
      const tenant = await tenantOf('role.yaml', 'rolebinding.yaml')
      await tenant.hasRight('watch', 'leases')
      const [first, second] = [candidate(cluster(), tenant, 'a'), candidate(cluster(), tenant, 'b')]
      const { leader, standby } = await race(first, second)
      const releasedMs = await leader.stop()
      // With polling, the standby would have waited for at least half a retry period, which is a second here.
      expect((await standby.started).atMs - releasedMs).toBeLessThan(900)
      expect([...leader.errors, ...standby.errors]).toEqual([])
    })

    test('without the watch right, a standby polls, and each elector reports the missing right once', async () => {
      const tenant = await tenantOf('components/polling/role.yaml', 'rolebinding.yaml')
      await tenant.hasRight('update', 'leases')
      const timings = { leaseDurationMs: 1_500 }
      const [first, second] = ['a', 'b'].map((name) => candidate(cluster(), tenant, name, timings))
      const { leader, standby } = await race(first, second)
      for (const one of [leader, standby]) {
        await expect.poll(() => one.errors.length, { timeout: 10_000, interval: 10 }).toBe(1)
      }
      // Long enough for a dozen refusals if an elector retried its watch with every poll.
      await leader.renewed(4)
      await leader.stop()
      expect(await standby.started).toMatchObject({ term: 2 })
      await standby.stop()
      const [ofLeader, ofStandby] = [leader, standby].map(({ errors }) => errors.map(String).join('\n'))
      const found =
        /^TenureError: "system:serviceaccount:.*" may not watch Lease ".*"\. The election works without it, .*$/
      expect(ofLeader).toMatch(found)
      // The standby's watch was refused, unless the check of its rights was answered first.
      const refused = /^\w+: A watch could not be opened: .*cannot watch resource "leases".*$/
      expect(ofStandby).toMatch(new RegExp(`${found.source}|${refused.source}`))
    })

    test('an elector gets a term above the one in a Lease that was created beforehand', async () => {
      const tenant = await tenantOf('role.yaml', 'rolebinding.yaml')
      await tenant.hasRight('update', 'leases')
      await tenant.create({ ...lease, spec: { leaseTransitions: 41 } })
      expect(await candidate(cluster(), tenant, 'a').started).toMatchObject({ term: 42 })
    })

    test('an elector without rights reports a clear error, and leads as soon as it gets the rights', async () => {
      const tenant = await tenantOf()
      const lone = candidate(cluster(), tenant, 'a', { leaseDurationMs: 1_500 })
      const error = await lone.failed
      expect(isTenureError(error) && error.code).toBe('UNAUTHORIZED')
      const { namespace } = tenant
      expect(String(error)).toContain(`Cannot get Lease "${namespace}/my-app"`)
      expect(String(error)).toContain(`User "system:serviceaccount:${namespace}:my-app" cannot get resource "leases"`)
      expect(String(error)).toContain(`in the namespace "${namespace}"`)
      await tenant.create(readManifest('role.yaml'))
      await tenant.create(readManifest('rolebinding.yaml'))
      expect(await lone.started).toMatchObject({ term: 1 })
    })

    test('the limited Role of the README allows one Lease and no other', async () => {
      const rules = blocksOfReadme.find((code) => code.includes('resourceNames'))
      const limited = parseOne(`${rules}`)
      const tenant = await tenantOf('rolebinding.yaml')
      // An empty Lease exists, so the right to create is not needed.
      const [, byName] = limited['rules'] as unknown[]
      await tenant.create({ ...readManifest('role.yaml'), rules: [byName] })
      await tenant.create(lease)
      await tenant.hasRight('watch', 'leases', 'my-app')
      const { leader, standby } = await race(candidate(cluster(), tenant, 'a'), candidate(cluster(), tenant, 'b'))
      await leader.stop()
      await standby.started
      expect([...leader.errors, ...standby.errors]).toEqual([])
      const stranger = candidate(cluster(), tenant, 'c', { leaseName: 'other' })
      expect(String(await stranger.failed)).toContain('cannot get resource "leases"')
    })
  })

  describe('Events of the manifests', () => {
    const messagesIn = async (namespace: string) => {
      const path = `/api/v1/namespaces/${namespace}/events`
      const { body } = await cluster().admin.request<{ items: Record<string, string>[] }>('GET', path)
      return body.items.map(({ reason, message }) => `${reason}: ${message}`).toSorted()
    }

    test('an elector writes Events with the Role for them', async () => {
      const events = ['role.yaml', 'rolebinding.yaml'].flatMap((file) => [file, `components/events/${file}`])
      const tenant = await tenantOf(...events)
      await tenant.hasRight('update', 'leases')
      await tenant.hasRight('create', 'events')
      const lone = candidate(cluster(), tenant, 'a', { recordEvents: true })
      await lone.started
      await lone.stop()
      expect(await messagesIn(tenant.namespace)).toEqual([
        'LeaderElection: a became leader',
        'LeaderElection: a stopped leading',
      ])
      expect(lone.errors).toEqual([])
    })

    test('an elector without the right to write Events keeps leading, and the error names the right', async () => {
      const tenant = await tenantOf('role.yaml', 'rolebinding.yaml')
      await tenant.hasRight('update', 'leases')
      const lone = candidate(cluster(), tenant, 'a', { recordEvents: true })
      await lone.started
      await lone.stop()
      expect(await messagesIn(tenant.namespace)).toEqual([])
      // The elector reports one error for each Event that was not written.
      expect(lone.errors).toHaveLength(2)
      for (const error of lone.errors) {
        expect(error).toMatchObject({ code: 'UNAUTHORIZED' })
        expect(String(error)).toMatch(/Cannot create an Event in "tenant-[\w-]+": .*cannot create resource "events"/)
      }
    })
  })
})

function nameWith(manifest: Manifest, suffix: string): Manifest {
  return { ...manifest, metadata: { ...manifest.metadata, name: `${manifest.metadata.name}${suffix}` } }
}
