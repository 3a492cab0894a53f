import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { Edit } from '../../../../test/mutants/mutant.ts'
import { bundleWith } from '../disk/bundle-mutant.ts'
import { programs } from '../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../test/servers/suite.ts'
import { faultyDisk } from '../disk/faulty-disk.ts'
import { ServiceProcess } from '../disk/service-process.ts'

const shortMs = 30_000
const longMs = 60_000

/** What was confirmed to a client about a group that only this client uses. */
interface Told {
  term: number
  promisedMs: number
  /** Whether the resignation was sent and may have taken effect. */
  resigning: boolean
  ended: boolean
}

/**
 * Uses the service until the power fails, then compares what is left with what was answered. `torn`: sectors that were
 * not synced yet may or may not be written.
 */
async function lossesAtPowerCut(options: { seed: number; torn: boolean; entry?: string }): Promise<string[]> {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-power-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  const environment = faultyDisk({ syncMs: 5, seed: options.seed })
  const before = await ServiceProcess.start({ directory, entry: options.entry, environment })
  const lock = join(directory, 'lock')
  const synced = readFileSync(lock)
  const told = new Map<string, Told>()
  const gone = new AbortController()
  let enough = () => {}
  const clients = Array.from({ length: 8 }, async (_, client) => {
    for (let round = 0; !gone.signal.aborted; round++) {
      await takePart(before, `group-${client}-${round}`, (client + round) % 3, told)
      if (told.size >= 50 + options.seed) enough()
    }
  })
  await new Promise<void>((resolve) => (enough = resolve))
  // Cut the power at once, because the last answers have had the least time to reach the disk.
  await before.cutPower(options.torn ? 't' : 'c')
  gone.abort()
  await Promise.all(clients)

  // The lock file's notes about the data since the start were not synced either.
  writeFileSync(lock, synced)
  const after = await ServiceProcess.start({ directory }).catch((error: unknown) => String(error))
  if (typeof after === 'string') return [after]
  const losses: string[] = []
  for (const [group, { term, promisedMs, resigning, ended }] of told) {
    const answer = await after.ask('GET', `/v1/groups/${group}/leader`)
    const leader = answer?.body['leader'] as { term: number; lease_remaining_ms: number } | null
    const kept = leader?.term === term && leader.lease_remaining_ms > promisedMs - 10_000
    if (answer?.body['highest_term'] !== term) losses.push(`${group}: term ${term} is forgotten`)
    else if (ended && leader) losses.push(`${group}: term ${term} is live again although its end was answered`)
    else if (!resigning && !kept) losses.push(`${group}: the ${promisedMs} ms promised in term ${term} are lost`)
  }
  await after.kill()
  return losses
}

async function takePart(service: ServiceProcess, group: string, kind: number, all: Map<string, Told>): Promise<void> {
  const path = `/v1/groups/${group}`
  const won = await service.ask('POST', `${path}/campaign`, { node_id: 'a', lease_ttl_ms: shortMs })
  if (won?.status !== 200) return
  const told: Told = { term: 1, promisedMs: shortMs, resigning: false, ended: false }
  all.set(group, told)
  if (kind === 1) {
    const renewed = await service.ask('POST', `${path}/renew`, { node_id: 'a', term: 1, extend_by_ms: longMs })
    if (renewed?.status === 200) told.promisedMs = longMs
  }
  if (kind === 2) {
    told.resigning = true
    told.ended = (await service.ask('POST', `${path}/resign`, { node_id: 'a', term: 1 }))?.status === 200
  }
}

describeWithPrograms([programs.cc], 'power cuts', () => {
  test.each([1, 2])('a power cut with unsynced writes loses nothing that was answered (seed %i)', async (seed) => {
    expect(await lossesAtPowerCut({ seed, torn: false })).toEqual([])
  })

  test.each([3, 4])('a torn last write loses nothing that was answered before it (seed %i)', async (seed) => {
    expect(await lossesAtPowerCut({ seed, torn: true })).toEqual([])
  })

  test.each<Edit & { name: string }>([
    {
      name: 'answers before the commit',
      file: 'storage/journal.ts',
      find: 'if (writes.length > 0) this.#answer(writes, await this.#append(writes))',
      replace:
        'if (writes.length > 0) { const done = this.#append(writes); this.#answer(writes, undefined); await done }',
    },
    { name: 'never syncs', file: 'storage/lmdb-storage.ts', find: 'overlappingSync: false', replace: 'noSync: true' },
    {
      name: 'syncs everything except the page that points to a commit',
      file: 'storage/lmdb-storage.ts',
      find: 'overlappingSync: false',
      replace: 'overlappingSync: false, noMetaSync: true',
    },
  ])('a power cut exposes a service that $name', async (mistake) => {
    const entry = await bundleWith(mistake)
    let losses: string[] = []
    for (let seed = 1; losses.length === 0 && seed <= 5; seed++) {
      losses = await lossesAtPowerCut({ seed, torn: false, entry })
    }
    expect(losses).not.toEqual([])
  })
})
