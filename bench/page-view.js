// npm run bench:page: the status page. Measures its size on the network, the time to first paint and to a visible
// change in a real browser, and the cost of many open pages for the service, which runs in its own process.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { get as httpGet, Agent } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { chromium } from 'playwright-core'
import { load } from '../scripts/load.js'
import { format, median, percentile } from './numbers.js'
import { readOptions, Report } from './report.js'
import { fill } from './service-load.js'
import { Servers } from './service-process.js'

const options = readOptions('page')
const { quick } = options
const figures = await Report.open(options)
const { pathOf } = /** @type {typeof import('../test/servers/find-program.ts')} */ (
  await load('test/servers/find-program.ts')
)
const { programs } = /** @type {typeof import('../test/servers/programs.ts')} */ (
  await load('test/servers/programs.ts')
)

const loads = quick ? 2 : 10
const changes = quick ? 5 : 50
const pages = quick ? 50 : 500
const groups = Array.from({ length: 50 }, (_, at) => `group-${String(at).padStart(2, '0')}`)
const searched = quick ? 2_000 : 100_000
const busyMs = quick ? 2_000 : 20_000
/** The requests that a page makes besides its event stream, while all elections fit on it. */
const asked = [
  { path: '/v1/groups?limit=50', everyMs: 8_000 },
  { path: '/v1/replicas', everyMs: 15_000 },
]

/** Measures the time from sending a campaign to the frame that shows the new leader, on the browser's clock. */
const untilSeen = `(group, node) => new Promise((resolve) => {
  const row = [...document.querySelectorAll('.elections tbody tr')].find((each) => each.textContent.includes(group))
  const cell = row.querySelector('.leader')
  const observer = new MutationObserver(() => {
    if (!cell.textContent.includes(node)) return
    observer.disconnect()
    // After the next frame, whose message comes behind its paint.
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel()
      port1.onmessage = () => resolve(performance.now() - begun)
      port2.postMessage(0)
    })
  })
  observer.observe(cell, { childList: true, subtree: true, characterData: true })
  const begun = performance.now()
  void fetch('v1/groups/' + group + '/campaign', {
    method: 'POST', headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ node_id: node, lease_ttl_ms: 3600000 }),
  })
})`

const folder = mkdtempSync(join(tmpdir(), 'tenure-bench-'))
const servers = new Servers(folder)
const browser = await chromium.launch({
  executablePath: pathOf(programs.chromium),
  args: ['--no-sandbox', '--disable-background-networking'],
})
try {
  const { url, pid } = await servers.start('elections', 'page')
  for (const group of groups) await campaign(url, group, 'a')
  await benchSize(url)
  await benchPaint(url)
  await benchPixels(url)
  await benchPages(url, pid)
  await benchSearch()
} finally {
  await browser.close()
  await servers.stopAll()
  rmSync(folder, { recursive: true, force: true })
}
figures.finish()

/** @param {string} url @param {string} group @param {string} node_id */
async function campaign(url, group, node_id) {
  return post(url, `${group}/campaign`, { node_id, lease_ttl_ms: 3_600_000 })
}

