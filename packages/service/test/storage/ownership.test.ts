/** Tests whether a service still owns its data directory: the rule itself in virtual time, and on a real directory. */
import {
  closeSync,
  cpSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fakeClock } from '@tenure/testing'
import { describe, expect, onTestFinished, test } from 'vitest'
import { DirectoryLock } from '../../src/storage/directory-lock.ts'
import { momentOf, Ownership } from '../../src/storage/ownership.ts'
import { held, open, pass, type Scene } from '../groups/scene.ts'

const unavailable = { code: 'BACKEND_UNAVAILABLE' }

/** Proofs that end when the test decides. */
function proofs() {
  const clock = fakeClock()
  const inFlight: (() => void)[] = []
  const ownership = new Ownership({
    clock,
    servedMs: () => clock.monotonicMs(),
    provenAt: momentOf(clock),
    prove: () => new Promise((resolve) => inFlight.push(resolve)),
  })
  ownership.start()
  const succeed = async () => {
    inFlight.shift()?.()
    await clock.advance(0)
  }
  return { clock, ownership, inFlight, succeed }
}

describe('proofs of ownership', () => {
  test('a proof is sent every second, one at a time', async () => {
    const { clock, inFlight, succeed } = proofs()
    await clock.advance(999)
    expect(inFlight).toHaveLength(0)
    await clock.advance(1)
    expect(inFlight).toHaveLength(1)
    await clock.advance(3_000)
    expect(inFlight).toHaveLength(1)
    await succeed()
    await clock.advance(1_000)
    expect(inFlight).toHaveLength(1)
  })

  test('a proof of ownership counts from the time when it was sent, however late its answer is', async () => {
    const { clock, ownership, succeed } = proofs()
    await clock.advance(1_000)
    await clock.advance(3_500)
    await succeed()
    // The proof was sent at 1,000 and answered at 4,500.
    await clock.advance(1_399)
    expect(ownership.isProven()).toBe(true)
    await clock.advance(1)
    expect(ownership.isProven()).toBe(false)
    expect(() => ownership.assert()).toThrow(expect.objectContaining(unavailable))
  })

  test('a proof that is answered after the limit proves nothing, even if it was sent before', async () => {
    const { clock, ownership, succeed } = proofs()
    await clock.advance(7_000)
    await succeed()
    expect(ownership.isProven()).toBe(false)
    await clock.advance(1_000)
    await succeed()
    expect(ownership.isProven()).toBe(true)
  })

  test('a proof of ownership expires while the machine sleeps, but not when the wall clock changes', async () => {
    const { clock, ownership } = proofs()
    await clock.advance(500)
    clock.setWall(clock.wallMs() + 86_400_000)
    expect(ownership.isProven()).toBe(true)
    clock.setWall(clock.wallMs() - 2 * 86_400_000)
    expect(ownership.isProven()).toBe(true)
    clock.sleep(4_300)
    expect(ownership.isProven()).toBe(true)
    clock.sleep(200)
    expect(ownership.isProven()).toBe(false)
  })
})

test('no proof is sent after stop, not even for callers that wait for one', async () => {
  const { clock, ownership, inFlight, succeed } = proofs()
  await clock.advance(7_000)
  // The proof in flight was sent too early, so another one is needed.
  const refused = expect(ownership.waitUntilProven()).rejects.toMatchObject(unavailable)
  const stopped = ownership.stop()
  await succeed()
  await Promise.all([stopped, refused])
  await expect(ownership.verify()).rejects.toMatchObject(unavailable)
  expect(inFlight).toHaveLength(0)
})

