/**
 * The leader loops in Python and Go: one works at a time and stops in time, no matter what happens to it or to the
 * service.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { root } from '../documents.ts'
import { pathOf, type Program } from '../servers/find-program.ts'
import { end } from '../servers/process.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { serve } from './serve.ts'

interface Example {
  readonly name: string
  readonly program: Program
  readonly args: readonly string[]
}

const examples: readonly Example[] = [
  // The flags disable site packages, because the standard library is enough.
  { name: 'python', program: programs.python, args: ['-I', '-S', join(root, 'examples/python/leader.py')] },
  { name: 'go', program: programs.goLeader, args: [] },
]

interface Line {
  readonly atMs: number
  readonly text: string
}

interface Candidate {
  readonly url: string
  readonly node: string
  /** The time to live of the lease in seconds. */
  readonly ttl: number
}

/** Starts a candidate in the group with the name of the example. */
function start({ name, program, args }: Example, { url, node, ttl }: Candidate) {
  const env = { ...process.env, TENURE_URL: url, TENURE_NODE: node, TENURE_TTL: String(ttl) }
  const child = spawn(pathOf(program), [...args, name], { env, stdio: ['ignore', 'pipe', 'ignore'] })
  onTestFinished(() => end(child, 'SIGKILL'))
  const exited = once(child, 'exit')
  const lines: Line[] = []
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    for (const line of text.split('\n').filter(Boolean)) lines.push({ atMs: performance.now(), text: line })
  })
  const says = (text: string) => vi.waitUntil(() => lines.some((line) => line.text === text), patience)
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

const patience = { timeout: 60_000, interval: 10 }

async function scene() {
  const service = await serve()
  onTestFinished(() => service.stop())
  const waiting = async () => {
    const text = await (await fetch(`${service.url}/metrics`)).text()
    return Number(/^tenure_waiting_campaigns (\d+)$/m.exec(text)?.[1])
  }
  return { service, url: service.url, waiting }
}

describeWithPrograms(
  examples.map(({ program }) => program),
  'the leader loops in Python and Go',
  () => {
    test(
      'a leader loop works, and the waiting candidate takes over at once when it ends',
      { timeout: 120_000 },
      async () => {
        const { url, waiting } = await scene()
        for (const example of examples) {
          // Long enough that no candidate loses its lease because this machine is busy.
          const first = start(example, { url, node: 'a', ttl: 60 })
          await first.works(1)
          const second = start(example, { url: `${url}/`, node: 'b', ttl: 60 })
          await expect.poll(waiting, patience).toBe(1)
          expect(await first.ends('SIGTERM')).toEqual([0, null])
          expect(first.lines.at(-1)).toMatchObject({ text: 'a has ended term 1' })
          await second.works(2)
          // A waiting candidate ends at once and leaves the campaign queue.
          const third = start(example, { url, node: 'c', ttl: 60 })
          await expect.poll(waiting, patience).toBe(1)
          expect(await third.ends('SIGTERM')).toEqual([0, null])
          await expect.poll(waiting, patience).toBe(0)
        }
      },
    )

    test.each(['killed', 'paused'])(
      'the leader loops stop before the lease can expire when the service is %s',
      { timeout: 120_000 },
      async (how) => {
        const { service, url } = await scene()
        const ttl = 3
        const both = examples.map((example) => start(example, { url, node: 'a', ttl }))
        await Promise.all(both.map((only) => only.works(1)))
        // Wait until the candidates have renewed.
        await delay((ttl * 1_000) / 2)
        const goneMs = performance.now()
        if (how === 'killed') await service.kill('SIGKILL')
        else service.pause()
        await Promise.all(
          both.map(async (only) => {
            await only.hasEnded(1)
            // The service confirmed nothing after it had ended.
            expect(only.lastWorkMs(1) - goneMs).toBeLessThan(ttl * 1_000)
          }),
        )
        if (how === 'killed') return
        service.resume()
        await Promise.all(both.map((only) => only.works(2)))
      },
    )

    test(
      'a leader loop that was paused past its lease does not work in its old term',
      { timeout: 120_000 },
      async () => {
        const { url } = await scene()
        await Promise.all(
          examples.map(async (example) => {
            const first = start(example, { url, node: 'a', ttl: 3 })
            await first.works(1)
            first.kill('SIGSTOP')
            await delay(200)
            const before = first.lines.length
            const second = start(example, { url, node: 'b', ttl: 60 })
            await second.works(2)
            first.kill('SIGCONT')
            await first.hasEnded(1)
            expect(first.lines.slice(before).map(({ text }) => text)).toEqual(['a has ended term 1'])
          }),
        )
      },
    )
  },
)