/** @param {string} url @param {string} path @param {object} body */
async function post(url, path, body) {
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(`${url}/v1/groups/${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  if (!answer.ok) throw new Error(`${path} is answered with ${answer.status}: ${await answer.text()}`)
  return /** @type {{ leader: { term: number } }} */ (await answer.json())
}

/** @param {string} url */
async function benchSize(url) {
  const bytesOf = (/** @type {string} */ path) =>
    new Promise((resolve, reject) => {
      const headers = { accept: 'text/html', 'accept-encoding': 'gzip' }
      const sent = httpGet(`${url}/${path}`, { headers, agent: false }, (answer) => {
        let bytes = 0
        answer.on('data', (chunk) => (bytes += chunk.length)).on('end', () => resolve(bytes))
      })
      sent.on('error', reject)
    })
  const html = await (await fetch(`${url}/`, { headers: { accept: 'text/html' } })).text()
  const paths = ['', ...[...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? '')]
  const sizes = await Promise.all(paths.map(bytesOf))
  const kilobytes = sizes.reduce((sum, size) => sum + size, 0) / 1_000
  const detail = `${paths.length} files`
  figures.add({ name: 'size of the page, compressed', value: kilobytes, unit: 'KB', goal: 60, detail })
}

/** @param {string} url */
async function benchPaint(url) {
  const paints = []
  const lists = []
  for (let at = 0; at < loads; at++) {
    const context = await browser.newContext()
    const page = await context.newPage()
    await page.goto(`${url}/`)
    await page.waitForSelector('.elections tbody tr')
    lists.push(Number(await page.evaluate('performance.now()')))
    paints.push(
      Number(await page.evaluate(`performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0`)),
    )
    await context.close()
  }
  const detail = `list of 50 there after ${format(median(lists))} ms; median of ${loads} loads, nothing cached`
  figures.add({ name: 'first paint', value: median(paints), unit: 'ms', goal: 1_000, detail })
}

/** @param {string} url */
async function benchPixels(url) {
  const page = await browser.newPage()
  await page.goto(`${url}/`)
  await page.waitForSelector('.link.live')
  const seenMs = []
  for (let at = 0; at < changes; at++) {
    const group = groups[at % groups.length] ?? ''
    const { leader } = /** @type {{ leader: { node_id: string, term: number } }} */ (
      await (await fetch(`${url}/v1/groups/${group}/leader`)).json()
    )
    await post(url, `${group}/resign`, { node_id: leader.node_id, term: leader.term })
    const row = page.locator('.elections tbody tr').filter({ hasText: group })
    await row.locator('.nobody').waitFor()
    seenMs.push(Number(await page.evaluate(`(${untilSeen})('${group}', 'node-${at}')`)))
  }
  await page.close()
  const detail = `over ${changes} changes, from the request that makes it`
  figures.add({ name: 'from a change to the pixels', value: median(seenMs), unit: 'ms', goal: 100, detail })
  figures.add({
    name: 'from a change to the pixels, p99',
    value: percentile(seenMs, 0.99),
    unit: 'ms',
    goal: 100,
    detail,
  })
}

/** @param {string} url @param {number} pid */
async function benchPages(url, pid) {
  const agent = new Agent({ keepAlive: true, maxSockets: 100 })
  let told = 0
  const streams = []
  for (let at = 0; at < pages; at++) {
    streams.push(await openStream(url, () => (told += 1)))
  }
  const over = new AbortController()
  const ask = (/** @type {string} */ path) =>
    new Promise((resolve) => {
      const sent = httpGet(`${url}${path}`, { agent }, (answer) => answer.resume().on('end', resolve))
      sent.on('error', resolve)
    })
  // Staggered, like pages that users open one after another.
  const asking = asked.map(async ({ path, everyMs }) => {
    const gapMs = everyMs / pages
    const begunMs = performance.now()
    for (let count = 0; !over.signal.aborted; count++) {
      await delay(begunMs + count * gapMs - performance.now())
      void ask(path)
    }
  })
  const changing = (async () => {
    for (let count = 0; !over.signal.aborted; count++) {
      const group = groups[(count >> 1) % groups.length] ?? ''
      const { leader } = /** @type {{ leader: { node_id: string, term: number } | null }} */ (
        await (await fetch(`${url}/v1/groups/${group}/leader`)).json()
      )
      if (leader) await post(url, `${group}/resign`, { node_id: leader.node_id, term: leader.term })
      else await campaign(url, group, `b-${count}`)
      await delay(1_000)
    }
  })()
  await delay(quick ? 500 : 3_000)
  const [before, beganMs] = [cpuSeconds(pid), performance.now()]
  await delay(busyMs)
  const share = ((cpuSeconds(pid) - before) / (performance.now() - beganMs)) * 1e5
  over.abort()
  await Promise.all([...asking, changing])
  for (const stream of streams) stream.destroy()
  agent.destroy()
  const detail = `${pages} pages of 50 groups, with all that they ask; one change a second, ${told} events delivered`
  figures.add({ name: 'open pages, of a core of the service', value: share, unit: '%', goal: 10, detail })
}

/** The page keeps requesting until it is full, so a search for a name that does not exist takes the longest. */
async function benchSearch() {
  const { url, stop } = await startFilled()
  const tookMs = []
  for (let at = 0; at < (quick ? 2 : 10); at++) {
    const begunMs = performance.now()
    let after = ''
    for (;;) {
      const answer = await fetch(`${url}/v1/groups?limit=50&search=no-such-name${after}`)
      const { next } = /** @type {{ next: string | null }} */ (await answer.json())
      if (next === null) break
      after = `&after=${next}`
    }
    tookMs.push(performance.now() - begunMs)
  }
  await stop()
  const detail = `of a name that is not there, among ${searched} groups; median of ${tookMs.length}`
  figures.add({ name: 'a search that finds nothing', value: median(tookMs), unit: 'ms', goal: 1_000, detail })
}

async function startFilled() {
  const service = await servers.start('elections', 'search')
  await fill(service.url, searched)
  return { url: service.url, stop: () => service.stop() }
}

/** @param {string} url @param {() => void} onEvent @returns {Promise<import('node:http').ClientRequest>} */
function openStream(url, onEvent) {
  return new Promise((resolve, reject) => {
    const path = `/v1/watch?renewals=true&groups=${groups.join()}`
    const sent = httpGet(`${url}${path}`, { headers: { accept: 'text/event-stream' }, agent: false }, (answer) => {
      resolve(sent)
      answer.on('data', (chunk) => chunk.includes('LEADER_') && onEvent()).on('error', () => {})
    })
    sent.on('error', reject)
  })
}

/** Returns user and system time of a process, from the kernel. @param {number} pid */
function cpuSeconds(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}
