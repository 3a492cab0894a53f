import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect } from 'vitest'
import type { RunningServer } from '../servers/server.ts'
import { nowMs, patient, sceneTest as test, timings, until, type Candidate } from './election-fixture.ts'
import { serve } from './serve.ts'

/** How much later than planned an event may happen on a busy machine. */
const slackMs = 1_000

/** Checks that the leader stopped at its deadline, which counts from the sending of the last call that was answered. */
function stoppedInTime({ events, elector }: Candidate): void {
  const lost = events.find(({ type }) => type === 'lost')
  const heard = events.findLast(({ type, atMs }) => /renewed|elected/.test(type) && atMs < (lost?.atMs ?? 0))
  expect((lost?.atMs ?? Infinity) - (heard?.atMs ?? 0)).toBeLessThan(timings.renewDeadlineMs + slackMs)
  expect(elector.isLeader()).toBe(false)
}

async function groupsOf(url: string): Promise<string[]> {
  const answer = (await (await fetch(`${url}/v1/groups`)).json()) as { groups: { group_id: string }[] }
  return answer.groups.map(({ group_id }) => group_id)
}

describe('a service', () => {
  for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
    test(`the leader keeps its term when the service is back within the deadline after ${signal}, and its standby follows`, async ({
      scene,
    }) => {
      const service = await scene.service()
      const { leader, standby } = await scene.pair([service.url, service.url], patient)
      await service.restart(signal)
      expect(await leader.event('renewed', nowMs())).toMatchObject({ term: 1 })
      expect(scene.beliefs).toHaveLength(1)
      await leader.elector.stop()
      expect(await standby.event('elected')).toMatchObject({ term: 2 })
    })
  }

  test('the leader stops at its deadline when the service is down for longer, and is elected again in a higher term', async ({
    scene,
  }) => {
    const service = await scene.service()
    const leader = scene.stand('ada', service.url)
    await leader.event('renewed')
    await service.kill('SIGKILL')
    const lost = await leader.event('lost')
    expect(lost).toMatchObject({ term: 1, reason: 'expired' })
    stoppedInTime(leader)
    await service.start()
    expect(await leader.event('elected', lost.atMs)).toMatchObject({ term: 2 })
  })

  test('nobody leads while the service is paused for longer than the lease, and somebody leads afterwards', async ({
    scene,
  }) => {
    const service = await scene.service()
    const { leader } = await scene.pair([service.url, service.url])
    service.pause()
    const lost = await leader.event('lost')
    stoppedInTime(leader)
    expect(leader.codes()).toContain('TIMEOUT')
    await until(() => nowMs() - lost.atMs > timings.leaseDurationMs)
    expect(scene.beliefs).toHaveLength(1)
    service.resume()
    await until(() => scene.beliefs.length === 2)
  })

  test('the leader keeps its term when the service is paused for a moment', async ({ scene }) => {
    const service = await scene.service()
    const { leader } = await scene.pair([service.url, service.url], patient)
    service.pause()
    await leader.event('renew-failed', nowMs())
    service.resume()
    expect(await leader.event('renewed', nowMs())).toMatchObject({ term: 1 })
    expect(scene.beliefs).toHaveLength(1)
  })

  test('a service that lost all its data counts as another cluster and elects no candidate that knew the old one', async ({
    scene,
  }) => {
    const service = await scene.service()
    const leader = scene.stand('ada', service.url)
    await leader.event('renewed')
    await service.kill('SIGKILL')
    rmSync(join(service.directory, 'data'), { recursive: true })
    await service.start()
    const { atMs } = await leader.event('lost')
    await until(() => leader.codes().includes('WRONG_CLUSTER') && nowMs() > atMs + timings.leaseDurationMs)
    expect(scene.beliefs).toHaveLength(1)
    expect(await groupsOf(service.url)).toEqual([])
  })

  test('a service of another cluster at the second address elects nobody, and the first elects again when it is back', async ({
    scene,
  }) => {
    const [right, wrong] = [await scene.service(), await scene.service()]
    const url = [right.url, wrong.url]
    const leader = scene.stand('ada', { url })
    await leader.event('renewed')
    const standby = scene.stand('bob', { url })
    await until(() => standby.elector.leader()?.holder === 'ada')
    await right.kill('SIGKILL')
    await leader.event('lost')
    stoppedInTime(leader)
    await until(() => [leader, standby].every(({ codes }) => codes().includes('WRONG_CLUSTER')))
    expect(scene.beliefs).toHaveLength(1)
    await right.start()
    await until(() => scene.beliefs.length === 2)
    // The wrong service received requests, but carried none of them out.
    expect(await groupsOf(wrong.url)).toEqual([])
  })
})

