/**
 * A volume is moved to another host while the service on it runs, with real file systems and real processes. The first
 * service is cut off from its disk by freezing it. The second service has a copy of the whole volume, as the other host
 * would see it, so the lock of the first service does not stop it.
 */
import { execFile, execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { copyFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { expect, onTestFinished, test, type TestContext } from 'vitest'
import { bundleWith } from '../disk/bundle-mutant.ts'
import { ServiceProcess } from '../disk/service-process.ts'

const ttlMs = 1_000
const runNow = (command: string, ...words: string[]) => execFileSync(command, words, { stdio: 'pipe' })
/** Runs asynchronously, because a test that blocks on a slow disk would let the renewed lease expire. */
const run = (command: string, ...words: string[]) => promisify(execFile)(command, words)

/** A mounted volume in a file. Skips the test where mounting is not allowed. */
async function makeVolume(context: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-volume-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const mount = async (image: string, name: string): Promise<string> => {
    const directory = join(folder, name)
    mkdirSync(directory)
    await run('mount', '-o', 'loop', image, directory)
    onTestFinished(() => void runNow('umount', '--lazy', directory))
    return directory
  }
  const image = join(folder, 'image')
  try {
    await run('truncate', '--size=16M', image)
    await run('mkfs.ext4', '-q', image)
    return { directory: await mount(image, 'first'), image, mount }
  } catch (error) {
    const reason = `this machine does not allow to mount a file: ${String(error)}`
    console.warn(reason)
    return context.skip(reason)
  }
}

/**
 * Moves the volume while "a" leads. Returns the end of the last lease that the first service confirmed, and the time of
 * the next grant.
 */
async function move(context: TestContext, entry?: string) {
  const volume = await makeVolume(context)
  const first = await ServiceProcess.start({ directory: join(volume.directory, 'data'), entry })
  await first.ask('POST', '/v1/groups/jobs/campaign', { node_id: 'a', lease_ttl_ms: ttlMs })
  let confirmedUntilMs = 0
  let last: number | undefined
  const stop = new AbortController()
  const renewing = (async () => {
    while (!stop.signal.aborted) {
      const sentMs = performance.now()
      const answer = await first.ask('POST', '/v1/groups/jobs/renew', { node_id: 'a', term: 1, extend_by_ms: ttlMs })
      last = answer?.status
      if (last === 200) confirmedUntilMs = sentMs + ttlMs
      await delay(50)
    }
  })()
  await delay(1_500)
  await run('fsfreeze', '--freeze', volume.directory)
  // Until the volume is unfrozen, not even a signal ends the first service.
  let thaw = () => {
    thaw = () => {}
    runNow('fsfreeze', '--unfreeze', volume.directory)
  }
  onTestFinished(() => thaw())
  const copy = `${volume.image}-moved`
  await copyFile(volume.image, copy)
  const second = await ServiceProcess.start({ directory: join(await volume.mount(copy, 'second'), 'data'), entry })
  let grantedMs = 0
  for (const untilMs = performance.now() + 12_000; grantedMs === 0 && performance.now() < untilMs;) {
    const won = await second.ask('POST', '/v1/groups/jobs/campaign', { node_id: 'b', lease_ttl_ms: 60_000 })
    if (won?.body['is_leader'] === true) grantedMs = performance.now()
    else await delay(20)
  }
  const ready = await first.ask('GET', '/readyz')
  stop.abort()
  await renewing
  thaw()
  await first.kill()
  return { grantedMs, confirmedUntilMs, last, ready: ready?.status }
}

test(
  'two services never both confirm a leader of one group when a volume is moved',
  { timeout: 40_000 },
  async (context) => {
    const { grantedMs, confirmedUntilMs, last, ready } = await move(context)
    expect(grantedMs).toBeGreaterThan(0)
    expect(confirmedUntilMs).toBeLessThan(grantedMs)
    expect(last).toBe(503)
    expect(ready).toBe(503)
  },
)

for (const mistake of [
  {
    name: 'considers its last proof valid forever',
    file: 'storage/ownership.ts',
    find: 'this.#ageMs() < provenForMs',
    replace: 'this.#ageMs() >= 0',
  },
  {
    name: 'gives no grace after a move',
    file: 'storage/ownership.ts',
    find: 'const moveGraceMs = 5_000',
    replace: 'const moveGraceMs = 0',
  },
]) {
  test(`a moved volume exposes a service that ${mistake.name}`, { timeout: 100_000 }, async (context) => {
    const entry = await bundleWith(mistake)
    // On a busy machine the second service may start so late that the mutant does no harm. In that case, the volume is
    // moved again.
    let overlapMs = 0
    for (let moves = 0; moves < 3 && overlapMs <= 0; moves++) {
      const { grantedMs, confirmedUntilMs } = await move(context, entry)
      overlapMs = confirmedUntilMs - grantedMs
    }
    expect(overlapMs).toBeGreaterThan(0)
  })
}
