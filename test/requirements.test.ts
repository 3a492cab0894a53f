/** What docs/reference/requirements.md says about macOS and Windows, where these tests do not run. */
import { Elector } from 'tenure'
import { openStore } from 'tenure/stores'
import { expect, onTestFinished, test } from 'vitest'
import { shardPlanOf } from '../packages/cli/src/run/plan.ts'
import { parseListen } from '../packages/cli/src/shared/arguments/addresses.ts'
import { readDocument } from './documents.ts'

type Plan = Parameters<typeof shardPlanOf>

const systems = { Linux: 'linux', macOS: 'darwin', Windows: 'win32' } as const
type System = keyof typeof systems

const rows = [...readDocument('docs/reference/requirements.md').matchAll(/^\| (.+) \| (.+) \| (.+) \| (.+) \|$/gm)].map(
  ([, feature = '', ...cells]) => ({ feature, Linux: cells[0] ?? '', macOS: cells[1] ?? '', Windows: cells[2] ?? '' }),
)

function rowOf(feature: string) {
  const found = rows.find((row) => row.feature.includes(feature))
  if (!found) throw new Error(`The table has no row for ${feature}`)
  return found
}

/** Pretends that this process runs on another system. */
function runOn(system: System): void {
  const own = Object.getOwnPropertyDescriptor(process, 'platform')
  if (!own) throw new Error('process.platform is missing')
  Object.defineProperty(process, 'platform', { ...own, value: systems[system] })
  onTestFinished(() => void Object.defineProperty(process, 'platform', own))
}

function isRefused(call: () => unknown): boolean {
  try {
    call()
    return false
  } catch (error) {
    expect(String(error)).toMatch(/Linux|Windows/)
    return true
  }
}

test('the table names three systems for every feature, and claims tests on Linux alone', () => {
  expect(rows.length).toBeGreaterThan(6)
  for (const { feature, Linux, macOS, Windows } of rows.filter(({ feature }) => feature !== 'feature')) {
    expect(Linux, feature).toMatch(/^tested\b/)
    for (const cell of [macOS, Windows]) expect(cell, feature).toMatch(/^(?:not tested|refused|as on macOS)\b/)
  }
})

test.each(['macOS', 'Windows'] as const)(
  'what is refused on %s is refused there according to the table',
  async (system) => {
    const store = await openStore('redis://127.0.0.1:1')
    onTestFinished(() => store.close?.())
    runOn(system)
    const settings = { identity: 'node-1', store: 'redis://127.0.0.1:1', ttl: 15_000, grace: 3_000 }
    const refusals = {
      releaseOnCrash: isRefused(() => new Elector({ store, election: 'jobs', releaseOnCrash: true })),
      'tenure run': isRefused(() => shardPlanOf({} as Plan[0], ['true'], settings as Plan[2])),
      '--listen unix:PATH': isRefused(() => parseListen('unix:/run/tenure.sock')),
    }
    for (const [feature, refused] of Object.entries(refusals))
      expect(rowOf(feature)[system].startsWith('refused'), feature).toBe(refused)
  },
)
