/** Tests of a data directory that is moved or replaced under a running service, with a second service in its place. */
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { backupData, restoreData } from '../../src/storage/backup.ts'
import { ServiceProcess, type Answer } from '../disk/service-process.ts'

const ttlMs = 1_000

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-lost-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

const campaign = (service: ServiceProcess, node: string) =>
  service.ask('POST', '/v1/groups/jobs/campaign', { node_id: node, lease_ttl_ms: ttlMs })

/** Renews "a" until a renewal is refused. Resolves to that answer and the end of the last confirmed lease. */
async function renewUntilRefused(service: ServiceProcess): Promise<{ answer: Answer | undefined; untilMs: number }> {
  for (let untilMs = 0; ;) {
    const sentMs = performance.now()
    const answer = await service.ask('POST', '/v1/groups/jobs/renew', { node_id: 'a', term: 1, extend_by_ms: ttlMs })
    if (answer?.status !== 200) return { answer, untilMs }
    untilMs = sentMs + ttlMs
    await delay(20)
  }
}

/** Campaigns for "b" until it leads. */
async function granted(service: ServiceProcess): Promise<{ atMs: number; term: unknown }> {
  for (;;) {
    const answer = await campaign(service, 'b')
    const leader = answer?.body['leader'] as { term: number } | null
    if (answer?.body['is_leader'] === true) return { atMs: performance.now(), term: leader?.term }
    await delay(20)
  }
}

const refused = { status: 503, body: { error: 'BACKEND_UNAVAILABLE' } }

test('no other service can use a moved directory while the first service runs, and another one can afterwards', async () => {
  const folder = newFolder()
  const directory = join(folder, 'data')
  const moved = join(folder, 'moved')
  const first = await ServiceProcess.start({ directory })
  await campaign(first, 'a')
  renameSync(directory, moved)
  const last = renewUntilRefused(first)
  const second = ServiceProcess.start({ directory: moved })
  await expect(second).rejects.toThrow(/in use by another process/)
  expect((await last).answer).toMatchObject(refused)
  expect(await first.ask('GET', '/readyz')).toMatchObject(refused)
  expect(await campaign(first, 'c')).toMatchObject(refused)
  await first.kill()
  // A move within a file system is not a copy.
  const next = await ServiceProcess.start({ directory: moved })
  expect(await campaign(next, 'b')).toMatchObject({ body: { is_leader: false, leader: { node_id: 'a', term: 1 } } })
}, 60_000)

test('two services never both confirm a leader when a directory is replaced by its backup', async () => {
  const folder = newFolder()
  const directory = join(folder, 'data')
  const first = await ServiceProcess.start({ directory })
  await campaign(first, 'a')
  await backupData({ data: directory, to: join(folder, 'backup') })
  const last = renewUntilRefused(first)
  renameSync(directory, join(folder, 'old'))
  renameSync(join(folder, 'backup'), directory)
  await expect(ServiceProcess.start({ directory })).rejects.toThrow(/it is a backup.+tenure restore --data/)
  await restoreData({ data: directory })
  const second = await ServiceProcess.start({ directory })
  const { atMs, term } = await granted(second)
  const { answer, untilMs } = await last
  expect(answer).toMatchObject(refused)
  expect(untilMs).toBeLessThan(atMs)
  expect(term).toBe(1_000_002)
}, 60_000)

test.each(['with groups', 'without any group'])(
  'a second service on data %s is refused when the lock file was deleted',
  async (name) => {
    const directory = join(newFolder(), 'data')
    const first = await ServiceProcess.start({ directory })
    if (name === 'with groups') await campaign(first, 'a')
    rmSync(join(directory, 'lock'))
    await expect(ServiceProcess.start({ directory })).rejects.toThrow(/in use by another process/)
    await expect(restoreData({ data: directory })).rejects.toThrow(/in use by another process/)
  },
  60_000,
)

test('older data without the lock file is refused, because its terms would be used twice', async () => {
  const directory = join(newFolder(), 'data')
  const path = join(directory, 'elections.mdb')
  const first = await ServiceProcess.start({ directory })
  await campaign(first, 'a')
  await first.stop()
  const older = readFileSync(path)
  const second = await ServiceProcess.start({ directory })
  const group = '/v1/groups/since/campaign'
  expect(await second.ask('POST', group, { node_id: 'a', lease_ttl_ms: ttlMs })).toMatchObject({ status: 200 })
  await second.kill()
  // Written into the same file, so that it is not a copy.
  writeFileSync(path, older)
  rmSync(join(directory, 'lock'))
  await expect(ServiceProcess.start({ directory })).rejects.toThrow(
    /lock file is missing, empty, or damaged.+tenure restore --data/,
  )
  await restoreData({ data: directory })
  const third = await ServiceProcess.start({ directory })
  const won = await third.ask('POST', group, { node_id: 'b', lease_ttl_ms: ttlMs })
  expect(won).toMatchObject({ body: { is_leader: true, leader: { term: 1_000_001 } } })
}, 60_000)
