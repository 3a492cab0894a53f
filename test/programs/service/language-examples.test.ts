/** The leader loops in Python and Go: one works at a time, and stops in time whatever happens to it or to the service. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { test, vi, type TestContext } from 'vitest'
import { root } from '../../documents.ts'
import { pathOf, type Program } from '../../servers/find.ts'
import { end } from '../../servers/process.ts'
import { programs } from '../../servers/programs.ts'
import { describeWithPrograms } from '../../servers/suite.ts'
import { serve } from '../../service/serve.ts'

interface Example {
  readonly name: string
  readonly program: Program
  readonly args: readonly string[]
}

const examples: readonly Example[] = [
  // Without what is installed beside it: the standard library is enough.
  { name: 'python', program: programs.python, args: ['-I', '-S', join(root, 'examples/python/leader.py')] },
  { name: 'go', program: programs.goLeader, args: [] },
]

interface Line {
  readonly atMs: number
  readonly text: string
}

interface Candidate {
  readonly example: Example
  readonly url: string
  readonly node: string
  /** In seconds. */
  readonly ttl: number
}

function start({ onTestFinished }: TestContext, { example: { program, args }, url, node, ttl }: Candidate) {
  const env = { ...process.env, TENURE_URL: url, TENURE_NODE: node, TENURE_TTL: String(ttl) }
  const child = spawn(pathOf(program), [...args, 'report'], { env, stdio: ['ignore', 'pipe', 'ignore'] })
  onTestFinished(() => end(child, 'SIGKILL'))
  const exited = once(child, 'exit')
  const lines: Line[] = []
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    for (const line of text.split('\n').filter(Boolean)) lines.push({ atMs: performance.now(), text: line })
  })
  const says = (text: string) =>
    vi.waitUntil(() => lines.some((line) => line.text === text), { timeout: 30_000, interval: 10 })
  return {
    lines,
    kill: (signal: NodeJS.Signals) => child.kill(signal),
    works: (term: number) => says(`term ${term}: works`),
    hasEnded: (term: number) => says(`${node} has ended term ${term}`),
    lastWorkMs: (term: number) => lines.findLast(({ text }) => text === `term ${term}: works`)?.atMs ?? 0,
    async ends(signal: NodeJS.Signals) {
      child.kill(signal)
      return (await exited) as [number | null, NodeJS.Signals | null]
    },
  }
}

async function scene({ onTestFinished }: TestContext) {
  const service = await serve()
  onTestFinished(() => service.stop())
  return service
}

// At the same time: they wait for leases most of the time.
for (const example of examples) {
  const { name } = example
  describeWithPrograms([example.program], `the example ${name}`, () => {
    test.concurrent(`${name}: one works, and the next goes on at once when it ends`, async (context) => {
      const { expect } = context
      const { url } = await scene(context)
      // Long, so that nobody loses its lease because this machine is busy.
      const long = { example, ttl: 30 }
      const first = start(context, { ...long, url, node: 'a' })
      await first.works(1)
      const second = start(context, { ...long, url: `${url}/`, node: 'b' })
      const waiting = async () =>
        /^tenure_waiting_campaigns (\d+)$/m.exec(await (await fetch(`${url}/metrics`)).text())?.[1]
      await expect.poll(waiting, { timeout: 20_000 }).toBe('1')
      expect(await first.ends('SIGTERM')).toEqual([0, null])
      expect(first.lines.at(-1)).toMatchObject({ text: 'a has ended term 1' })
      await second.works(2)
      // One that waits ends at once, and leaves its place in line.
      const third = start(context, { ...long, url, node: 'c' })
      await expect.poll(waiting, { timeout: 20_000 }).toBe('1')
      expect(await third.ends('SIGTERM')).toEqual([0, null])
      await expect.poll(waiting, { timeout: 20_000 }).toBe('0')
    })

    for (const how of ['killed', 'paused']) {
      test.concurrent(`${name}: without the service, which is ${how}, it stops before the lease can pass on`, async (context) => {
        const { expect } = context
        const service = await scene(context)
        const ttl = 3
        const only = start(context, { example, url: service.url, node: 'a', ttl })
        await only.works(1)
        // By then it was renewed.
        await delay((ttl * 1_000) / 2)
        const goneMs = performance.now()
        if (how === 'killed') await service.kill('SIGKILL')
        else service.pause()
        await only.hasEnded(1)
        // Nothing was confirmed after the service had gone.
        expect(only.lastWorkMs(1) - goneMs).toBeLessThan(ttl * 1_000)
        if (how === 'killed') return
        service.resume()
        await only.works(2)
      })
    }

    test.concurrent(`${name}: one that was paused past its lease does not work in its old term when it goes on`, async (context) => {
      const { expect } = context
      const { url } = await scene(context)
      const first = start(context, { example, url, node: 'a', ttl: 3 })
      await first.works(1)
      first.kill('SIGSTOP')
      await delay(100)
      const before = first.lines.length
      const second = start(context, { example, url, node: 'b', ttl: 30 })
      await second.works(2)
      first.kill('SIGCONT')
      await first.hasEnded(1)
      expect(first.lines.slice(before).map(({ text }) => text)).toEqual(['a has ended term 1'])
    })
  })
}
