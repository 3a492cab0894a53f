/** The members on the page: what the candidates of an election say about themselves. */
import { Elector, type LeaseStore } from 'tenure'
import { serviceStore } from 'tenure/stores/service'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { launch, open } from './browser.ts'
import { pageOfStore } from './page-of-store.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { serve } from '../service/serve.ts'

const patient = { timeout: 30_000 }

/** Starts a candidate that is eligible until the returned function is called. */
async function present(store: LeaseStore, identity: string, generation: number, isEligible = true) {
  const options = { store, election: 'search', identity, present: true, generation, leaseDurationMs: 6_000 }
  const elector = new Elector({ ...options, eligible: () => isEligible, log: false })
  onTestFinished(() => elector.stop())
  elector.start()
  await expect.poll(() => elector.explain().seat, patient).toBeTypeOf('number')
  return () => {
    isEligible = false
  }
}

/** Opens the page of the election `search`. */
async function openSearch(browser: Browser, url: string) {
  const opened = await open(browser, url)
  await opened.page.getByRole('link', { name: 'search', exact: true }).click(patient)
  return opened
}

async function showMembers(browser: Browser, url: string, store: LeaseStore): Promise<void> {
  onTestFinished(() => store.close?.())
  const makeUnfit = await present(store, 'old', 41)
  await present(store, 'unfit', 42, false)
  const { page, faults } = await openSearch(browser, url)
  const row = (node: string) => page.locator('.takes-part tbody tr').filter({ hasText: node })
  const fact = () => page.locator('.facts').filter({ hasText: 'Live standbys' }).textContent()
  await expect.poll(() => row('old').textContent(patient), patient).toContain('generation 41')
  await expect.poll(() => row('unfit').textContent(patient), patient).toMatch(/generation 42.*not eligible/)
  expect(await row('old').textContent()).not.toContain('not eligible')
  await expect.poll(fact, patient).toContain('Live standbys0')
  await present(store, 'new', 43)
  await expect.poll(fact, patient).toContain('Live standbys1')
  const nobody = page.getByText('No live candidate is eligible')
  expect(await nobody.count()).toBe(0)
  expect(faults).toEqual([])
  makeUnfit()
  await expect.poll(() => page.locator('.who').textContent(), patient).toContain('new leads')
  await expect.poll(() => row('old').textContent(), patient).toContain('not eligible')
}

async function showUnfit(browser: Browser, url: string, store: LeaseStore): Promise<void> {
  onTestFinished(() => store.close?.())
  const makeUnfit = await present(store, 'only', 1)
  const { page, faults } = await openSearch(browser, url)
  await expect.poll(() => page.locator('.who').textContent(patient), patient).toContain('only leads')
  makeUnfit()
  await page.getByText('No live candidate is eligible, so nobody leads until one is.').waitFor(patient)
  expect(faults).toEqual([])
}

describeWithPrograms([programs.chromium], 'the members on the page', () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await launch()
  })
  afterAll(() => browser.close())

  /** Runs a scene on a service, and on a store that `tenure page` opens. */
  const onBoth = async (run: typeof showMembers) => {
    const [service, store] = await Promise.all([serve(), pageOfStore()])
    onTestFinished(() => service.stop())
    await run(browser, `${service.url}/`, serviceStore({ url: service.url }))
    await run(browser, store.url, store.store)
  }

  test('the page shows the generation of each member, who is not eligible, and how many could take over', () =>
    onBoth(showMembers))

  test('the page says that nobody leads because no live candidate is eligible', () => onBoth(showUnfit))
})
