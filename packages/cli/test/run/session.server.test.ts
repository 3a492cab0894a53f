import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { rolldown } from 'rolldown'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { childrenOf, isGone, sessionOf, signalSession, type CommandSession } from '../../src/run/session.ts'
import { temporaryFolder } from '../tenure.ts'

/**
 * Runs a Perl script, because Perl can fork directly, in its own session. Resolves when its first process has ended.
 */
async function forked(script: string): Promise<CommandSession> {
  const child = spawn('perl', ['-MTime::HiRes=usleep', '-e', script], { detached: true, stdio: 'ignore' })
  const session = sessionOf(child.pid ?? 0)
  onTestFinished(() => void signalSession(session, 'SIGKILL'))
  await once(child, 'exit')
  return session
}

/** Options for a separate PID namespace, which ends with the program that runs in it. */
const namespace = ['--pid', '--fork', '--mount-proc']
/** The first process of a namespace inherits all orphans. It ignores SIGCHLD, so that no zombies stay. */
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
  // The processes of this session are so short-lived that few of those in a list still exist when they are examined.
  const chain = '$SIG{TERM} = "IGNORE"; for (1 .. 10_000) { exit if fork; usleep(1_000) }'

  test('a session counts as running while each of its processes forks a child and exits', async () => {
    const session = await forked(chain)
    const endMs = Date.now() + 2_000
    for (let looks = 0; looks < 100 && Date.now() < endMs; looks++) {
      expect(isGone(session), `look ${looks}`).toBe(false)
      await new Promise(setImmediate)
    }
  })

  test('one signal ends a session even when its processes live only briefly', async () => {
    const session = await forked(chain)
    expect(isGone(session)).toBe(false)
    expect(signalSession(session, 'SIGKILL')).toBeUndefined()
    await vi.waitUntil(() => isGone(session), { timeout: 10_000, interval: 10 })
  })

  test('a session counts as running while it has a grandchild whose ancestors have exited', async () => {
    for (let round = 0; round < 5; round++) {
      const session = await forked('$SIG{TERM} = "IGNORE"; exit if fork; exit if fork; sleep 60')
      expect(isGone(session), `round ${round}`).toBe(false)
      signalSession(session, 'SIGTERM')
      expect(isGone(session), `round ${round}, signaled to end`).toBe(false)
      signalSession(session, 'SIGKILL')
      await vi.waitUntil(() => isGone(session), { timeout: 10_000, interval: 10 })
    }
  })

  test('childrenOf lists the session of a child process', async () => {
    const child = spawn('sleep', ['60'], { stdio: 'ignore' })
    await once(child, 'spawn')
    expect(childrenOf(process.pid)).toContainEqual(sessionOf(child.pid ?? 0))
    child.kill()
    await once(child, 'exit')
    expect(childrenOf(process.pid).map(({ id }) => id)).not.toContain(child.pid)
  })
  test.runIf(hasNamespaces)(
    'a session does not count as gone when process ids wrap around during the scan',
    async () => {
      const module = join(temporaryFolder(), 'session.mjs')
      const built = await rolldown({
        input: join(import.meta.dirname, '../../src/run/session.ts'),
        platform: 'node',
      })
      await built.write({ file: module })
      await built.close()
      const script = join(import.meta.dirname, './wrap-around.mjs')
      const args = [...namespace, 'perl', '-e', first, process.execPath, script, module]
      const { stdout } = await promisify(execFile)('unshare', args)
      expect(JSON.parse(stdout)).toEqual({ gone: 0, isThere: true })
    },
  )
})