describe('candidates of one service', () => {
  let service: RunningServer | undefined
  beforeAll(async () => {
    service = await serve()
  })
  afterAll(() => service?.stop())
  const one = () => service ?? expect.unreachable()

  describe.concurrent('a network', () => {
    test('the leader continues on a new connection when its connections hang half open', async ({ scene }) => {
      const network = await scene.network(one())
      const leader = scene.stand('ada', network.url, patient)
      await leader.event('renewed')
      const before = network.opened
      network.freezeExisting()
      await leader.event('renew-failed')
      expect(await leader.event('renewed', nowMs())).toMatchObject({ term: 1 })
      expect(leader.codes()).toEqual(['TIMEOUT'])
      expect(network.opened).toBeGreaterThan(before)
      expect(scene.beliefs).toHaveLength(1)
    })

    test('the leader continues when its connections are reset repeatedly', async ({ scene }) => {
      const network = await scene.network(one())
      const leader = scene.stand('ada', network.url, patient)
      for (let count = 0; count < 3; count++) {
        await leader.event('renewed', nowMs())
        network.reset()
      }
      await leader.event('renewed', nowMs())
      expect(scene.beliefs).toHaveLength(1)
    })

    for (const direction of [undefined, 'to-client', 'to-server'] as const) {
      const what = { 'to-client': 'receives', 'to-server': 'sends' }[direction ?? 'to-client']
      const swallowed = direction ? `what the leader ${what}` : 'everything that the leader sends and receives'
      test(`the leader stops before its standby is elected when the network drops ${swallowed}`, async ({ scene }) => {
        const network = await scene.network(one())
        const { leader, standby } = await scene.pair([network.url, one().url])
        network.set('blackhole', direction)
        const elected = await standby.event('elected')
        // A candidate that receives no answers may win once more without knowing it. It has not seen that term, so it
        // wins no other.
        expect([2, direction === 'to-client' ? 3 : 2]).toContain(elected.term)
        stoppedInTime(leader)
        expect((await leader.event('lost')).atMs).toBeLessThan(elected.atMs)
      })
    }

    test('a call ends at its deadline even when its answer trickles in', async ({ scene }) => {
      const network = await scene.network(one())
      const { leader, standby } = await scene.pair([network.url, one().url])
      network.set({ bytes: 1, everyMs: 50 }, 'to-client')
      await leader.event('lost')
      stoppedInTime(leader)
      expect(leader.codes()).toContain('TIMEOUT')
      // A campaign may win without its sender learning about it in time. Nobody leads that term.
      expect((await standby.event('elected')).term).toBeGreaterThan(1)
    })

    test('a standby learns of a release even when its event stream is cut', async ({ scene }) => {
      const network = await scene.network(one())
      const { leader, standby } = await scene.pair([one().url, network.url])
      network.reset()
      await leader.elector.stop()
      expect(await standby.event('elected')).toMatchObject({ term: 2 })
    })

    test('a standby takes over after the lease has expired even when its event stream is held back', async ({
      scene,
    }) => {
      const [toLeader, toStandby] = [await scene.network(one()), await scene.network(one())]
      const { leader, standby } = await scene.pair([toLeader.url, toStandby.url])
      // The existing connections are the event stream, and one that the first failing call replaces.
      toStandby.freezeExisting('to-client')
      toLeader.set('blackhole')
      const heard = leader.events.findLast(({ type }) => type === 'renewed')
      const elected = await standby.event('elected')
      expect(elected.term).toBe(2)
      const lateMs = elected.atMs - (heard?.atMs ?? 0) - timings.leaseDurationMs
      expect(lateMs).toBeLessThan(timings.leaseDurationMs + timings.renewIntervalMs + slackMs)
    })
  })

  describe.concurrent('a standby', () => {
    test('a standby takes over at once when the leader releases', async ({ scene }) => {
      const slow = { ...patient, leaseDurationMs: 15_000, retryIntervalMs: 3_000 }
      const { leader, standby } = await scene.pair([one().url, one().url], slow)
      const stopping = leader.elector.stop()
      const elected = await standby.event('elected')
      await stopping
      expect(elected.atMs - (await leader.event('lost')).atMs).toBeLessThan(slackMs)
    })

    test('a standby takes over as soon as the service sees the lease of a dead leader expire', async ({ scene }) => {
      const network = await scene.network(one())
      const { leader, standby } = await scene.pair([network.url, one().url])
      network.refuse()
      network.set('blackhole')
      const heard = leader.events.findLast(({ type }) => type === 'renewed')
      const waitedMs = (await standby.event('elected')).atMs - (heard?.atMs ?? 0)
      expect(waitedMs).toBeGreaterThan(timings.leaseDurationMs - slackMs / 2)
      expect(waitedMs).toBeLessThan(timings.leaseDurationMs + slackMs)
    })
  })

  describe.concurrent('with two addresses', () => {
    test('a leader continues at the second address in the same term', async ({ scene }) => {
      const [first, second] = [await scene.network(one()), await scene.network(one())]
      const leader = scene.stand('ada', { url: [first.url, second.url] }, patient)
      await leader.event('renewed')
      expect(second.opened).toBe(0)
      first.refuse()
      first.reset()
      expect(await leader.event('renewed', nowMs())).toMatchObject({ term: 1 })
      expect(second.opened).toBeGreaterThan(0)
      await first.accept()
      const before = first.opened
      second.set('blackhole')
      await until(() => first.opened > before)
      expect(await leader.event('renewed', nowMs())).toMatchObject({ term: 1 })
      expect(scene.beliefs).toHaveLength(1)
    })
  })

  test('the service refuses a request for another cluster and creates no group', async ({ scene }) => {
    const answer = await fetch(`${one().url}/v1/groups/${scene.election}/campaign`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'tenure-cluster-id': 'another' },
      body: JSON.stringify({ node_id: 'ada', lease_ttl_ms: 5_000 }),
    })
    expect(answer.status).toBe(400)
    expect(answer.headers.get('tenure-cluster-id')).toMatch(/./)
    expect(await groupsOf(one().url)).not.toContain(scene.election)
  })

  test('a process that has led and watched exits on its own', async ({ scene }) => {
    const args = [fileURLToPath(new URL('./lead-once.mjs', import.meta.url)), one().url, scene.election]
    // Connections are kept for a minute. A process that waits for them is ended here by its timeout.
    const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 20_000 })
    expect(stdout.trim()).toBe('led in term 1, seen by a standby')
  })
})
