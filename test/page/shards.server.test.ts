/** The shards of a group on the status page, in a real browser: on a service, and on a store that `tenure page` opens. */
import type { Browser, Page } from 'playwright-core'
import { createShards, type Shards } from 'tenure/shards'
import { serviceStore } from 'tenure/stores/service'
import type { LeaseStore } from 'tenure'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { namedMembers, type ShardState } from '../../packages/tenure/src/shards/assignment.ts'
import { encodeAssignment } from '../../packages/tenure/src/shards/codec.ts'
import { client, launch, open } from './browser.ts'
import { pageOfStore } from './page-of-store.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { serve } from '../service/serve.ts'

const patient = { timeout: 30_000 }
/** Long enough for a busy machine. No test waits for it to expire. */
const leaseDurationMs = 10_000

const textOf = (page: Page, selector: string) => async () =>
  (await page.locator(selector).allTextContents()).join(' ').replaceAll(/\s+/g, ' ')
const count = (page: Page, selector: string) => () => page.locator(`.shards ${selector}`).count()

/** Starts a process of the group `rooms`. Its work settles when the returned function is called, or at once. */
function takePart(store: LeaseStore, identity: string, isSlow = false): { readonly shards: Shards; settle(): void } {
  let settle = () => {}
  const allowed = new Promise<void>((resolve) => (settle = resolve))
  const shards = createShards({
    store,
    group: 'rooms',
    shards: 8,
    identity,
    leaseDurationMs,
    log: false,
    async work({ signal }) {
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve))
      if (isSlow) await allowed
    },
  })
  shards.start().catch(() => undefined)
  onTestFinished(async () => {
    settle()
    await shards.stop()
  })
  return { shards, settle }
}

async function follow(browser: Browser, url: string, store: LeaseStore): Promise<void> {
  takePart(store, 'ada')
  const bob = takePart(store, 'bob', true)
  const { page, faults } = await open(browser, url)
  await expect.poll(textOf(page, '.note'), patient).toBe('8 shards')
  await page.getByRole('link', { name: 'rooms', exact: true }).click()
  await expect.poll(textOf(page, '.owners li'), patient).toBe('ada4 bob4')
  expect(await count(page, '.owned')()).toBe(8)
  await page.getByRole('button', { name: 'bob: 4 shards' }).click()
  await expect.poll(count(page, '.pale'), patient).toBe(4)
  expect(await page.locator('.shards .pale').first().getAttribute('title')).toMatch(/owned by ada with token \d+/)
  // The keyboard reaches each shard.
  await page.getByRole('listbox', { name: 'Shards' }).focus()
  await page.keyboard.press('End')
  await page.keyboard.press('ArrowLeft')
  await expect.poll(textOf(page, '.card:has(.shards) .told'), patient).toMatch(/^Shard 6 is owned by/)
  expect(await textOf(page, '.shards [aria-selected=true]')()).toBe('6')
  // The shards of bob are in motion until its work has settled.
  void bob.shards.stop()
  await expect.poll(count(page, '.revoked'), patient).toBe(4)
  expect(await page.locator('.shards .revoked').first().getAttribute('title')).toMatch(
    /^Shard \d is in motion: bob must stop its work first\.$/,
  )
  await expect.poll(textOf(page, '.owners li'), patient).toBe('ada4 bob0, 4 in motion')
  await expect.poll(textOf(page, '.legend:has(.shard)'), patient).toMatch(/owned 4 in motion 4/)
  bob.settle()
  await expect.poll(textOf(page, '.owners li'), patient).toBe('ada8')
  await expect.poll(count(page, '.owned:not(.pale)'), patient).toBe(8)
  await page.goto(page.url().replace('rooms', 'rooms.member.0'))
  await page.getByRole('link', { name: 'Seat 0 of rooms' }).click()
  await expect.poll(count(page, '.owned'), patient).toBe(8)
  expect(faults).toEqual([])
}

