/** The status page in a real browser, on a real service. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, request, type IncomingMessage } from 'node:http'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { startService } from '@tenure/service'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { audience, claimsOf, ecKeys, issuer, jwkOf, signed } from '../../packages/service/test/auth/tokens.ts'
import { client, launch, open } from './browser.ts'
import { end } from '../servers/process.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { serve } from '../service/serve.ts'

const patient = { timeout: 20_000 }
const rowOf = (page: Page, name: string) => page.locator('.elections tbody tr').filter({ hasText: name })
const textOf = (page: Page, selector: string) => async () =>
  (await page.locator(selector).allTextContents()).join(' ').replaceAll(/\s+/g, ' ')

async function scene(...more: string[]) {
  const service = await serve(...more)
  onTestFinished(() => service.stop())
  const ask = client(service.url)
  const campaign = (group: string, node_id: string, lease_ttl_ms = 60_000, rest: object = {}) =>
    ask(`groups/${group}/campaign`, { node_id, lease_ttl_ms, ...rest })
  return { service, ask, campaign, url: `${service.url}/` }
}

describeWithPrograms([programs.chromium], 'the page', () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await launch()
  })
  afterAll(() => browser.close())

  test('the page shows the elections, runs only its own script, contacts no other origin, and stores nothing', async () => {
    const { campaign, url } = await scene()
    await campaign('payments', 'node-1', 60_000, { metadata: { zone: 'az-a' } })
    await campaign('payments', 'node-2')
    await campaign('reports', 'node-2')
    const { page, faults, origins } = await open(browser, url)
    const row = rowOf(page, 'payments')
    await row.waitFor(patient)
    expect(await row.locator('.leader').textContent()).toBe('node-1')
    expect(await row.locator('.term').textContent()).toContain('1')
    expect(await row.locator('.members').textContent()).toContain('1')
    await expect.poll(textOf(page, '.link'), patient).toBe('Live')
    await expect.poll(textOf(page, '.health'), patient).toContain('directory healthy')
    expect(faults).toEqual([])
    expect([...origins]).toEqual([new URL(url).origin])
    expect(await page.context().cookies()).toEqual([])
    expect(await page.evaluate('localStorage.length + sessionStorage.length')).toBe(0)
  })

  test('the page shows a change at once, and distinguishes a leader that expired from a handover', async () => {
    const { ask, campaign, url } = await scene()
    await campaign('jobs', 'first', 60_000)
    const { page, faults } = await open(browser, url)
    const leader = rowOf(page, 'jobs').locator('.leader')
    await expect.poll(() => leader.textContent(), patient).toBe('first')
    await ask('groups/jobs/resign', { node_id: 'first', term: 1 })
    await expect.poll(() => leader.textContent(), patient).toBe('nobody leads')
    await campaign('jobs', 'mortal', 700)
    await expect.poll(() => leader.textContent(), patient).toBe('mortal')
    // The leader sends nothing from now on, like a process that was killed.
    await expect.poll(() => leader.textContent(), patient).toBe('nobody leads')
    await page.getByRole('link', { name: 'jobs' }).click()
    await expect
      .poll(textOf(page, '.changes li'), patient)
      .toMatch(/expired.*mortal.*elected.*mortal.*handed over.*first/)
    await expect.poll(() => page.locator('.band.resigned').count(), patient).toBe(1)
    await page.locator('.band.expired').hover()
    expect(await textOf(page, '.told')()).toMatch(/mortal led in term 2 .* The term expired: the lease was not renewed/)
    expect(faults).toEqual([])
  })

  test('the lease bar shrinks on the viewer’s clock, and a renewal refills it', async () => {
    const { ask, campaign, url } = await scene()
    await campaign('jobs', 'a', 20_000)
    const { page } = await open(browser, url)
    const left = async () => Number(await page.getByRole('meter', { name: 'Lease left' }).getAttribute('aria-valuenow'))
    await expect.poll(left, patient).toBeLessThan(18)
    await ask('groups/jobs/renew', { node_id: 'a', term: 1, extend_by_ms: 20_000 })
    await expect.poll(left, patient).toBeGreaterThanOrEqual(19)
  })

  test('the page reports that it is behind while the service is down, and catches up when it is back', async () => {
    const { service, campaign, url } = await scene()
    await campaign('jobs', 'before', 60_000)
    const { page, faults } = await open(browser, url)
    await expect.poll(textOf(page, '.link'), patient).toBe('Live')
    await service.kill('SIGKILL')
    await page.getByRole('alert').waitFor(patient)
    expect(await textOf(page, '.banner')()).toContain('Behind.')
    await expect.poll(textOf(page, '.health'), patient).toBe('service unreachable')
    await service.start()
    await campaign('other', 'after')
    await expect.poll(textOf(page, '.link'), patient).toBe('Live')
    await expect.poll(() => page.locator('.banner').count(), patient).toBe(0)
    await expect.poll(() => rowOf(page, 'other').count(), patient).toBe(1)
    await expect.poll(textOf(page, 'summary.health'), patient).toContain('healthy')
    expect(faults).toEqual([])
  })

  test('the page turns from live to behind within 3 s when the service freezes, and its bands stop growing', async () => {
    const { service, campaign, url } = await scene()
    await campaign('jobs', 'node-1', 600_000)
    const { page, faults } = await open(browser, `${url}#/groups/jobs`)
    await expect.poll(textOf(page, '.link'), patient).toBe('Live')
    await page.locator('.large .band').waitFor(patient)
    await page.locator('select').selectOption('300000')
    /** Returns the end of the band as a fraction of the whole, and when it was measured. */
    const edge = () =>
      page.evaluate(`(() => {
        const [band, line] = ['.large .band', '.large'].map((each) => document.querySelector(each).getBoundingClientRect())
        return { at: (band.right - line.left) / line.width, shown: document.querySelector('.link').textContent }
      })()`) as Promise<{ at: number; shown: string }>
    expect((await edge()).at).toBeCloseTo(1, 2)
    const frozenMs = performance.now()
    service.pause()
    await expect.poll(textOf(page, '.link'), { ...patient, interval: 20 }).toBe('Behind')
    expect(performance.now() - frozenMs).toBeLessThan(3_000)
    await expect.poll(textOf(page, '.banner'), patient).toContain('The server does not answer')
    // After 3 % of five minutes, the timeline has moved, but the band has not.
    await expect.poll(async () => (await edge()).at, patient).toBeLessThan(0.97)
    service.resume()
    await expect.poll(textOf(page, '.link'), patient).toBe('Live')
    await expect.poll(async () => (await edge()).at, patient).toBeGreaterThan(0.99)
    expect(faults).toEqual([])
  })

  test('a node has one color everywhere on the page, whichever node is seen first', async () => {
    const { campaign, url, ask } = await scene()
    await campaign('one', 'node-7')
    await campaign('one', 'node-8')
    await campaign('two', 'node-8')
    const colors = async (page: Page, selector: string) => {
      const script = `[...document.querySelectorAll(${JSON.stringify(selector)})].map((node) =>
        [node.textContent, node.querySelector('.dot').className])`
      return Object.fromEntries(await page.evaluate<[string, string][]>(script))
    }
    const { page } = await open(browser, url)
    await rowOf(page, 'two').waitFor(patient)
    const listed = await colors(page, '.node')
    expect(Object.keys(listed)).toEqual(['node-7', 'node-8'])
    await page.goto(`${url}#/groups/one`)
    await page.locator('.takes-part tbody tr').nth(1).waitFor(patient)
    expect(await colors(page, '.takes-part .node')).toEqual(listed)
    await ask('groups/one/resign', { node_id: 'node-7', term: 1 })
    await campaign('one', 'node-8')
    // Another viewer sees the other node first.
    const other = await open(browser, `${url}#/groups/one`)
    await other.page.locator('.large .band').nth(1).waitFor(patient)
    expect(await colors(other.page, '.node')).toEqual(listed)
    const bands = await other.page.evaluate(
      `[...document.querySelectorAll('.large .band')].map((band) => 'dot ' + /\\bc\\d/.exec(band.className)[0])`,
    )
    expect(bands).toEqual([listed['node-7'], listed['node-8']])
  })

  test('the list shows that the last run of a job failed, and how many standbys are live', async () => {
    const { campaign, ask, url } = await scene()
    await campaign('report', 'node-1')
    await campaign('report', 'node-2')
    const run = (result: string) => ({ at: new Date().toISOString(), ms: 1_000, by: 'node-1', term: 1, result })
    const renew = (result: string) =>
      ask('groups/report/renew', {
        node_id: 'node-1',
        term: 1,
        extend_by_ms: 60_000,
        checkpoint: JSON.stringify({ lastRun: new Date().toISOString(), runs: [run(result)] }),
      })
    await renew('failed')
    const { page, faults } = await open(browser, url)
    await expect.poll(textOf(page, '.failed-run'), patient).toBe('last run failed')
    expect(await rowOf(page, 'report').locator('.members').textContent()).toContain('1 live standby')
    await renew('succeeded')
    await expect.poll(() => page.locator('.failed-run').count(), patient).toBe(0)
    await page.getByRole('link', { name: 'report' }).click()
    await expect.poll(textOf(page, '.facts'), patient).toContain('Live standbys1')
    expect(faults).toEqual([])
  })

  test('the page asks for a token once, says why a token was refused, and shows buttons only to administrators', async () => {
    const data = mkdtempSync(join(tmpdir(), 'tenure-page-'))
    onTestFinished(() => rmSync(data, { recursive: true, force: true }))
    const { publicKey, privateKey } = ecKeys()
    const keysFile = join(data, 'keys.json')
    writeFileSync(keysFile, JSON.stringify({ keys: [jwkOf(publicKey)] }))
    const service = await startService({
      data: join(data, 'data'),
      port: 0,
      authentication: { jwt: { keysFile, issuer, audience } },
    })
    onTestFinished(() => service.close())
    const token = (sub: string, tenure: object) => signed({ alg: 'ES256' }, claimsOf(sub, { tenure }), privateKey)
    for (const node_id of ['node-a', 'node-b']) {
      const ask = client(service.url, token(node_id, { groups: ['*'] }))
      await ask('groups/jobs/campaign', { node_id, lease_ttl_ms: 60_000 })
    }
    const { page, faults } = await open(browser, `${service.url}/`)
    const field = page.getByLabel('Token')
    await field.fill('not.a.token')
    await page.keyboard.press('Enter')
    await expect.poll(textOf(page, '.refusal'), patient).toContain('The token was rejected')
    await field.fill(token('dashboard', { reader: true }))
    await page.keyboard.press('Enter')
    await rowOf(page, 'jobs').waitFor(patient)
    await page.getByRole('link', { name: 'jobs' }).click()
    await page.locator('.standing').waitFor(patient)
    expect(await page.getByRole('button', { name: 'Resign…' }).count()).toBe(0)
    await expect.poll(textOf(page, '.takes-part'), patient).toContain('node-b')
    expect(await page.getByRole('button', { name: /^Hand over/ }).count()).toBe(0)
    expect(page.url()).not.toContain('eyJ')
    await page.getByRole('button', { name: 'Forget token' }).click()
    // The user pastes a token into the address of the open page: first an invalid one, then a valid one.
    await page.evaluate(`location.hash = '#token=eyJ.nonsense!'`)
    await expect.poll(() => page.url(), patient).toBe(`${service.url}/`)
    await page.evaluate(`location.hash = '#token=${token('operator', { admin: true })}'`)
    await expect.poll(() => page.url(), patient).toBe(`${service.url}/`)
    await page.getByRole('link', { name: 'jobs' }).click(patient)
    await page.getByRole('button', { name: 'Resign…' }).click(patient)
    const dialog = page.getByRole('dialog', { name: 'End this term?' })
    await dialog.waitFor(patient)
    await page.keyboard.press('Escape')
    await expect.poll(() => dialog.count(), patient).toBe(0)
    expect(await textOf(page, '.who')()).toContain('node-a leads')
    await page.getByRole('button', { name: 'Resign…' }).click()
    await dialog.getByRole('button', { name: 'End the term' }).click()
    await expect.poll(textOf(page, '.who'), patient).toContain('Nobody leads')
    await page.getByRole('button', { name: 'Remove…' }).click()
    await page.getByRole('button', { name: 'Remove the election' }).click()
    await expect.poll(textOf(page, '.empty'), patient).toContain('was removed')
    expect(faults).toEqual([])
  })

  test('an administrator hands over to a candidate, and the page shows progress, the outcome, and a refusal', async () => {
    const { ask, campaign, url } = await scene()
    await campaign('payments', 'node-1', 10_000)
    // A healthy leader renews until the service refuses it.
    const renew = async (): Promise<void> => {
      const renewed = ask('groups/payments/renew', { node_id: 'node-1', term: 1, extend_by_ms: 10_000 })
      if (
        await renewed.then(
          () => true,
          () => false,
        )
      )
        timer = setTimeout(() => void renew(), 1_000)
    }
    let timer: NodeJS.Timeout | undefined
    void renew()
    onTestFinished(() => clearTimeout(timer))
    const campaigns = ['node-2', 'node-3'].map((node) => campaign('payments', node, 60_000, { wait_ms: 60_000 }))
    const { page, faults } = await open(browser, `${url}#/groups/payments`)
    const button = (node: string) => page.getByRole('button', { name: `Hand over to ${node}…` })
    const dialog = page.getByRole('dialog', { name: /^Hand over to/ })
    const status = textOf(page, '[role=status].hand-over')
    await button('node-3').click(patient)
    expect(await button('node-1').count()).toBe(0)
    expect(await dialog.textContent()).toContain('node-1 stops leading in term 1')
    await page.keyboard.press('Escape')
    await expect.poll(() => dialog.count(), patient).toBe(0)
    expect(await textOf(page, '.who')()).toContain('node-1 leads')
    await button('node-3').click()
    await dialog.getByRole('button', { name: 'Hand over' }).click()
    await expect.poll(status, patient).toMatch(/^Handing over to node-3, which can lead in/)
    await expect.poll(status, patient).toBe('Handed over: node-3 leads in term 2.')
    await expect.poll(textOf(page, '.who'), patient).toContain('node-3 leads')
    // The leader changes while the question is open.
    await button('node-2').click(patient)
    await ask('groups/payments/resign', { node_id: 'node-3', term: 2 })
    await Promise.all(campaigns)
    await dialog.getByRole('button', { name: 'Hand over' }).click()
    await expect.poll(textOf(page, '.refusal'), patient).toContain('does not lead group "payments" in this term')
    expect(faults).toEqual([])
  })

  test('the page shows a thousand groups in pages of 50', async () => {
    const { campaign, url } = await scene()
    const names = Array.from({ length: 1_000 }, (_, at) => `group-${String(at).padStart(4, '0')}`)
    for (let at = 0; at < names.length; at += 50) {
      await Promise.all(names.slice(at, at + 50).map((name) => campaign(name, 'a', 600_000)))
    }
    const { page, faults } = await open(browser, url)
    const rows = page.locator('.elections tbody tr')
    await expect.poll(() => rows.count(), patient).toBe(50)
    expect(await textOf(page, '.count')()).toBe('1000 elections, 50 on this page')
    await page.getByRole('button', { name: 'Next' }).click()
    await rowOf(page, 'group-0099').waitFor(patient)
    await page.getByRole('button', { name: 'Previous' }).click()
    await rowOf(page, 'group-0000').waitFor(patient)
    await page.keyboard.press('/')
    await page.keyboard.type('0777')
    await expect.poll(() => rows.count(), patient).toBe(1)
    expect(await rows.first().textContent()).toContain('group-0777')
    await page.getByRole('searchbox').fill('no such name')
    await expect.poll(textOf(page, '.empty'), patient).toContain('No election has')
    expect(faults).toEqual([])
  })

  test('hostile names and metadata run no script and do not break the layout', async () => {
    const { campaign, ask, url } = await scene()
    await campaign('quiet', 'plain')
    await campaign('zz-last', 'plain')
    const { page, faults } = await open(browser, url)
    await rowOf(page, 'zz-last').waitFor(patient)
    const places = () =>
      page.evaluate(`[...document.querySelectorAll('.elections tbody tr')].map((row) => {
        const { height, width } = row.getBoundingClientRect(); return [height, width] })`)
    const before = await places()
    const evil = [
      '<img src=x onerror="window.ran=1">',
      '"><script>window.ran=1</script>',
      'javascript:window.ran=1',
      `zalgo ${'e' + '\u0301'.normalize('NFD').repeat(60)}`.normalize('NFC'),
      'x'.repeat(256),
      '{{constructor.constructor("window.ran=1")()}}',
    ]
    const metadata = {
      '<svg onload=window.ran=1>': '<iframe srcdoc="<script>parent.ran=1</script>">',
      __html: '<img src=x onerror=window.ran=1>',
      long: 'y'.repeat(2_000),
      deep: { a: [{ b: ['\u202egnp.exe'] }] },
      style: 'position:fixed;inset:0',
    }
    for (const [at, node] of evil.entries()) {
      await campaign('quiet', node, 60_000, { metadata })
      const { leader } = (await ask('groups/quiet/leader')) as { leader: { node_id: string; term: number } }
      await expect
        .poll(async () => rowOf(page, 'quiet').locator('.term').textContent(), patient)
        .toContain(String(leader.term))
      await ask('groups/quiet/resign', { node_id: leader.node_id, term: leader.term })
      await campaign('quiet', node, 60_000, { metadata })
      await expect.poll(places, patient).toEqual(before)
      const next = (await ask('groups/quiet/leader')) as { leader: { node_id: string; term: number } }
      if (at < evil.length - 1)
        await ask('groups/quiet/resign', { node_id: next.leader.node_id, term: next.leader.term })
    }
    const checkpoint =
      '{"runs":[{"at":"2026-01-01T00:00:00Z","result":"<img src=x onerror=window.ran=1>","error":"<b>"}]}'
    const { leader } = (await ask('groups/quiet/leader')) as { leader: { node_id: string; term: number } }
    await ask('groups/quiet/renew', { node_id: leader.node_id, term: leader.term, extend_by_ms: 60_000, checkpoint })
    await page.goto(`${url}#/groups/quiet`)
    await expect.poll(textOf(page, '.pairs'), patient).toContain('<iframe srcdoc')
    await expect.poll(textOf(page, '.runs'), patient).toContain('onerror')
    expect(await page.evaluate('window.ran')).toBeUndefined()
    expect(await page.locator('#app img, #app iframe, #app script, #app svg').count()).toBe(0)
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(1280)
    await page.setViewportSize({ width: 390, height: 800 })
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390)
    // An address is as untrusted as a name.
    await page.goto(`${url}#/groups/${encodeURIComponent('<img src=x onerror=window.ran=1>')}`)
    await expect.poll(textOf(page, 'h1'), patient).toContain('<img')
    expect(await page.evaluate('window.ran')).toBeUndefined()
    expect(faults).toEqual([])
  })

  test('the page works behind a path prefix through a proxy', async () => {
    const { service, campaign } = await scene()
    await campaign('jobs', 'a')
    const proxy = createServer((incoming, outgoing) => {
      if (!incoming.url?.startsWith('/a/b/')) return void outgoing.writeHead(404).end()
      const path = incoming.url.slice('/a/b'.length)
      const headers = { ...incoming.headers, host: `127.0.0.1:${service.port}` }
      const passed = request(
        { port: service.port, path, method: incoming.method, headers },
        (answer: IncomingMessage) => {
          outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
          answer.pipe(outgoing)
        },
      )
      outgoing.on('close', () => passed.destroy())
      passed.on('error', () => outgoing.destroy())
      incoming.pipe(passed)
    }).listen(0, '127.0.0.1')
    await once(proxy, 'listening')
    onTestFinished(() => {
      proxy.close()
      proxy.closeAllConnections()
    })
    const { port } = proxy.address() as AddressInfo
    const { page, faults } = await open(browser, `http://127.0.0.1:${port}/a/b/`)
    await rowOf(page, 'jobs').waitFor(patient)
    await page.getByRole('link', { name: 'jobs' }).click()
    await expect.poll(textOf(page, '.who'), patient).toContain('a leads')
    await expect.poll(textOf(page, '.link'), patient).toBe('Live')
    expect(faults).toEqual([])
  })

  test('the page can be used with the keyboard alone, and every element has a name', async () => {
    const { campaign, url } = await scene()
    await campaign('jobs', 'a')
    const { page } = await open(browser, url)
    await rowOf(page, 'jobs').waitFor(patient)
    const shown = () => page.locator('body').ariaSnapshot()
    for (const part of [
      'link "Skip to content"',
      'heading "Elections" [level=1]',
      'searchbox "Search elections by name"',
      'combobox "Timeline: last"',
      'table "Elections and who leads them"',
      'columnheader "Lease left"',
      'rowheader "jobs"',
      'meter "Lease left"',
      'img "1 term; a leads in term 1"',
      'status "Connection: Live"',
    ]) {
      await expect.poll(shown, patient).toContain(part)
    }
    const focused = async () =>
      page.evaluate('document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent')
    const reach = async (name: string | RegExp) => {
      for (let presses = 0; presses < 60; presses++) {
        if (String(await focused()).match(name)) return
        await page.keyboard.press('Tab')
      }
      throw new Error(`Tab does not reach ${name}`)
    }
    await reach(/^jobs$/)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'jobs' }).waitFor(patient)
    await reach(/^a leads in term 1/)
    await expect.poll(textOf(page, '.told'), patient).toContain('a leads in term 1')
    await reach(/^Remove…$/).catch(async () => {
      // The element is before the timeline, so start from the top again.
      await page.keyboard.press('Home')
      await page.evaluate('document.activeElement.blur()')
      await reach(/^Remove…$/)
    })
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog', { name: 'Remove this election?' })
    await dialog.waitFor(patient)
    await page.keyboard.press('Escape')
    await expect.poll(() => dialog.count(), patient).toBe(0)
  })

  test.each([
    ['light', 1280],
    ['dark', 1280],
    ['light', 390],
    ['dark', 390],
  ] as const)(
    'the page is legible in %s at a width of %i, with nothing cut off or wrapped',
    async (colorScheme, width) => {
      const { campaign, ask, url } = await scene()
      const node_id = 'a-node-with-a-rather-long-name-in-a-zone-far-away'
      await campaign('payments-coordinator', node_id, 3_599_000)
      const lastDay = new Date(Date.now() - 90_000_000).toISOString()
      const runs = [{ at: lastDay, ms: 3_723_000, by: node_id, term: 1, result: 'failed', error: 'exit code 3' }]
      await ask('groups/payments-coordinator/renew', {
        node_id,
        term: 1,
        extend_by_ms: 3_599_000,
        checkpoint: JSON.stringify({ lastRun: lastDay, runs }),
      })
      const { page } = await open(browser, url, { colorScheme, viewport: { width, height: 800 } })
      await rowOf(page, 'payments').waitFor(patient)
      /** Texts that are cut off, wrap, or overflow their box. */
      const broken = `[...document.querySelectorAll('.left, .number:not(.members), .members [aria-hidden], .term, .count, .failed-run, .runs td:first-child, dd, time, .key')]
      .filter((one) => one.getClientRects().length > 0 && one.textContent !== '')
      .filter((one) => {
        const box = one.closest('td, th, .standing, .card, .tools, body').getBoundingClientRect()
        const text = document.createRange()
        text.selectNodeContents(one)
        const rows = new Set([...text.getClientRects()].filter(({ width }) => width > 1).map(({ bottom }) => Math.round(bottom / 12)))
        const { right, left } = text.getBoundingClientRect()
        return rows.size > 1 || one.scrollWidth > one.clientWidth + 1 || right > box.right + 1 || left < box.left - 1
      })
      .map((one) => one.className + ': ' + one.textContent)`
      expect(await page.evaluate(broken)).toEqual([])
      const contrast = `(selector) => {
      const light = (text) => { const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map((v) => v / 255)
        .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b }
      const element = document.querySelector(selector)
      let behind = element
      while (getComputedStyle(behind).backgroundColor === 'rgba(0, 0, 0, 0)') behind = behind.parentElement
      const [one, other] = [light(getComputedStyle(element).color), light(getComputedStyle(behind).backgroundColor)]
      return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05)
    }`
      const selectors = ['.to', '.leader', '.left', '.count', '.link', '.brand', '.term']
      for (const selector of selectors) {
        expect(await page.evaluate(`(${contrast})(${JSON.stringify(selector)})`), selector).toBeGreaterThan(4.5)
      }
      const isDark =
        Number(await page.evaluate(`getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]`)) < 128
      expect(isDark).toBe(colorScheme === 'dark')
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
      await page.goto(`${url}#/groups/payments-coordinator`)
      await page.locator('.standing').waitFor(patient)
      await page.locator('.runs').waitFor(patient)
      expect(await page.evaluate(broken)).toEqual([])
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
    },
  )

  test('tenure page shows any other store and forgets the secret in its address', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tenure-page-store-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const command = join(import.meta.dirname, '../../packages/cli/bin/tenure.js')
    const start = (...args: string[]) => {
      const child = spawn(process.execPath, [command, ...args, '--store', pathToFileURL(folder).href], {
        stdio: ['ignore', 'pipe', 'ignore'],
      })
      onTestFinished(() => end(child, 'SIGKILL'))
      return child
    }
    const candidate = start(
      'sidecar',
      'nightly, <i>',
      '--identity',
      'candidate-1',
      '--listen',
      '127.0.0.1:0',
      '--ttl',
      '3s',
    )
    let printed = ''
    start('page')
      .stdout?.setEncoding('utf8')
      .on('data', (text: string) => (printed += text))
    const url = await vi.waitUntil(() => /^http:\S+\n/.exec(printed)?.[0].trim(), patient)
    const { page, faults } = await open(browser, url)
    expect(page.url()).not.toContain('token')
    const row = rowOf(page, 'nightly, <i>')
    await expect.poll(() => row.locator('.leader').textContent(), patient).toBe('candidate-1')
    await page.getByRole('link', { name: 'nightly, <i>' }).click()
    await expect.poll(textOf(page, '.who'), patient).toContain('candidate-1 leads')
    expect(await page.getByRole('button', { name: /^(Resign|Hand over)/ }).count()).toBe(0)
    // Kill the leader, so that its lease expires.
    await end(candidate, 'SIGKILL')
    await expect.poll(textOf(page, '.who'), patient).toContain('Nobody leads')
    await expect.poll(textOf(page, '.changes li'), patient).toContain('expired')
    expect(faults).toEqual([])
  })
})
