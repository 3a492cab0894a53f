import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { rolldown } from 'rolldown'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { childrenOf, isGone, sessionOf, signalSession, type Session } from '../../../src/run/session.ts'
import { temporaryFolder } from '../../tenure.ts'

/** Runs a script of Perl, which forks without ado, in a session of its own. Resolves when its first process has ended. */
async function forked(script: string): Promise<Session> {
  const child = spawn('perl', ['-MTime::HiRes=usleep', '-e', script], { detached: true, stdio: 'ignore' })
  const session = sessionOf(child.pid ?? 0)
  onTestFinished(() => void signalSession(session, 'SIGKILL'))
  await once(child, 'exit')
  return session
}

/** A namespace of process ids of its own, which ends with the program that is run in it. */
const namespace = ['--pid', '--fork', '--mount-proc']
/** Nobody is left as a zombie: the first process of a namespace is the parent of all that have lost theirs. */
const first = '$SIG{CHLD} = "IGNORE"; my $pid = fork; if (!$pid) { $SIG{CHLD} = "DEFAULT"; exec @ARGV } waitpid $pid, 0'

const hasNamespaces = (() => {
  try {
    execFileSync('unshare', [...namespace, 'sh', '-c', 'echo 100 > /proc/sys/kernel/ns_last_pid'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()

describe.runIf(process.platform === 'linux')('a session', () => {
  // Nobody in it lives for long, so hardly anybody who was listed is there when looked at.
  const chain = '$SIG{TERM} = "IGNORE"; for (1 .. 10_000) { exit if fork; usleep(1_000) }'

  test('is not gone while its processes only hand over to their children', async () => {
    const session = await forked(chain)
    const endMs = Date.now() + 2_000
    for (let looks = 0; looks < 100 && Date.now() < endMs; looks++) {
      expect(isGone(session), `look ${looks}`).toBe(false)
      await new Promise(setImmediate)
    }
  })

  test('is ended by one signal although nobody in it lives for long', async () => {
    const session = await forked(chain)
    expect(isGone(session)).toBe(false)
    expect(signalSession(session, 'SIGKILL')).toBeUndefined()
    await vi.waitUntil(() => isGone(session), { timeout: 10_000, interval: 10 })
  })

  test('is not gone while a grandchild is left whose parents have ended', async () => {
    for (let round = 0; round < 5; round++) {
      const session = await forked('$SIG{TERM} = "IGNORE"; exit if fork; exit if fork; sleep 60')
      expect(isGone(session), `round ${round}`).toBe(false)
      signalSession(session, 'SIGTERM')
      expect(isGone(session), `round ${round}, told to end`).toBe(false)
      signalSession(session, 'SIGKILL')
      await vi.waitUntil(() => isGone(session), { timeout: 10_000, interval: 10 })
    }
  })

  test('is found by the children of a process', async () => {
    const child = spawn('sleep', ['60'], { stdio: 'ignore' })
    await once(child, 'spawn')
    expect(childrenOf(process.pid)).toContainEqual(sessionOf(child.pid ?? 0))
    child.kill()
    await once(child, 'exit')
    expect(childrenOf(process.pid).map(({ id }) => id)).not.toContain(child.pid)
  })
  test.runIf(hasNamespaces)('is not gone when ids begin anew while it is looked for', async () => {
    const module = join(temporaryFolder(), 'session.mjs')
    const built = await rolldown({ input: join(import.meta.dirname, '../../../src/run/session.ts'), platform: 'node' })
    await built.write({ file: module })
    await built.close()
    const script = join(import.meta.dirname, '../../run/wrap-around.mjs')
    const args = [...namespace, 'perl', '-e', first, process.execPath, script, module]
    const { stdout } = await promisify(execFile)('unshare', args)
    expect(JSON.parse(stdout)).toEqual({ gone: 0, isThere: true })
  })
})
