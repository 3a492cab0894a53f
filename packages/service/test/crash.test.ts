import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, request, type IncomingMessage } from 'node:http'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'

const restarts = Number(process.env['TENURE_CRASHES'] ?? 15)
const clients = 32
const groups = ['one', 'two', 'three', 'four']

/** What a client was told, and when it had asked: nanoseconds would be more than these clocks need. */
interface Told {
  readonly what: 'granted' | 'renewed' | 'ended' | 'seen'
  readonly group: string
  readonly term: number
  readonly node: string
  readonly askedMs: number
  readonly answeredMs: number
  /** Of a grant or renewal: how long it was promised. */
  readonly ttlMs: number
}

/**
 * The service, killed and started again while 32 clients use it. What a client was told before a crash must be true
 * after it.
 */
test(
  `no term is reused, lost or brought back over ${restarts} crashes`,
  { timeout: 60_000 + restarts * 3_000 },
  async () => {
    const directory = mkdtempSync(join(tmpdir(), 'tenure-crash-'))
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
    const port = await freePort()
    let child = await serve(directory, port)
    onTestFinished(() => kill(child))

    const told: Told[] = []
    const errors: string[] = []
    const stop = new AbortController()
    let onTold: ((what: Told['what']) => void) | undefined
    const agent = new Agent({ keepAlive: true })
    const running = Array.from({ length: clients }, (_, index) => client(index))
    for (let crash = 0; crash < restarts; crash++) {
      // Somebody's answer chooses the moment: what it says must be on the disk by then.
      const exited = once(child, 'exit')
      await delay(100 + ((crash * 37) % 200))
      await new Promise<void>((resolve) => {
        onTold = (what) => {
          if (what !== (crash % 3 === 2 ? 'ended' : 'granted')) return
          child.kill('SIGKILL')
          onTold = undefined
          resolve()
        }
      })
      await exited
      child = await serve(directory, port)
    }
    stop.abort()
    await Promise.all(running)
    agent.destroy()

    expect(errors).toEqual([])
    expect(violations(told)).toEqual([])
    // A run in which nothing happened proves nothing.
    expect(told.filter(({ what }) => what === 'granted').length).toBeGreaterThan(restarts)
    expect(told.filter(({ what }) => what === 'ended').length).toBeGreaterThan(restarts / 3)

    async function client(index: number): Promise<void> {
      const group = groups[index % groups.length] ?? ''
      const node = `node-${index}`
      // Those who resign have leases that would outlast a restart.
      const ttlMs = index % 3 === 0 ? 2_000 : 150 + (index % 5) * 50
      while (!stop.signal.aborted) {
        const won = await ask('campaign', { node_id: node, lease_ttl_ms: ttlMs })
        const term = (won?.body['leader'] as { term: number } | null)?.term ?? 0
        if (!won || won.body['is_leader'] !== true) {
          // Who leads, in the words of a refusal.
          if (won && term > 0) note('seen', term, won, 0)
          await delay(5 + (index % 7))
          continue
        }
        note('granted', term, won, ttlMs)
        for (let renewal = 0; renewal < index % 4; renewal++) {
          await delay(30)
          const extend_by_ms = ttlMs + (renewal % 2) * 100
          const renewed = await ask('renew', { node_id: node, term, extend_by_ms })
          if (renewed?.status === 200) note('renewed', term, renewed, extend_by_ms)
          if (renewed?.status === 409) note('ended', term, renewed, 0)
          if (renewed?.status !== 200) break
        }
        if (index % 3 === 0) {
          const resigned = await ask('resign', { node_id: node, term })
          if (resigned?.status === 200) note('ended', term, resigned, 0)
        }
      }

      function note(what: Told['what'], term: number, answer: Answer, promisedMs: number): void {
        onTold?.(what)
        told.push({
          what,
          group,
          term,
          node,
          askedMs: answer.askedMs,
          answeredMs: answer.answeredMs,
          ttlMs: promisedMs,
        })
      }

      async function ask(verb: string, body: object): Promise<Answer | undefined> {
        const askedMs = performance.now()
        const answer = await post(agent, port, `/v1/groups/${group}/${verb}`, body)
        if (answer && answer.status >= 500) errors.push(`${verb}: ${JSON.stringify(answer.body)}`)
        return answer && { ...answer, askedMs, answeredMs: performance.now() }
      }
    }
  },
)

