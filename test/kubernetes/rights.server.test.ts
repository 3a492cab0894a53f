import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { KubernetesClient } from '../../packages/tenure/src/clients/kubernetes/client.ts'
import { kubernetesStore } from '../../packages/tenure/src/stores/kubernetes/index.ts'
import { candidate, race } from './candidate.ts'
import { whyNoKubectl } from './kubectl.ts'
import { startApiServerProxy, type ProxyAnswer } from './api-server-proxy.ts'
import { parseOne, readManifest } from './manifests.ts'
import { blocksOfReadme } from './deploy-manifests.ts'
import { root } from '../documents.ts'
import { newTestNamespace, type TestNamespace } from './test-namespace.ts'
import { describeWithCluster, describeWithRight } from '../servers/suite.ts'

const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'my-app' } }
const short = { leaseDurationMs: 3_000 }
const review = '/selfsubjectaccessreviews'

describeWithCluster('rights on a real API server', (cluster) => {
  /** Creates a namespace whose service account has these rights. */
  const tenantWith = async (verbs: readonly string[], resourceNames?: readonly string[]) => {
    const tenant = await newTestNamespace(cluster(), ['rolebinding.yaml'])
    onTestFinished(tenant.remove)
    const rule = { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs, resourceNames }
    await tenant.create({ ...readManifest('role.yaml'), rules: [rule] })
    const [first] = verbs
    if (first !== undefined) await tenant.hasRight(first, 'leases', resourceNames?.[0])
    return tenant
  }
  const findings = (errors: readonly unknown[]) => errors.filter((error) => codeOf(error) === 'MISSING_RIGHT')
  /** Resolves with the first diagnostic, and checks that there is only one. */
  const finding = async ({ errors }: { readonly errors: readonly unknown[] }) => {
    await expect.poll(() => findings(errors).length, { timeout: 10_000, interval: 10 }).toBe(1)
    return String(findings(errors)[0])
  }
  const command = ({ namespace }: TestNamespace) =>
    `Bind the Role from deploy/kubernetes to it in namespace "${namespace}", or run: ` +
    `kubectl create role tenure -n ${namespace} --verb=get,create,update,watch --resource=leases.coordination.k8s.io && ` +
    `kubectl create rolebinding tenure -n ${namespace} --role=tenure --serviceaccount=${namespace}:my-app`

  describe('a missing right', () => {
    test('a missing update right is reported while the elector leads, long before a renewal fails', async () => {
      const tenant = await tenantWith(['get', 'create', 'watch'])
      const { namespace } = tenant
      const lone = candidate(cluster(), tenant, 'a', { leaseDurationMs: 60_000 })
      await lone.started
      expect(await finding(lone)).toContain(
        `"system:serviceaccount:${namespace}:my-app" may not update Lease "${namespace}/my-app". ` +
          `It can neither renew nor take over: its leadership ends at the deadline. ${command(tenant)}`,
      )
      expect(lone.elector.isLeader()).toBe(true)
      expect(lone.errors, 'no renewal was due yet').toHaveLength(1)
    })

    test('a missing create right is reported when there is no Lease yet', async () => {
      const tenant = await tenantWith(['get', 'update', 'watch'])
      const lone = candidate(cluster(), tenant, 'a')
      const text = await finding(lone)
      expect(text).toContain(
        `:my-app" may not create Lease "${tenant.namespace}/my-app". It must wait until another program`,
      )
      expect(text).toContain(command(tenant))
      await tenant.create(lease)
      expect(await lone.started).toMatchObject({ term: 1 })
    })

    test('a missing get right is reported with all other missing rights in one message', async () => {
      const tenant = await newTestNamespace(cluster())
      onTestFinished(tenant.remove)
      const lone = candidate(cluster(), tenant, 'a')
      const text = await finding(lone)
      expect(text).toContain(
        `:my-app" may not get, create, update or watch Lease "${tenant.namespace}/my-app". It cannot`,
      )
      expect(text).toContain(command(tenant))
    })

    test('leader and standby each report a missing watch right once, and say that the election works without it', async () => {
      const tenant = await tenantWith(['get', 'create', 'update'])
      const { leader, standby } = await race(
        candidate(cluster(), tenant, 'a', short),
        candidate(cluster(), tenant, 'b', short),
      )
      expect(await finding(leader)).toMatch(
        /may not watch Lease ".*"\. The election works without it, but standbys poll\./,
      )
      await expect.poll(() => standby.errors.length, { timeout: 10_000, interval: 10 }).toBe(1)
      await leader.renewed(1)
      expect([leader.errors.length, standby.errors.length]).toEqual([1, 1])
      await leader.stop()
      expect(await standby.started).toMatchObject({ term: 2 })
    })

    test('the report includes the reason of the API server when a bound Role does not exist', async () => {
      const tenant = await newTestNamespace(cluster(), ['rolebinding.yaml'])
      onTestFinished(tenant.remove)
      // The authorizer learns about a binding through a watch.
      await expect.poll(() => reasonFor(tenant), { timeout: 5_000 }).toContain('not found')
      expect(await finding(candidate(cluster(), tenant, 'a'))).toMatch(
        /The API server adds: .*role.* "my-app" not found.* It cannot take part/,
      )
    })

    test('rights() of the store returns which rights are missing and whether the rest are enough', async () => {
      const tenant = await tenantWith(['get', 'update'])
      const store = kubernetesStore({ client: clientOf(tenant.token), namespace: tenant.namespace })
      const call = { signal: AbortSignal.timeout(10_000) }
      expect(await store.rights('my-app', call)).toMatchObject({
        get: true,
        create: false,
        update: true,
        watch: false,
        enough: false,
        missing: { code: 'MISSING_RIGHT' },
      })
      await tenant.create(lease)
      const rights = await store.rights('my-app', call)
      expect(rights).toMatchObject({ create: false, watch: false, enough: true })
      expect(rights?.missing?.message).toMatch(/may not watch Lease/)
    })
  })

  describe('sufficient rights', () => {
    test('an elector with all rights reports no missing right and sends four access reviews', async () => {
      const tenant = await tenantWith(['get', 'create', 'update', 'watch'])
      const front = await frontFor()
      const lone = candidate({ ...cluster(), url: `https://127.0.0.1:${front.port}` }, tenant, 'a', short)
      await lone.started
      const reviews = () => front.requests.filter(({ path }) => path.endsWith(review)).length
      await expect.poll(reviews, { timeout: 10_000 }).toBe(4)
      await lone.renewed(1)
      expect([reviews(), lone.errors]).toEqual([4, []])
    })

    test("an elector reports no missing right with the README's Role that is limited to its Lease", async () => {
      const limited = parseOne(`${blocksOfReadme.find((code) => code.includes('resourceNames'))}`)
      const tenant = await newTestNamespace(cluster(), ['rolebinding.yaml'])
      onTestFinished(tenant.remove)
      await tenant.create({ ...readManifest('role.yaml'), rules: limited['rules'] })
      await tenant.hasRight('watch', 'leases', 'my-app')
      const store = kubernetesStore({ client: clientOf(tenant.token), namespace: tenant.namespace })
      const call = { signal: AbortSignal.timeout(10_000) }
      expect(await store.rights('my-app', call)).toMatchObject({ enough: true, missing: undefined })
      const other = await store.rights('other', call)
      expect(other).toMatchObject({ get: false, create: true, update: false, watch: false, enough: false })
      expect(other?.missing?.message).toContain(`may not get, update or watch Lease "${tenant.namespace}/other"`)
    })

    test('an elector without the right to create reports no missing right when its Lease exists', async () => {
      const tenant = await tenantWith(['get', 'update', 'watch'], ['my-app'])
      await tenant.create(lease)
      const store = kubernetesStore({ client: clientOf(tenant.token), namespace: tenant.namespace })
      const rights = await store.rights('my-app', { signal: AbortSignal.timeout(10_000) })
      expect(rights).toMatchObject({ create: false, enough: true, missing: undefined })
      const lone = candidate(cluster(), tenant, 'a', short)
      await lone.started
      await lone.renewed(3)
      expect(lone.errors).toEqual([])
    })
  })

  describe('the access review', () => {
    const status = (code: number, reason: string) => ({
      status: code,
      body: { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message: reason },
    })
    /** The API server's answer when an authorizer fails and no other one allows the request. */
    const unsure = { status: 201, body: { status: { allowed: false, evaluationError: 'webhook: connection refused' } } }
    const noAnswers: Record<string, ProxyAnswer> = {
      forbidden: status(403, 'Forbidden'),
      'unknown to the server': status(404, 'NotFound'),
      'rate-limited': status(429, 'TooManyRequests'),
      'answered with something else': { status: 201, body: { status: { allowed: 'perhaps' } } },
      'answered by an authorizer that failed': unsure,
      'never answered': 'silence',
    }
    test('an access review without a usable answer delays nothing, reports nothing, and is not repeated', async () => {
      const tenant = await tenantWith(['get', 'create', 'watch'])
      const cases = Object.entries(noAnswers).map(async ([name, answer], index) => {
        const front = await frontFor()
        front.answer = ({ path }) => (path.endsWith(review) ? answer : undefined)
        const url = `https://127.0.0.1:${front.port}`
        const lone = candidate({ ...cluster(), url }, tenant, 'a', { ...short, leaseName: `lease-${index}` })
        await lone.started
        // Without the right to update, its renewals fail, it loses its lease, and it campaigns again.
        await expect.poll(() => lone.errors.length, { timeout: 20_000, interval: 10 }).toBeGreaterThan(3)
        expect(findings(lone.errors), name).toEqual([])
        expect(
          front.requests.filter(({ path }) => path.endsWith(review)),
          name,
        ).toHaveLength(1)
      })
      await Promise.all(cases)
    })

    test('a watch still opens when the access review for it returned an error', async () => {
      const tenant = await tenantWith(['get', 'create', 'update', 'watch'])
      const front = await frontFor()
      let reviews = 0
      // The last of the four reviews checks "watch".
      front.answer = ({ path }) => (path.endsWith(review) && ++reviews === 4 ? unsure : undefined)
      const store = kubernetesStore({ client: clientOf(tenant.token, front.port), namespace: tenant.namespace })
      onTestFinished(() => store.close?.())
      const call = { signal: AbortSignal.timeout(10_000) }
      expect(await store.examine?.('my-app', call)).toEqual([])
      expect(reviews).toBe(4)
      const first = await store.watch?.('my-app', call)[Symbol.asyncIterator]().next()
      expect(first).toEqual({ done: false, value: undefined })
    })

    test('the access review is sent once for each election of a store, and for ten elections at most', async () => {
      const tenant = await tenantWith(['get', 'create', 'update', 'watch'])
      const front = await frontFor()
      const store = kubernetesStore({ client: clientOf(tenant.token, front.port), namespace: tenant.namespace })
      const call = { signal: AbortSignal.timeout(10_000) }
      for (let round = 0; round < 3; round += 1) await store.examine?.('my-app', call)
      expect(front.requests).toHaveLength(4)
      for (let index = 0; index < 30; index += 1) await store.examine?.(`job-${index}`, call)
      expect(front.requests).toHaveLength(40)
    })

    test('the report names no user when the API server does not say who the caller is', async () => {
      const tenant = await tenantWith(['get', 'create', 'watch'])
      const front = await frontFor()
      front.answer = ({ path }) => (path.endsWith('/selfsubjectreviews') ? status(404, 'NotFound') : undefined)
      const store = kubernetesStore({ client: clientOf(tenant.token, front.port), namespace: tenant.namespace })
      const rights = await store.rights('my-app', { signal: AbortSignal.timeout(10_000) })
      expect(rights?.missing?.message).toMatch(/^The user of this program may not update Lease .* --user=NAME$/)
    })
  })

  describeWithRight(whyNoKubectl(), 'kubectl', () => {
    const kubectl = async (line: string) => {
      const { url, caFile, adminToken } = cluster()
      const access = [`--server=${url}`, `--certificate-authority=${caFile}`, `--token=${adminToken}`]
      const env = { ...process.env, KUBECONFIG: '/dev/null' }
      return promisify(execFile)('kubectl', [...line.split(' ').slice(1), ...access], { env })
    }

    test('the command in the message grants the rights, and the command on the troubleshooting page confirms them', async () => {
      const tenant = await newTestNamespace(cluster())
      onTestFinished(tenant.remove)
      const lone = candidate(cluster(), tenant, 'a', short)
      const [, commands = ''] = /, or run: (.*)$/.exec(await finding(lone)) ?? []
      for (const line of commands.split(' && ')) await kubectl(line)
      expect(await lone.started).toMatchObject({ term: 1 })
      for (const verb of ['get', 'create', 'update', 'watch']) await tenant.hasRight(verb, 'leases')
      const page = readFileSync(join(root, 'docs/how-to/kubernetes-troubleshooting.md'), 'utf8')
      const [question = ''] = /kubectl auth can-i [^`]*/.exec(page) ?? []
      const { stdout } = await kubectl(question.replaceAll(/\bjobs\b/g, tenant.namespace))
      expect(stdout).toBe('yes\n')
    })
  })

  describe('the message of a 403', () => {
    const remove = async ({ namespace }: TestNamespace) => {
      const { body } = await cluster().admin.request<{ status: { phase: string } }>(
        'DELETE',
        `/api/v1/namespaces/${namespace}`,
      )
      expect(body.status.phase).toBe('Terminating')
    }
    const terminating =
      /because it is being terminated\. No permission is missing: the namespace is being deleted\. Recreate it once it is gone, or use another one\.$/

    test('a 403 in a namespace that is being deleted is reported as such', async () => {
      const tenant = await tenantWith(['get', 'create', 'update', 'watch'])
      await remove(tenant)
      const lone = candidate(cluster(), tenant, 'a')
      const error = await lone.failed
      expect(String(error)).toMatch(/Cannot create Lease ".*\/my-app": the API server denied the request \(403\)\./)
      expect(String(error)).toMatch(terminating)
      expect(findings(lone.errors)).toEqual([])
    })

    test('a 403 for an Event in a namespace that is being deleted is reported as such', async () => {
      const tenant = await tenantWith(['get', 'create', 'update', 'watch'])
      await tenant.create(readManifest('components/events/role.yaml'))
      await tenant.create(readManifest('components/events/rolebinding.yaml'))
      await tenant.hasRight('create', 'events')
      await tenant.create(lease)
      await remove(tenant)
      const lone = candidate(cluster(), tenant, 'a', { recordEvents: true })
      await lone.started
      expect(String(await lone.failed)).toMatch(
        /Cannot create an Event in ".*": the API server denied the request \(403\)\./,
      )
      expect(String(await lone.failed)).toMatch(terminating)
    })

    test('a 403 for an Event names the component to apply', async () => {
      const tenant = await tenantWith(['get', 'create', 'update', 'watch'])
      const lone = candidate(cluster(), tenant, 'a', { recordEvents: true })
      await lone.started
      expect(String(await lone.failed)).toMatch(
        /cannot create resource "events" .*\. The election continues without Events\. Apply deploy\/kubernetes\/components\/events, or turn recordEvents off\.$/,
      )
    })

    test('the error for a 403 because of a quota suggests no Role', async () => {
      const tenant = await tenantWith(['get', 'create', 'update', 'watch'])
      const path = `/api/v1/namespaces/${tenant.namespace}/resourcequotas`
      const hard = { 'count/leases.coordination.k8s.io': '0' }
      await cluster().admin.request('POST', path, { metadata: { name: 'none' }, spec: { hard }, status: { hard } })
      await cluster().admin.request('PATCH', `${path}/none/status`, {
        status: { hard, used: { 'count/leases.coordination.k8s.io': '0' } },
      })
      const store = kubernetesStore({ client: clientOf(tenant.token), namespace: tenant.namespace })
      const claim = {
        election: 'my-app',
        holder: 'a',
        attempt: 'a.1',
        leaseDurationMs: 1_000,
        afterTerm: 0,
        metadata: {},
      }
      await expect(store.acquire(claim, { signal: AbortSignal.timeout(10_000) })).rejects.toThrow(
        /exceeded quota: none.*\. No permission is missing: an admission rule \(a quota, a policy or a webhook\) denied it\./,
      )
    })

    test('the error for a 403 in a namespace that was only the default explains how to set the namespace', async () => {
      const tenant = await newTestNamespace(cluster())
      onTestFinished(tenant.remove)
      const question =
        'The namespace is "default" because POD_NAMESPACE is not set. If another one is meant, set POD_NAMESPACE with the downward API, or pass the namespace.'
      expect(process.env['POD_NAMESPACE']).toBeUndefined()
      const call = { signal: AbortSignal.timeout(10_000) }
      const store = kubernetesStore({ client: clientOf(tenant.token) })
      await expect(store.read('my-app', call)).rejects.toThrow(
        `Bind the Role from deploy/kubernetes to this user in namespace "default". ${question}`,
      )
      expect((await store.rights('my-app', call))?.missing?.message).toContain(question)
      // A caller that named the namespace chose it deliberately.
      const meant = kubernetesStore({ client: clientOf(tenant.token), namespace: 'default' })
      await expect(meant.read('my-app', call)).rejects.toThrow(/to this user in namespace "default"\.$/)
      expect((await meant.rights('my-app', call))?.missing?.message).not.toContain(question)
      const named = kubernetesStore({ client: clientOf(tenant.token), namespace: tenant.namespace })
      await expect(named.read('my-app', call)).rejects.toThrow(/to this user in namespace "tenant-[\w-]+"\.$/)
    })
  })

  const frontFor = async () => {
    const front = await startApiServerProxy(cluster(), () => performance.now())
    onTestFinished(() => front.stop())
    return front
  }

  const clientOf = (token: string, port = cluster().port) => {
    const { ca } = cluster()
    const credentials = () => ({ authorization: `Bearer ${token}`, tls: { ca } })
    return new KubernetesClient({ server: `https://127.0.0.1:${port}`, credentials })
  }

  /** Returns why the API server does not let the service account read Leases. */
  const reasonFor = async ({ namespace, token }: TestNamespace) => {
    const resourceAttributes = { namespace, verb: 'get', group: 'coordination.k8s.io', resource: 'leases' }
    const { body } = await cluster().admin.request<{ status: { reason?: string } }>(
      'POST',
      '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
      { spec: { resourceAttributes } },
      token,
    )
    return body.status.reason ?? ''
  }
})

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
