import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { root } from '../../documents.ts'
import { pathOf } from '../../servers/find.ts'
import { end } from '../../servers/process.ts'
import { programs } from '../../servers/programs.ts'
import { describeWithPrograms } from '../../servers/suite.ts'
import { serve } from '../../service/serve.ts'

const script = join(root, 'examples/python-candidate/candidate.py')

function start(url: string, node: string, ttl: number) {
  const env = { ...process.env, TENURE_URL: url, TENURE_NODE: node, TENURE_TTL: String(ttl) }
  const child = spawn(pathOf(programs.python), [script, 'report'], { env, stdio: ['ignore', 'pipe', 'ignore'] })
  onTestFinished(() => end(child, 'SIGKILL'))
  const exited = once(child, 'exit')
  const lines: { readonly atMs: number; readonly text: string }[] = []
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    for (const line of text.split('\n').filter(Boolean)) lines.push({ atMs: performance.now(), text: line })
  })
  return {
    lines,
    says: (text: string) =>
      vi.waitUntil(() => lines.some((line) => line.text === `${node} ${text}`), { timeout: 30_000, interval: 10 }),
    async ends(signal: NodeJS.Signals) {
      child.kill(signal)
      return (await exited) as [number | null, NodeJS.Signals | null]
    },
  }
}

async function scene() {
  const service = await serve()
  onTestFinished(() => service.stop())
  return service
}

describeWithPrograms([programs.python], 'the example in Python', () => {
  test('python-candidate: one works, and another goes on when it ends or dies', async () => {
    const { url } = await scene()
    // Long, so that nobody loses its lease because this machine is busy.
    const first = start(url, 'a', 10)
    await first.says('works in term 1')
    const second = start(url, 'b', 10)
    await second.says('waits for a')
    expect(await first.ends('SIGTERM')).toEqual([0, null])
    expect(first.lines.at(-1)).toMatchObject({ text: 'a has ended term 1' })
    // At once: the lease was given back, and the stream told so.
    await second.says('works in term 2')
    const third = start(url, 'c', 10)
    await third.says('waits for b')
    await second.ends('SIGKILL')
    await third.says('works in term 3')
    // As people write it just as well.
    const waits = start(`${url}/`, 'd', 10)
    await waits.says('waits for c')
    expect(await waits.ends('SIGTERM')).toEqual([0, null])
    expect(await third.ends('SIGTERM')).toEqual([0, null])
  })

  test('python-candidate: without the service it stops its work before the lease can pass on', async () => {
    const service = await scene()
    const ttl = 3
    const only = start(service.url, 'a', ttl)
    await only.says('works in term 1')
    const killedMs = performance.now()
    await service.kill('SIGKILL')
    await only.says('has ended term 1')
    const last = only.lines.findLast(({ text }) => text.includes('works'))
    // Nothing was confirmed after the service had gone.
    expect((last?.atMs ?? 0) - killedMs).toBeLessThan(ttl * 1_000)
  })
})
