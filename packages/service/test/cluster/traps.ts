/** What a replica with a mistake in it walks into. Each gives what clients heard. */
import type { Answer } from '../disk/service-process.ts'
import { answers as readAnswers, json, open, request, type Answer as RawAnswer } from '../attacks.ts'
import { vi } from 'vitest'
import { campaign, leader, renew, resign, startReplicas } from './process-scene.ts'
import { activeOf, type ClusterOptions } from './replica-process.ts'

/** Longer than it takes the others to go on without it, on a busy machine too. */
const blockedMs = 9_000

/**
 * The active one stands still in the midst of what had arrived, until another is active and has let `d` lead in place of
 * `c`. What came in meanwhile is then read in the same step, before any timer can say that its lease is over.
 */
export async function questionsAfterAStall(options: ClusterOptions): Promise<readonly RawAnswer[]> {
  const { active, followers } = await startReplicas(options)
  const [group, first] = ['g', await campaign(active, 'g', 'c')]
  if (first?.body['is_leader'] !== true) throw new Error(JSON.stringify(first))
  const socket = open(active.url)
  const ask = (line: string, body?: object) =>
    socket.write(request(active.url, line, body ? [json] : [], body && JSON.stringify(body)))
  const received = readAnswers(socket, 5, 3 * blockedMs)
  // It has taken the connection.
  ask('GET /healthz')
  await new Promise((resolve) => socket.once('data', resolve))
  await active.pause()
  active.block(blockedMs)
  ask('GET /healthz')
  active.resume()
  const blockedAtMs = performance.now()
  const next = await activeOf(followers, active.servedTerm)
  await resign(next, group, 'c', 1)
  const granted = await campaign(next, group, 'd')
  if (granted?.body['is_leader'] !== true) throw new Error(JSON.stringify(granted))
  ask(`POST /v1/groups/${group}/renew`, { node_id: 'c', term: 1, extend_by_ms: 30_000 })
  ask(`POST /v1/groups/${group}/campaign`, { node_id: 'e', lease_ttl_ms: 30_000 })
  ask(`GET /v1/groups/${group}/leader`)
  if (performance.now() - blockedAtMs > blockedMs) throw new Error('the others took too long to go on')
  return (await received).slice(2)
}

/**
 * A grant of the active one is held up on its way to etcd, and arrives after another was active and has granted the same
 * group to `y`. Then a third is active. Gives what `y` hears of it.
 */
export async function appendAfterItsTime(options: ClusterOptions): Promise<Answer | undefined> {
  const { active, followers } = await startReplicas(options)
  for (const proxy of active.toEtcd) proxy.set('hold', 'to-server')
  const queued = () => active.toEtcd.reduce((sum, { queuedBytes }) => sum + queuedBytes, 0)
  const before = queued()
  // Nobody waits for it: its answer never comes.
  void campaign(active, 'g', 'x', { metadata: { text: 'm'.repeat(3_000) } })
  await vi.waitUntil(() => queued() > before + 3_000, { timeout: 10_000, interval: 1 })
  await active.pause()
  const second = await activeOf(followers, active.servedTerm)
  const granted = await campaign(second, 'g', 'y')
  if (granted?.body['is_leader'] !== true) throw new Error(JSON.stringify(granted))
  for (const proxy of active.toEtcd) proxy.set('pass', 'to-server')
  await vi.waitUntil(() => queued() === 0, { timeout: 10_000, interval: 1 })
  // Whatever comes later is in etcd after it: a write on each connection to this member is in order with it.
  await campaign(second, 'h', 'z')
  await active.kill()
  await second.kill()
  const third = await activeOf(
    followers.filter((replica) => replica !== second),
    second.servedTerm,
  )
  const { term } = granted.body['leader'] as { term: number }
  return renew(third, 'g', 'y', term)
}

/** A campaign is granted, and the answer to the replica that passed it on is lost with its connection. */
export async function answerLostOnTheWay(options: ClusterOptions): Promise<Answer | undefined> {
  const {
    active,
    followers: [follower],
  } = await startReplicas(options)
  const way = follower.toOthers.get(active)
  way?.set('blackhole', 'to-client')
  const asked = campaign(follower, 'g', 'x')
  const isLed = async () => (await leader(active, 'g'))?.body['leader'] !== null
  await vi.waitUntil(isLed, { timeout: 10_000, interval: 10 })
  way?.set('pass', 'to-client')
  way?.reset()
  return asked
}
