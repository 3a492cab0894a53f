import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { bundleWith } from '../disk/bundle-mutant.ts'
import { programs } from '../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../test/servers/suite.ts'
import { faultyDisk } from '../disk/faulty-disk.ts'
import { ServiceProcess, type Answer } from '../disk/service-process.ts'

const unavailable = { status: 503, body: { ok: false, error: 'BACKEND_UNAVAILABLE' } }

class Scene {
  readonly directory: string
  service: ServiceProcess

  private constructor(directory: string, service: ServiceProcess) {
    this.directory = directory
    this.service = service
  }

  static async open(entry?: string): Promise<Scene> {
    const directory = mkdtempSync(join(tmpdir(), 'tenure-failures-'))
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
    return new Scene(directory, await ServiceProcess.start({ directory, entry, environment: faultyDisk() }))
  }

  async afterPowerCut(): Promise<void> {
    await this.service.cutPower('c')
    this.service = await ServiceProcess.start({ directory: this.directory, environment: faultyDisk() })
  }

  campaign(group: string, ttlMs = 30_000, node = 'a'): Promise<Answer | undefined> {
    return this.service.ask('POST', `/v1/groups/${group}/campaign`, { node_id: node, lease_ttl_ms: ttlMs })
  }

  renew(group: string, extendByMs = 30_000, more: object = {}): Promise<Answer | undefined> {
    const body = { node_id: 'a', term: 1, extend_by_ms: extendByMs, ...more }
    return this.service.ask('POST', `/v1/groups/${group}/renew`, body)
  }

  resign(group: string): Promise<Answer | undefined> {
    return this.service.ask('POST', `/v1/groups/${group}/resign`, { node_id: 'a', term: 1 })
  }

  get(path: string): Promise<Answer | undefined> {
    return this.service.ask('GET', path)
  }

  /** Waits until /readyz answers with this status. The service checks its readiness at most once a second. */
  ready(status: number): Promise<void> {
    return expect.poll(() => this.get('/readyz'), { timeout: 10_000 }).toMatchObject({ status })
  }

  /** Creates two leases, one of which expires while the disk fails. */
  async failWith(letter: string): Promise<void> {
    await this.campaign('held')
    await this.campaign('over', 400)
    await this.service.command(letter)
    await delay(450)
  }
}

