/**
 * Tests `tenure page` on stores with their own servers: what it shows about an election, from its first leader to the
 * next.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { etcd } from '../../../../../test/servers/etcd.ts'
import { postgres } from '../../../../../test/servers/postgres.ts'
import { redis } from '../../../../../test/servers/redis.ts'
import { describeWith, describeWithCluster } from '../../../../../test/servers/suite.ts'
import { kubeConfigOf } from '../../../../../test/kubernetes/kube-config.ts'
import { temporaryFolder, tenure } from '../../tenure.ts'

interface Event {
  readonly type: string
  readonly leader_node_id?: string
  readonly leader?: { readonly node_id: string } | null
}

const patient = { timeout: 30_000 }

/** Shows a store while a node leads, resigns, and another node takes over. */
async function seen(store: string, env: Record<string, string> = {}): Promise<void> {
  const candidate = (identity: string) =>
    tenure(['sidecar', 'nightly', '--store', store, '--identity', identity, '--ttl', '5s', '--listen', '127.0.0.1:0'], {
      env,
    })
  const first = candidate('first')
  const leader = () => tenure(['leader', 'nightly', '--store', store, '--json'], { env })
  await vi.waitUntil(async () => {
    const asked = leader()
    await asked.ended
    return asked.output.out.includes('first')
  }, patient)
  const { output } = tenure(['page', '--store', store], { env })
  const address = await vi.waitUntil(() => /^http:\S+$/m.exec(output.out)?.[0], patient)
  const { origin, hash } = new URL(address)
  const headers = { authorization: `Bearer ${hash.replace('#token=', '')}` }
  const json = async (path: string) => (await fetch(`${origin}${path}`, { headers })).json() as Promise<object>
  await expect
    .poll(() => json('/v1/groups?search=night'), patient)
    .toMatchObject({ groups: [{ group_id: 'nightly', leader: { node_id: 'first', term: 1 } }], next: null })
  const ended = new AbortController()
  onTestFinished(() => ended.abort())
  const answer = await fetch(`${origin}/v1/watch?renewals=true&groups=nightly`, { headers, signal: ended.signal })
  const events: Event[] = []
  const read = async () => {
    for await (const piece of answer.body ?? []) {
      for (const [, data] of Buffer.from(piece)
        .toString()
        .matchAll(/^data: (.*)$/gm))
        events.push(JSON.parse(data ?? ''))
    }
  }
  read().catch(() => {})
  const told = () => events.map(({ type, leader_node_id = '' }) => `${type} ${leader_node_id}`)
  await expect.poll(told, patient).toContain('RENEWED first')
  expect(events[0]).toMatchObject({ type: 'STATE', leader: { node_id: 'first' } })
  candidate('second')
  first.child.kill('SIGTERM')
  await expect.poll(told, patient).toContain('LEADER_CHANGED second')
  expect(await json('/v1/changes?groups=nightly')).toMatchObject({
    changes: expect.arrayContaining([expect.objectContaining({ type: 'LEADER_CHANGED', term: 2 })]) as unknown,
  })
  expect(await json('/v1/replicas')).toMatchObject({ storage: { healthy: true } })
}

describeWith(etcd, 'The page of etcd', (server) => {
  test('tenure page on etcd shows the leader as it changes', () => seen(server().url.replace('http:', 'etcd:')))
})

describeWith(postgres, 'The page of PostgreSQL', (server) => {
  test('tenure page on PostgreSQL shows the leader as it changes', () => seen(server().url))
})

describeWith(redis, 'The page of Redis', (server) => {
  test('tenure page on Redis shows the leader as it changes', () => seen(server().url))
})

describeWithCluster('The page of Leases', (cluster) => {
  test('tenure page on Leases shows the leader as it changes', () => {
    const config = join(temporaryFolder(), 'config')
    writeFileSync(config, kubeConfigOf(cluster()))
    return seen(`kubernetes://${cluster().namespace}`, { KUBECONFIG: config, KUBERNETES_SERVICE_HOST: '' })
  })
})
