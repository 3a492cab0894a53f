/** The examples of Go programs that lead across clusters, in two clusters that share only a global lock. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { findBlocks, readDocument } from '../documents.ts'
import { kubeConfigOf } from '../kubernetes/kube-config.ts'
import { inNamespace, parseOne } from '../kubernetes/manifests.ts'
import { applyTo, pathOf as pathIn } from '../multicluster/manifests.ts'
import { startTwoClusters, type TwoClusters } from '../multicluster/two-clusters.ts'
import { clusterPrograms } from '../servers/cluster.ts'
import { pathOf, type Program } from '../servers/find-program.ts'
import { end } from '../servers/process.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { startWatchdog } from '../servers/watchdog.ts'

interface Example {
  readonly name: string
  readonly program: Program
  /** Matches a line that the program prints while it works in this term. */
  readonly works: (term: number) => RegExp
}

const clientGo: Example = {
  name: 'go-client-go',
  program: programs.goClientGo,
  works: (term) => new RegExp(`^works in term ${term}$`, 'm'),
}
const examples: readonly Example[] = [
  {
    name: 'go-controller-runtime',
    program: programs.goControllerRuntime,
    works: (term) => new RegExp(`^reconciled extension-apiserver-authentication in term ${term}$`, 'm'),
  },
  clientGo,
]

const leaseMs = 10_000
const patience = { timeout: 90_000, interval: 10 }

describeWithPrograms([...clusterPrograms, ...examples.map(({ program }) => program)], 'the Go examples', () => {
  let clusters: TwoClusters | undefined
  beforeAll(async () => {
    clusters = await startTwoClusters()
  })
  afterAll(() => clusters?.stop())

  const started = () => clusters ?? expect.unreachable('nothing was started')
  const start = ({ name, program, works }: Example, cluster: 'east' | 'west', kubeConfig?: string) => {
    const { namespace, [cluster]: site } = started()
    const args = ['--namespace', namespace, '--name', name, '--identity', cluster, '--lease', `${leaseMs}ms`]
    const env = { ...process.env, KUBECONFIG: kubeConfig ?? site.kubeConfig, KUBERNETES_SERVICE_HOST: '' }
    const child = spawn(pathOf(program), args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
    const watchdog = startWatchdog('SIGKILL')
    watchdog.guard(child)
    child.once('exit', () => watchdog.dismiss())
    onTestFinished(() => end(child, 'SIGKILL'))
    const exited = once(child, 'exit')
    let [output, errors] = ['', '']
    child.stdout.on('data', (text: Buffer) => (output += text.toString()))
    child.stderr.on('data', (text: Buffer) => (errors += text.toString()))
    return {
      /** Waits until it leads and works. Returns the term. */
      async leads(): Promise<number> {
        const term = () => Number(new RegExp(`^${cluster} leads in term (\\d+)$`, 'm').exec(output)?.[1] ?? 0)
        await vi
          .waitUntil(() => term() > 0 && works(term()).test(output), patience)
          .catch(() => expect.unreachable(`${name} in the ${cluster} does not lead:\n${output}${errors}`))
        return term()
      },
      isQuiet: () => output === '',
      async ends(signal: NodeJS.Signals) {
        child.kill(signal)
        return (await exited) as [number | null, NodeJS.Signals | null]
      },
    }
  }

  test.for(examples)(
    '$name: the other cluster takes over when the leader is killed, and at once when it is terminated',
    { timeout: 180_000 },
    async (example) => {
      const east = start(example, 'east')
      const first = await east.leads()
      const west = start(example, 'west')
      await east.ends('SIGKILL')
      expect(west.isQuiet()).toBe(true)
      const second = await west.leads()
      expect(second).toBeGreaterThan(first)
      const back = start(example, 'east')
      // A standby that has just started may not have seen the lease yet. It takes over anyway.
      expect(await west.ends('SIGTERM')).toEqual([0, null])
      const releasedMs = performance.now()
      expect(await back.leads()).toBeGreaterThan(second)
      // Without a release, the takeover would take almost a whole lease.
      expect(performance.now() - releasedMs).toBeLessThan(0.7 * leaseMs)
    },
  )

  test('a candidate with only the rights in the guide leads and writes Events', { timeout: 120_000 }, async () => {
    const { namespace, east } = started()
    const guide = 'docs/guide/go-controllers.md'
    const shown = findBlocks(guide, readDocument(guide)).find(({ info }) => info[0] === 'yaml')
    const role = parseOne(shown?.code ?? '')
    const subjects = [{ kind: 'ServiceAccount', name: 'my-app' }]
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: role.metadata.name }
    const { apiVersion } = role
    const metadata = { name: 'my-app' }
    const account = inNamespace({ apiVersion: 'v1', kind: 'ServiceAccount', metadata }, namespace)
    const binding = { apiVersion, kind: 'RoleBinding', metadata, roleRef, subjects }
    for (const object of [account, role, binding]) await applyTo(east.server, inNamespace(object, namespace))
    const asked = { spec: { expirationSeconds: 3_600 } }
    const { admin } = east.server
    const { body } = await admin.request<{ status: { token: string } }>('POST', `${pathIn(account)}/token`, asked)
    const kubeConfig = `${east.kubeConfig}-my-app`
    writeFileSync(kubeConfig, kubeConfigOf(east.server, { token: body.status.token }))
    const name = 'rights'
    const candidate = start({ ...clientGo, name }, 'east', kubeConfig)
    expect(await candidate.leads()).toBe(1)
    expect(await candidate.ends('SIGTERM')).toEqual([0, null])
    const events = `/api/v1/namespaces/${namespace}/events?fieldSelector=involvedObject.name=${name}`
    const found = await admin.request<{ items: { message: string }[] }>('GET', events)
    expect(found.body.items.map(({ message }) => message)).toContain('east became leader')
  })
})