describe('loss of the data directory', () => {
  const renew = (scene: Scene) => scene.state.renew({ ...held(1), extendByMs: 5_000 })

  /** Renews until a renewal is refused. Returns how long that took in virtual time. */
  async function confirmedForMs(scene: Scene): Promise<number> {
    const startMs = scene.clock.monotonicMs()
    for (;;) {
      try {
        expect(await renew(scene)).toMatchObject({ granted: true })
      } catch (error) {
        expect(error).toMatchObject(unavailable)
        return scene.clock.monotonicMs() - startMs
      }
      await scene.clock.advance(100)
      await scene.state.check().catch(() => {})
    }
  }

  test.each<[string, (directory: string) => void]>([
    ['is moved away', (directory) => renameSync(directory, `${directory}-moved`)],
    ['is deleted', (directory) => rmSync(directory, { recursive: true })],
    [
      'is replaced by a copy',
      (directory) => {
        renameSync(directory, `${directory}-moved`)
        cpSync(`${directory}-moved`, directory, { recursive: true })
      },
    ],
    [
      'has another data file',
      (directory) => {
        const path = join(directory, 'elections.mdb')
        cpSync(path, `${path}.new`)
        renameSync(`${path}.new`, path)
      },
    ],
    [
      'was signed by another process whose lock this kernel does not know',
      (directory) => {
        const file = openSync(join(directory, 'lock'), 'r+')
        writeSync(file, 'f'.repeat(32), 32)
        closeSync(file)
      },
    ],
  ])('nothing is confirmed and readiness fails once a proof shows that the directory %s', async (_what, lose) => {
    const scene = await open()
    onTestFinished(() => rmSync(`${scene.directory}-moved`, { recursive: true, force: true }))
    await scene.campaign('a', { attempt: 'start 1' })
    await scene.state.check()
    lose(scene.directory)
    await expect(scene.state.check()).rejects.toMatchObject(unavailable)
    await expect(async () => renew(scene)).rejects.toMatchObject(unavailable)
    await expect(async () => scene.state.leader('jobs')).rejects.toMatchObject(unavailable)
    // Neither a new grant, nor the holder's own grant again, nor any other write is confirmed.
    await expect(scene.campaign('b', { groupId: 'new' })).rejects.toMatchObject(unavailable)
    await expect(scene.campaign('a', { attempt: 'start 1' })).rejects.toMatchObject(unavailable)
    await expect(scene.state.resign(held(1))).rejects.toMatchObject(unavailable)
  })

  test('a grant that was written to a replaced directory is not confirmed, even before a proof shows the replacement', async () => {
    const scene = await open()
    onTestFinished(() => rmSync(`${scene.directory}-moved`, { recursive: true, force: true }))
    await scene.campaign('a')
    await scene.state.check()
    renameSync(scene.directory, `${scene.directory}-moved`)
    await expect(scene.campaign('b', { groupId: 'new' })).rejects.toMatchObject(unavailable)
  })

  test('the last proof of ownership expires after less than 5 s when the directory does not answer', async () => {
    const clock = fakeClock()
    const ownership = new Ownership({
      clock,
      servedMs: () => clock.monotonicMs(),
      provenAt: momentOf(clock),
      prove: () => Promise.reject(new Error('EIO')),
    })
    await ownership.verify().catch(() => {})
    await clock.advance(4_800)
    expect(ownership.isProven()).toBe(true)
    await clock.advance(200)
    expect(ownership.isProven()).toBe(false)
  })

  test('the service continues when the directory comes back unchanged', async () => {
    const scene = await open()
    await scene.campaign('a')
    renameSync(scene.directory, `${scene.directory}-moved`)
    await confirmedForMs(scene)
    renameSync(`${scene.directory}-moved`, scene.directory)
    await pass(scene, 1_000)
    expect(await renew(scene)).toMatchObject({ granted: true })
  })
})

describe('start on an existing directory', () => {
  test('a service that starts keeps each lease until the last possible confirmation of its predecessor has expired', async () => {
    const scene = await open()
    await scene.campaign('a', { ttlMs: 3_000 })
    await scene.restart()
    // The predecessor confirmed for less than 5 s more, each time for 3 s.
    await pass(scene, 7_999)
    expect(await scene.campaign('b')).toMatchObject({ granted: false, lease: { nodeId: 'a' } })
    await pass(scene, 1)
    expect(await scene.campaign('b')).toMatchObject({ granted: true, lease: { term: 2 } })
  })
})

test('a renewal after a long stall is confirmed only after a new proof of ownership', async () => {
  let stalledMs = 0
  const clock = fakeClock()
  const scene = await open({ clock: { ...clock, monotonicMs: () => clock.monotonicMs() + stalledMs } })
  await scene.campaign('a', { ttlMs: 60_000 })
  await scene.state.check()
  const renewal = { ...held(1), extendByMs: 60_000 }
  stalledMs = 30_000
  const before = statSync(join(scene.directory, 'lock'), { bigint: true }).mtimeNs
  expect(await scene.state.renew(renewal)).toMatchObject({ granted: true })
  expect(statSync(join(scene.directory, 'lock'), { bigint: true }).mtimeNs).toBeGreaterThan(before)
  stalledMs = 60_000
  renameSync(scene.directory, `${scene.directory}-moved`)
  onTestFinished(() => renameSync(`${scene.directory}-moved`, scene.directory))
  await expect(scene.state.renew(renewal)).rejects.toMatchObject(unavailable)
})

test('a proof in flight does not overwrite the signature of another process in the lock file', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-signed-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const lock = await DirectoryLock.take(directory)
  onTestFinished(() => lock.release())
  lock.note(1)
  lock.sign()
  const proof = lock.prove([]).catch((error: unknown) => error)
  const file = openSync(join(directory, 'lock'), 'r+')
  writeSync(file, 'b'.repeat(32), 32)
  closeSync(file)
  await proof
  await expect(lock.prove([])).rejects.toThrow('another process has taken it over')
  expect(readFileSync(join(directory, 'lock'), 'utf8')).toContain('b'.repeat(32))
})
