/** The documentation as pages, built by the code of `npm run site`, in a real browser. */
import { createReadStream, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { buildSite } from '../../site/build.js'
import { findDeadLinks, findForeignFiles } from '../../site/check-pages.js'
import { entryPoints } from '../../scripts/exports-page.js'
import { listDocuments } from '../documents.ts'
import { launch, open } from '../page/browser.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'

const patient = { timeout: 20_000 }
const types: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.css': 'text/css',
  '.js': 'text/javascript',
  '.svg': 'image/svg+xml',
}
/** Pages with wide tables, long names, tabs, diagrams and pictures. */
const wide = [
  'index.html',
  'api/tenure.html',
  'docs/explanation/benchmarks.html',
  'docs/explanation/robustness.html',
  'docs/guide/multicluster.html',
  'docs/guide/service.html',
  'docs/reference/cli.html',
  'docs/reference/exports.html',
]

/** Serves a folder below a path, as a project's pages often are. */
function serveFolder(folder: string): Promise<Server> {
  const server = createServer((request, response) => {
    const path = (request.url ?? '').replace(/^\/tenure\//, '').replace(/[?#].*/, '')
    const file = join(folder, path)
    if (!existsSync(file)) return void response.writeHead(404).end()
    response.writeHead(200, { 'content-type': types[extname(path)] ?? 'application/octet-stream' })
    createReadStream(file).pipe(response)
  })
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)))
}

describeWithPrograms([programs.chromium], 'the pages of npm run site', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-site-'))
  let browser: Browser
  let server: Server
  let url: string
  beforeAll(async () => {
    await buildSite(folder)
    server = await serveFolder(folder)
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/tenure/`
    browser = await launch()
  })
  afterAll(async () => {
    await browser.close()
    server.close()
    rmSync(folder, { recursive: true })
  })

  async function find(page: Page, words: string): Promise<string[]> {
    await page.locator('.search input').fill(words)
    await expect.poll(() => page.locator('#site-results a').count(), patient).toBeGreaterThan(0)
    return page
      .locator('#site-results a')
      .evaluateAll((links: { getAttribute(name: string): string | null }[]) =>
        links.map((link) => link.getAttribute('href') ?? ''),
      )
  }

  test('every Markdown page and every exported name has its place, every link works, and no file is on another host', () => {
    for (const document of listDocuments().filter((path) => path.startsWith('docs/') && !path.endsWith('README.md')))
      expect(existsSync(join(folder, document.replace(/\.md$/, '.html'))), document).toBe(true)
    const documented = entryPoints().filter(({ internal }) => !internal)
    expect(documented.length).toBeGreaterThan(15)
    for (const { entry, names } of documented) {
      const page = readFileSync(join(folder, `api/${entry.replace('@', '')}.html`), 'utf8')
      const headings = [...page.matchAll(/<h2 id="[^"]*">(\w+)/g)].map(([, name]) => name)
      expect(headings.toSorted(), entry).toEqual(names.map(({ name }) => name).toSorted())
    }
    expect(findDeadLinks(folder)).toEqual([])
    expect(findForeignFiles(folder)).toEqual([])
  })

  test('the search finds pages by the name of a function and by a word, and a hit leads to its section', async () => {
    const { page, faults, origins } = await open(browser, url + 'index.html')
    const locks = await find(page, 'withLock')
    expect(locks).toContain('./api/tenure.html#withlock')
    expect(locks).toContain('./docs/guide/locks.html#a-lock-or-mutex')
    expect(await find(page, 'fencing')).toContain('./docs/how-to/fencing.html#fencing')
    await page.locator('.search input').fill('fencing')
    await page.locator('#site-results a[href*="how-to/fencing.html#fencing"]').click()
    await expect.poll(() => page.url(), patient).toBe(`${url}docs/how-to/fencing.html#fencing`)
    await page.locator('.search input').fill('zqxjk')
    await expect.poll(() => page.locator('#site-results').textContent(), patient).toBe('Nothing found')
    expect(faults).toEqual([])
    expect([...origins]).toEqual([new URL(url).origin])
  })

  test('a page follows the colors of the system, and a choice is kept for the next page', async () => {
    const { page } = await open(browser, url + 'index.html', { colorScheme: 'dark' })
    const back = () => page.evaluate<string>('getComputedStyle(document.body).backgroundColor')
    const dark = await back()
    await page.getByRole('button', { name: 'Light or dark colors' }).click()
    const light = await back()
    expect(light).not.toBe(dark)
    await page.goto(url + 'docs/guide/jobs.html')
    expect(await back()).toBe(light)
  })

  test('a language that is chosen in one group of tabs is shown, and stays chosen on the next page', async () => {
    const { page } = await open(browser, url + 'docs/guide/service.html')
    const shown = () => page.locator('.tabs').first().locator('[role=tabpanel]:visible').textContent()
    expect(await page.locator('.tabs').first().getByRole('tab').allTextContents()).toEqual([
      'TypeScript',
      'Shell',
      'Python',
      'Go',
    ])
    expect(await shown()).toContain('serviceStore')
    await page.getByRole('tab', { name: 'Python' }).click()
    expect(await shown()).toContain('from leader import')
    await page.reload()
    expect(await shown()).toContain('from leader import')
    await page.getByRole('tab', { name: 'Python' }).press('ArrowRight')
    expect(await shown()).toContain('election.New')
  })

  test.each([
    ['a desktop', 1280],
    ['a phone', 390],
  ])('no page is wider than the window of %s', async (_, width) => {
    const { page, faults } = await open(browser, url + 'index.html', { viewport: { width, height: 844 } })
    for (const path of wide) {
      await page.goto(url + path)
      expect(await page.evaluate<number>('document.documentElement.scrollWidth'), path).toBeLessThanOrEqual(width)
    }
    expect(faults).toEqual([])
  })

  test('on a phone, the menu opens over the page and leads to another page', async () => {
    const { page } = await open(browser, url + 'index.html', { viewport: { width: 390, height: 844 } })
    expect(await page.locator('#site-menu').isVisible()).toBe(false)
    await page.getByRole('button', { name: 'Menu' }).click()
    await page.locator('#site-menu').getByRole('link', { name: 'Jobs once per fleet' }).click()
    await expect.poll(() => page.locator('h1').textContent(), patient).toBe('Jobs once per fleet')
  })

  test('the search works on pages that are opened from the file system', async () => {
    const { page, faults } = await open(browser, `file://${folder}/docs/guide/jobs.html`)
    onTestFinished(() => page.close())
    expect(await find(page, 'withLock')).toContain('../../api/tenure.html#withlock')
    expect(faults).toEqual([])
  })
})
