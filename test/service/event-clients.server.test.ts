/** Events reach clients as they happen, not when a buffer of the client is full. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import { expect, onTestFinished, test, vi } from 'vitest'
import { pathOf, type Program } from '../servers/find-program.ts'
import { end } from '../servers/process.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { serve } from './serve.ts'

const scripts = join(import.meta.dirname, '../servers/python-clients')

interface Told {
  readonly type: string
  readonly term?: number
}

async function scene() {
  const service = await serve()
  onTestFinished(() => service.stop())
  const group = `${service.url}/v1/groups/jobs`
  const post = async (action: string, body: object) => {
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(`${group}/${action}`, { method: 'POST', headers, body: JSON.stringify(body) })
    expect(answer.status).toBe(200)
  }
  return {
    url: service.url,
    watch: `${group}/watch`,
    campaign: () => post('campaign', { node_id: 'a', lease_ttl_ms: 60_000 }),
    resign: (term: number) => post('resign', { node_id: 'a', term }),
  }
}

/** Collects the lines that a client prints, one for each event. */
function printed(program: Program, args: readonly string[]): Told[] {
  const child = spawn(pathOf(program), args, { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => end(child, 'SIGKILL'))
  const events: Told[] = []
  let rest = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const [, json] = /^(?:data: )?(\{.*\})$/.exec(line) ?? []
      if (json !== undefined) events.push(JSON.parse(json) as Told)
    }
  })
  return events
}

/** Makes each change only after the client has received the previous one, so that nothing else can flush it. */
async function expectPromptly(events: readonly Told[], { campaign, resign }: Awaited<ReturnType<typeof scene>>) {
  const told = (count: number) => vi.waitUntil(() => events.length >= count, { timeout: 20_000 })
  await told(1)
  for (const term of [1, 2, 3]) {
    await campaign()
    await told(2 * term)
    await resign(term)
    await told(2 * term + 1)
  }
  const terms = [1, 2, 3].flatMap((term) => [
    { type: 'LEADER_CHANGED', term },
    { type: 'LEADER_LOST', term },
  ])
  expect(events).toMatchObject([{ type: 'STATE' }, ...terms])
}

describeWithPrograms([programs.python], 'Python', () => {
  test.each(['requests', 'httpx'])('events reach %s of Python at once', async (client) => {
    const service = await scene()
    await expectPromptly(printed(programs.python, [join(scripts, `${client}_events.py`), service.watch]), service)
  })
})

describeWithPrograms([programs.curl], 'curl', () => {
  test('events reach curl at once', async () => {
    const service = await scene()
    const args = ['--silent', '--no-buffer', '--header', 'accept: text/event-stream', service.watch]
    await expectPromptly(printed(programs.curl, args), service)
  })

  test('events reach curl at once with HTTP/1.0, which has no chunked encoding', async () => {
    const service = await scene()
    const args = ['--http1.0', '--silent', '--no-buffer', '--header', 'accept: text/event-stream', service.watch]
    await expectPromptly(printed(programs.curl, args), service)
  })
})

describeWithPrograms([programs.goEvents], 'Go', () => {
  test('events reach net/http of Go at once', async () => {
    const service = await scene()
    await expectPromptly(printed(programs.goEvents, [service.watch]), service)
  })
})

describeWithPrograms([programs.chromium], 'a browser', () => {
  test('events reach an EventSource at once', async () => {
    const service = await scene()
    const browser = await chromium.launch({
      executablePath: pathOf(programs.chromium),
      args: ['--no-sandbox', '--disable-background-networking'],
    })
    onTestFinished(() => browser.close())
    const page = await browser.newPage()
    // The service does not answer pages of other origins.
    await page.goto(`${service.url}/healthz`)
    const events: Told[] = []
    await page.exposeFunction('told', (json: string) => void events.push(JSON.parse(json) as Told))
    await page.evaluate(
      `new EventSource(${JSON.stringify(service.watch)}).onmessage = ({ data }) => { void told(data) }`,
    )
    await expectPromptly(events, service)
  })
})
