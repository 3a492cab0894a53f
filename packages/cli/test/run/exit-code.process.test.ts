import { execFileSync } from 'node:child_process'
import { closeSync, constants, existsSync, openSync, readSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { childrenOf, scene } from './scene.ts'

/** A pipe that a test fills and empties, so that tenure cannot finish its report before the test allows it. */
function fillablePipe(path: string) {
  // POSIX requires both mkfifo and sh.
  execFileSync('sh', ['-c', 'mkfifo "$0"', path])
  // Each end has its own file description, because tenure must not inherit O_NONBLOCK.
  const shared = openSync(path, constants.O_RDWR)
  const own = openSync(path, constants.O_RDWR | constants.O_NONBLOCK)
  onTestFinished(() => [shared, own].forEach((descriptor) => closeSync(descriptor)))
  const repeat = (call: () => number) => {
    try {
      while (call() > 0);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
    }
  }
  return {
    descriptor: shared,
    fill: () => repeat(() => writeSync(own, ' ')),
    empty: () => repeat(() => readSync(own, Buffer.alloc(65_536))),
  }
}

test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
  'a %s that arrives after the command has exited does not change the exit code',
  async (signal) => {
    const on = scene()
    const pipe = fillablePipe(join(on.folder, 'errors'))
    const mayExit = join(on.folder, 'may-exit')
    const script = `touch "${on.file}"; while [ ! -e "${mayExit}" ]; do sleep 0.05; done; exit 3`
    const wrapper = on.run(['--once', '--', 'sh', '-c', script], { stdio: ['ignore', 'ignore', pipe.descriptor] })
    await vi.waitUntil(() => existsSync(on.file), { timeout: 25_000 })
    pipe.fill()
    writeFileSync(mayExit, '')
    // The supervisor ends last. After that, tenure only waits until its last line is written.
    await vi.waitUntil(() => childrenOf(wrapper.child.pid ?? 0).length === 0, { timeout: 25_000 })
    for (let times = 0; times < 10; times++) {
      wrapper.child.kill(signal)
      await delay(50)
    }
    expect(wrapper.isOver()).toBe(false)
    pipe.empty()
    expect(await wrapper.ended).toBe(3)
  },
)