describeWithPrograms([programs.cc], 'a disk that cannot be written to', () => {
  for (const [what, letter] of [
    ['the disk is full', 'n'],
    ['syncs fail', 's'],
  ] as const) {
    test(`leases can be renewed and other calls fail when ${what}, and the service recovers afterwards`, async () => {
      const scene = await Scene.open()
      await scene.failWith(letter)
      expect(await scene.get('/readyz')).toMatchObject(unavailable)
      expect(await scene.campaign('new')).toMatchObject(unavailable)

      expect(await scene.renew('held')).toMatchObject({ status: 200 })
      expect(await scene.renew('held', 60_000)).toMatchObject(unavailable)
      expect(await scene.renew('held', 30_000, { checkpoint: 'ran at 5' })).toMatchObject(unavailable)
      expect(await scene.renew('held', 20_000)).toMatchObject({ status: 200 })
      expect(await scene.get('/v1/groups/held/leader')).toMatchObject({ body: { leader: { term: 1 } } })

      // The end of a term cannot be written, so it must not be reported.
      for (const path of ['leader', 'members']) {
        expect(await scene.get(`/v1/groups/over/${path}`)).toMatchObject(unavailable)
      }
      expect(await scene.get('/v1/groups/over')).toMatchObject(unavailable)
      expect(await scene.get('/v1/groups')).toMatchObject(unavailable)
      expect(await scene.renew('over', 400)).toMatchObject(unavailable)
      expect(await scene.campaign('over', 400, 'b')).toMatchObject(unavailable)

      await scene.service.command('g')
      await scene.ready(200)
      expect(await scene.campaign('new')).toMatchObject({ body: { is_leader: true, leader: { term: 2 } } })
      expect(await scene.campaign('over', 30_000, 'b')).toMatchObject({
        body: { is_leader: true, leader: { term: 3 } },
      })
      expect(await scene.renew('held', 60_000)).toMatchObject({ status: 200 })

      // Later writes must not depend on pages that a failed sync has lost.
      await scene.afterPowerCut()
      expect(await scene.get('/v1/groups/new/leader')).toMatchObject({ body: { leader: { term: 2 } } })
      expect(await scene.get('/v1/groups/over/leader')).toMatchObject({ body: { leader: { node_id: 'b', term: 3 } } })
      const held = (await scene.get('/v1/groups/held/leader'))?.body['leader'] as Record<string, number> | undefined
      expect(held?.['lease_remaining_ms']).toBeGreaterThan(30_000)
    })
  }

  test('nothing is granted after a failed commit until a restart, and then all data is there', async () => {
    const scene = await Scene.open()
    await scene.failWith('p')
    expect(await scene.campaign('new')).toMatchObject(unavailable)
    await scene.service.command('g')
    expect(await scene.get('/readyz')).toMatchObject({
      status: 503,
      body: { message: expect.stringContaining('Restart the service') },
    })
    expect(await scene.campaign('new')).toMatchObject(unavailable)
    expect(await scene.get('/v1/groups/over/leader')).toMatchObject(unavailable)
    expect(await scene.renew('held')).toMatchObject({ status: 200 })
    await scene.afterPowerCut()
    expect(await scene.get('/v1/groups/held/leader')).toMatchObject({ body: { leader: { term: 1 } } })
    // The first write that failed may be there: an unreported end, or a grant that is honored.
    expect(await scene.get('/readyz')).toMatchObject({ status: 200 })
    expect(await scene.campaign('other')).toMatchObject({ body: { is_leader: true } })
  })

  test('a grant whose answer was lost is honored after a restart, and its term is not used again', async () => {
    const scene = await Scene.open()
    await scene.service.command('p')
    expect(await scene.campaign('new')).toMatchObject(unavailable)
    await scene.afterPowerCut()
    expect(await scene.campaign('new', 30_000, 'b')).toMatchObject({ body: { is_leader: false, leader: { term: 1 } } })
    expect(await scene.resign('new')).toMatchObject({ status: 200 })
    expect(await scene.campaign('new', 30_000, 'b')).toMatchObject({ body: { is_leader: true, leader: { term: 2 } } })
  })

  const resignInDoubt = async (entry?: string) => {
    const scene = await Scene.open(entry)
    await scene.campaign('held')
    await scene.service.command('p')
    expect(await scene.resign('held')).toMatchObject(unavailable)
    const renewed = await scene.renew('held', 30_000)
    await scene.afterPowerCut()
    const other = await scene.campaign('held', 30_000, 'b')
    return { renewed: renewed?.status, other: other?.body['is_leader'] }
  }

  test('a renewal fails if a resignation with an unknown outcome may have reached the disk', async () => {
    expect(await resignInDoubt()).toEqual({ renewed: 503, other: true })
  })

  test('two nodes lead if the service forgets a resignation with an unknown outcome', async () => {
    const entry = await bundleWith({
      file: 'groups/group-driver.ts',
      find: 'if (record.ended) this.#doubtful.add(group)',
      replace: '',
    })
    expect(await resignInDoubt(entry)).toEqual({ renewed: 200, other: true })
  })

  test('a lease can be renewed after a resignation that certainly failed, once the disk works again', async () => {
    const scene = await Scene.open()
    await scene.campaign('held')
    await scene.service.command('n')
    expect(await scene.resign('held')).toMatchObject(unavailable)
    expect(await scene.renew('held')).toMatchObject(unavailable)
    await scene.service.command('g')
    expect(await scene.renew('held')).toMatchObject({ status: 200 })
    expect(await scene.resign('held')).toMatchObject({ status: 200 })
    await scene.afterPowerCut()
    expect(await scene.get('/v1/groups/held/leader')).toMatchObject({ body: { leader: null, highest_term: 1 } })
  })

  test('calls time out while the disk does not answer, and their writes take effect once it answers again', async () => {
    const scene = await Scene.open()
    await scene.failWith('h')
    const [grant, ready, over] = await Promise.all([
      scene.campaign('new'),
      scene.get('/readyz'),
      scene.get('/v1/groups/over/leader'),
    ])
    for (const answer of [grant, ready, over]) expect(answer).toMatchObject(unavailable)
    expect(await scene.renew('held')).toMatchObject({ status: 200 })
    await scene.service.command('g')
    await scene.ready(200)
    expect(await scene.campaign('new', 30_000, 'b')).toMatchObject({ body: { is_leader: false, leader: { term: 1 } } })
    expect(await scene.get('/v1/groups/over/leader')).toMatchObject({ body: { leader: null, highest_term: 1 } })
  })
})
