/**
 * Tests of copies of a data directory: copies made by `tenure backup` or by hand, refused until `tenure restore`, or
 * interrupted.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdtempSync, readdirSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { backupData, restoreData } from '../../src/storage/backup.ts'
import { ServiceProcess } from '../disk/service-process.ts'
import { openStorage, read, write as append } from './data-directories.ts'

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-backup-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** The term of each group in the directory. */
async function termsIn(directory: string): Promise<Map<string, number>> {
  const storage = await openStorage(directory)
  const terms = new Map((await read(storage)).map(({ id, record }) => [id, record.term]))
  await storage.close()
  return terms
}

async function write(directory: string, groups: number): Promise<void> {
  const storage = await openStorage(directory)
  const record = { term: 7, node: 'a', attempt: 'x', ttl: 60_000, at: 1, checkpoint: 'x'.repeat(500) }
  await append(storage, ...Array.from({ length: groups }, (_, index) => ({ id: `group-${index}`, record })))
  await storage.close()
}

/** Calls one of the service's functions in a separate process. */
function start(call: 'backupData' | 'restoreData', options: object): ChildProcess {
  const code = `import('@tenure/service/internal').then(({ ${call} }) => { console.log('begins'); return ${call}(${JSON.stringify(options)}) })`
  const child = spawn(process.execPath, ['-e', code], {
    cwd: import.meta.dirname,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  return child
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

describe('backups', () => {
  test('a backup of a running service has everything that was answered before, and must be restored', async () => {
    const folder = newFolder()
    const directory = join(folder, 'data')
    const service = await ServiceProcess.start({ directory })
    const told = new Set<string>()
    const stop = new AbortController()
    const clients = Array.from({ length: 8 }, async (_, client) => {
      for (let round = 0; !stop.signal.aborted; round++) {
        const group = `group-${client}-${round}`
        const body = { node_id: 'a', lease_ttl_ms: 60_000, metadata: { filler: 'x'.repeat(1_000) } }
        const won = await service.ask('POST', `/v1/groups/${group}/campaign`, body)
        if (won?.body['is_leader'] === true) told.add(group)
      }
    })
    const backups: { to: string; before: string[] }[] = []
    for (let index = 0; index < 3; index++) {
      while (told.size < 50 * (index + 1)) await delay(5)
      const to = join(folder, `backup-${index}`)
      const before = [...told]
      await backupData({ data: directory, to })
      backups.push({ to, before })
    }
    stop.abort()
    await Promise.all(clients)
    for (const { to, before } of backups) {
      await expect(openStorage(to)).rejects.toThrow(/it is a backup.+tenure restore --data/)
      await restoreData({ data: to })
      const terms = await termsIn(to)
      expect(before.filter((group) => terms.get(group) !== 1)).toEqual([])
    }
    // The service that was copied is not affected.
    expect(await service.ask('GET', '/readyz')).toMatchObject({ status: 200 })
  }, 60_000)

  test('a backup of data that nobody serves must be restored, even after it was moved or copied', async () => {
    const folder = newFolder()
    await write(join(folder, 'data'), 10)
    await backupData({ data: join(folder, 'data'), to: join(folder, 'backup') })
    cpSync(join(folder, 'backup'), join(folder, 'copy'), { recursive: true })
    renameSync(join(folder, 'backup'), join(folder, 'moved'))
    for (const name of ['copy', 'moved']) {
      await expect(openStorage(join(folder, name))).rejects.toThrow(/it is a backup/)
      await restoreData({ data: join(folder, name) })
      expect((await termsIn(join(folder, name))).size).toBe(10)
    }
    // The original is not a copy.
    expect((await termsIn(join(folder, 'data'))).size).toBe(10)
  })

  test('a backup is written only to a new directory', async () => {
    const folder = newFolder()
    await write(join(folder, 'data'), 1)
    await expect(backupData({ data: join(folder, 'data'), to: folder })).rejects.toThrow(/already exists/)
    await expect(backupData({ data: join(folder, 'none'), to: join(folder, 'backup') })).rejects.toThrow(
      /does not contain the data/,
    )
    expect(readdirSync(folder)).toEqual(['data'])
  })

  test('a backup inside the data directory is refused, even through a link', async () => {
    const folder = newFolder()
    const data = join(folder, 'data')
    await write(data, 1)
    symlinkSync(data, join(folder, 'link'))
    const before = readdirSync(data)
    for (const to of [data, join(data, 'backup'), join(data, 'new', 'backup'), join(folder, 'link', 'backup')]) {
      await expect(backupData({ data, to })).rejects.toThrow(
        /is inside the data directory .+Choose a directory outside it/,
      )
    }
    expect(readdirSync(data)).toEqual(before)
    // A path that merely begins with the same characters is another directory.
    await backupData({ data, to: `${data}-backup` })
  })

  test('a backup that is killed halfway leaves no data that a service would start on, and another backup can be made', async () => {
    const folder = newFolder()
    const data = join(folder, 'data')
    const to = join(folder, 'backup')
    const half = `${to}.partial`
    await write(data, 20_000)
    let halves = 0
    for (let index = 0; halves < 3 && index < 20; index++) {
      const child = start('backupData', { data, to })
      // Kill each at another moment, from the first bytes on.
      while (!existsSync(join(half, 'backup.partial')) && child.exitCode === null) await delay(1)
      await delay(index % 5)
      await kill(child)
      if (existsSync(to)) {
        await expect(openStorage(to)).rejects.toThrow(/it is a backup/)
        rmSync(to, { recursive: true })
        continue
      }
      halves += 1
      await expect(ServiceProcess.start({ directory: half })).rejects.toThrow(/missing or empty.+tenure restore/)
      await expect(restoreData({ data: half })).rejects.toThrow(/does not contain the data/)
    }
    expect(halves).toBe(3)
    await backupData({ data, to })
    await restoreData({ data: to })
    // A reader that was killed leaves behind nothing that blocks others.
    for (const directory of [to, data]) expect((await termsIn(directory)).size).toBe(20_000)
  }, 60_000)
})

describe('copies', () => {
  test('a copy is refused with a message that names both ways to proceed', async () => {
    const folder = newFolder()
    await write(join(folder, 'data'), 1)
    cpSync(join(folder, 'data'), join(folder, 'copy'), { recursive: true })
    await expect(ServiceProcess.start({ directory: join(folder, 'copy') })).rejects.toThrow(
      /it is a copy, or was restored\. If the original directory .+ use that one\. Otherwise .+ "tenure restore --data .+copy" once/,
    )
  })

  test('a copy that replaces the original is refused', async () => {
    const folder = newFolder()
    const data = join(folder, 'data')
    await write(data, 1)
    cpSync(data, join(folder, 'copy'), { recursive: true })
    const service = await ServiceProcess.start({ directory: data })
    await service.ask('POST', '/v1/groups/since/campaign', { node_id: 'a', lease_ttl_ms: 60_000 })
    await service.kill()
    rmSync(data, { recursive: true })
    cpSync(join(folder, 'copy'), data, { recursive: true })
    await expect(ServiceProcess.start({ directory: data })).rejects.toThrow(/it is a copy, or was restored/)
    await restoreData({ data })
    const restored = await ServiceProcess.start({ directory: data })
    const won = await restored.ask('POST', '/v1/groups/since/campaign', { node_id: 'b', lease_ttl_ms: 60_000 })
    expect(won).toMatchObject({ body: { is_leader: true, leader: { term: 1_000_001 } } })
  }, 30_000)

  test('a copy of the data is refused even when it lacks the lock file', async () => {
    const folder = newFolder()
    await write(join(folder, 'data'), 1)
    cpSync(join(folder, 'data'), join(folder, 'copy'), { recursive: true })
    rmSync(join(folder, 'copy', 'lock'))
    await expect(openStorage(join(folder, 'copy'))).rejects.toThrow(/it is a copy/)
  })
})

test('a restore that is killed at any moment is complete or has not begun, and is never half done', async () => {
  const folder = newFolder()
  const data = join(folder, 'data')
  await write(data, 2_000)
  const outcomes = new Set<string>()
  for (let index = 0; index < 6; index++) {
    const copy = join(folder, `copy-${index}`)
    cpSync(data, copy, { recursive: true })
    const child = start('restoreData', { data: copy })
    await once(child.stdout ?? child, 'data')
    await delay(index * 5)
    await kill(child)
    const opened = await openStorage(copy).catch((error: unknown) => String(error))
    if (typeof opened === 'string') {
      expect(opened).toMatch(/it is a copy/)
      outcomes.add('refused')
      await restoreData({ data: copy })
      expect((await termsIn(copy)).size).toBe(2_000)
    } else {
      outcomes.add('done')
      expect((await opened.head()).restores).toBe(1)
      expect(await read(opened)).toHaveLength(2_000)
      await opened.close()
    }
  }
  expect(outcomes).toContain('refused')
}, 60_000)