describeWithPrograms([programs.chromium], 'the shards on the page', () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await launch()
  })
  afterAll(() => browser.close())

  test('the page shows shards as they move, by color, pattern, text, and with the keyboard, on a service and a store', async () => {
    const [service, store] = await Promise.all([serve(), pageOfStore()])
    onTestFinished(() => service.stop())
    await Promise.all([
      follow(browser, `${service.url}/`, serviceStore({ url: service.url })),
      follow(browser, store.url, store.store),
    ])
  })

  test('512 shards of 100 members are legible in light and dark, on a desktop and on a phone', async () => {
    const service = await serve()
    onTestFinished(() => service.stop())
    const ask = client(service.url)
    const lease_ttl_ms = 600_000
    const seats = Array.from({ length: 100 }, (_, seat) => ({ seat, attempt: `a${seat}` }))
    const groupOf = async (group: string, names?: readonly string[]) => {
      const shards = Array.from({ length: 512 }, (_, number): ShardState => {
        const owner = seats[number % 99] ?? { seat: 0, attempt: 'a0' }
        if (number === 7) return { state: 'free' }
        if (number === 8) return { state: 'unknown' }
        // Another member took that seat since.
        if (number === 9) return { state: 'owned', owner: { seat: 99, attempt: 'gone' }, token: 65_536 }
        if (number % 20 === 10) return { state: 'revoked', owner, since: 65_537, lineage: 'l' }
        return { state: 'owned', owner, token: 65_536 }
      }).slice(0, names?.length ?? 512)
      const settings = { shards: shards.length, ...(names && { names }), hash: 'x', leaseDurationMs: lease_ttl_ms }
      const members = namedMembers(shards)
      const checkpoint = encodeAssignment({ settings, epoch: 65_537, lineage: 'l', members, shards })
      await ask(`groups/${group}/campaign`, { node_id: 'node-0.eu-west', lease_ttl_ms })
      await ask(`groups/${group}/renew`, { node_id: 'node-0.eu-west', term: 1, extend_by_ms: lease_ttl_ms, checkpoint })
      for (const { seat, attempt } of seats) {
        const metadata = { maxMembers: 100, metadata: {} }
        const claim = { node_id: `node-${seat}.eu-west`, attempt, lease_ttl_ms, metadata }
        await ask(`groups/${group}.member.${seat}/campaign`, claim)
      }
    }
    await groupOf('numbers')
    const names = Array.from({ length: 60 }, (_, number) => `tenant-${number}.example.com`)
    await groupOf('names', names)
    for (const colorScheme of ['light', 'dark'] as const) {
      for (const width of [1_280, 390]) {
        const options = { colorScheme, viewport: { width, height: 800 } }
        const { page, faults } = await open(browser, `${service.url}/#/groups/numbers`, options)
        await expect.poll(count(page, '.orphaned'), patient).toBe(1)
        expect(await textOf(page, '.legend:has(.shard)')()).toMatch(
          /owned 483 in motion 26 free 1 unknown 1 owner gone 1/,
        )
        expect(await page.evaluate(problems), `${colorScheme} ${width}`).toEqual([])
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
        expect(await page.locator('.owners li').count()).toBe(100)
        await page.goto(`${service.url}/#/groups/names`)
        await expect.poll(count(page, '.shard'), patient).toBe(60)
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width)
        expect(faults).toEqual([])
      }
    }
  })
})

/** Shards whose number is cut off or has too little contrast with any color behind it. */
const problems = `(() => {
  const context = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true })
  const light = (color) => {
    context.fillStyle = color
    context.fillRect(0, 0, 1, 1)
    const [r, g, b] = [...context.getImageData(0, 0, 1, 1).data].map((v) => v / 255)
      .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  return [...document.querySelectorAll('.shards .shard')].flatMap((cell) => {
    const { color, backgroundColor, backgroundImage } = getComputedStyle(cell)
    const behind = backgroundImage === 'none' ? [backgroundColor] : backgroundImage.match(/(?:rgb|color)\\([^()]*\\)/g)
    const ratios = behind.map((each) => {
      const [one, other] = [light(color), light(each)]
      return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05)
    })
    const isCut = cell.scrollWidth > cell.clientWidth + 1 || cell.scrollHeight > cell.clientHeight + 1
    return isCut || Math.min(...ratios) < 4.5 ? [cell.className + ' ' + cell.textContent + ' ' + Math.min(...ratios)] : []
  })
})()`