interface Answer {
  readonly status: number
  readonly body: Record<string, unknown>
  readonly askedMs: number
  readonly answeredMs: number
}

function violations(told: readonly Told[]): string[] {
  const found: string[] = []
  for (const group of groups) {
    const mine = told.filter((one) => one.group === group)
    const holders = new Map<number, string>()
    const granted = mine.filter(({ what }) => what === 'granted')
    for (const { term, node } of granted) {
      const other = holders.get(term)
      if (other !== undefined) found.push(`${group}: term ${term} was granted to ${other} and to ${node}`)
      holders.set(term, node)
    }
    // A grant that was answered before another was asked for has the lower term.
    const byAnswer = granted.toSorted((a, b) => a.answeredMs - b.answeredMs)
    let highest = 0
    let next = 0
    for (const grant of granted.toSorted((a, b) => a.askedMs - b.askedMs)) {
      for (; (byAnswer[next]?.answeredMs ?? Infinity) < grant.askedMs; next++)
        highest = Math.max(highest, byAnswer[next]?.term ?? 0)
      if (grant.term <= highest) found.push(`${group}: term ${grant.term} was granted after term ${highest}`)
    }
    // What a client may believe: from its answer until the promise ends, counted from when it asked.
    for (const promise of mine.filter(({ what }) => what === 'granted' || what === 'renewed')) {
      const untilMs = promise.askedMs + promise.ttlMs
      const endedMs = Math.min(
        ...mine.filter((one) => one.what === 'ended' && one.term === promise.term).map((one) => one.askedMs),
      )
      for (const other of granted) {
        if (other.term <= promise.term || other.answeredMs >= Math.min(untilMs, endedMs)) continue
        found.push(
          `${group}: term ${other.term} was granted ${untilMs - other.answeredMs} ms before term ${promise.term} was over`,
        )
      }
    }
    // Once anybody was told that a term is over, nobody may see it again, or renew it.
    const endedMs = new Map<number, number>()
    for (const { what, term, answeredMs } of mine) {
      if (what === 'ended') endedMs.set(term, Math.min(answeredMs, endedMs.get(term) ?? Infinity))
    }
    for (const { what, term, askedMs } of mine) {
      const back = (what === 'renewed' || what === 'seen') && askedMs > (endedMs.get(term) ?? Infinity)
      if (back) found.push(`${group}: term ${term} came back`)
    }
  }
  return found.slice(0, 10)
}

/** Undefined if the service went away: then nothing is known. */
async function post(
  agent: Agent,
  port: number,
  path: string,
  body: object,
): Promise<Pick<Answer, 'status' | 'body'> | undefined> {
  const text = JSON.stringify(body)
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
  try {
    const sent = request({ agent, port, host: '127.0.0.1', path, method: 'POST', headers, timeout: 5_000 })
    sent.end(text)
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    const chunks: Buffer[] = []
    for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk)
    return { status: response.statusCode ?? 0, body: JSON.parse(Buffer.concat(chunks).toString()) as Answer['body'] }
  } catch {
    await delay(10)
    return undefined
  }
}

async function serve(directory: string, port: number): Promise<ChildProcess> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'serve.mjs'), directory, String(port)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const said = await Promise.race([once(child.stdout, 'data'), once(child, 'exit')])
  if (child.exitCode !== null) throw new Error(`the service ended with ${String(said[0])}`)
  return child
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}
