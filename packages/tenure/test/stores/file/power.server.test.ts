import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { messageOf } from '@tenure/internal/message'
import { expect, test } from 'vitest'
import { buildMutant } from '../../../../../test/mutants/mutant.ts'
import { programs } from '../../../../../test/servers/programs.ts'
import { describeWithPrograms } from '../../../../../test/servers/suite.ts'
import { systemClock } from '../../../src/common/clock.ts'
import type { LeaseRecord } from '../../../src/engine/lease-store.ts'
import { fileStore } from '../../../src/stores/file/index.ts'
import { call, claim, temporaryDirectory } from './fixtures.ts'
import { powerMutants } from './power-mutants.ts'
import { Disk, restore, type DiskState } from './simulated-disk.ts'
import { runStepByStep } from './run-step-by-step.ts'

const library = join(import.meta.dirname, '../../../dist/stores/file/index.js')
/** A clock on which every lease from before the power failure has expired. */
const laterClock = { ...systemClock, machineMs: () => systemClock.machineMs() + 60_000 }

/** What a candidate finds after the power has returned. */
interface Found {
  readonly record?: LeaseRecord | undefined
  /** The granted term, or 0 if the candidate cannot lead because of `trouble`. */
  readonly grantedTerm: number
  readonly trouble?: string
}

/**
 * Uses a store step by step. After each step, tries every state that a power failure could leave on the disk: no term
 * that anyone has seen may be granted again, and no confirmed answer may be lost. Ends at the first loss that matches
 * `until`.
 */
async function lossesAtPowerCuts(library: string, until?: RegExp): Promise<{ losses: string[]; cuts: number }> {
  const root = await temporaryDirectory()
  const below = join('state', 'leases')
  const disk = new Disk(root)
  const reader = fileStore({ directory: join(root, below) })
  const tried = new Map<DiskState, Found>()
  const losses = new Set<string>()
  let cuts = 0
  let seen = 0
  let told: LeaseRecord | undefined

  const cutPower = async (moment: string): Promise<boolean> => {
    seen = Math.max(seen, (await reader.read('jobs', call()))?.term ?? 0)
    for (const remains of disk.remains()) {
      const found = tried.get(remains) ?? (await campaignOn(remains, below))
      tried.set(remains, found)
      cuts++
      for (const loss of lossesOf(found, seen, told)) losses.add(`${moment}: ${loss}`)
    }
    return !until || ![...losses].some((loss) => until.test(loss))
  }
  await runStepByStep(library, root, join(root, below), {
    step(step) {
      disk.take(step)
      // The file that is being replaced may exist or not.
      if (step.what === 'rename' && step.to.endsWith('.json')) told = undefined
      return cutPower(`after ${[step.what, step.path, step.to].join(' ').replaceAll(root, '').trim()}`)
    },
    told(record) {
      told = record.released ? undefined : record
      return cutPower(`after the answer ${record.version}`)
    },
  })
  return { losses: [...losses], cuts }
}

function lossesOf(found: Found, seen: number, told: LeaseRecord | undefined): string[] {
  if (found.trouble) return [`nobody can lead: ${found.trouble}`]
  return [
    ...(found.grantedTerm <= seen ? [`term ${found.grantedTerm} is granted again`] : []),
    ...(told && found.record?.term !== told.term ? [`the grant of term ${told.term} is gone`] : []),
    ...(told && found.record?.checkpoint !== told.checkpoint ? [`the checkpoint "${told.checkpoint}" is gone`] : []),
  ]
}

/** Starts on the remaining files, and campaigns until it leads. */
async function campaignOn(remains: DiskState, below: string): Promise<Found> {
  const root = await mkdtemp(join(await temporaryDirectory(), 'after-'))
  await restore(remains, root)
  const store = fileStore({ directory: join(root, below), clock: laterClock })
  try {
    const record = await store.read('jobs', call())
    for (let afterTerm = 0; ;) {
      const outcome = await store.acquire(claim({ afterTerm }), call())
      if (outcome.ok) return { record, grantedTerm: outcome.record.term }
      if (outcome.highestTerm <= afterTerm) throw new Error(`it is refused forever: ${JSON.stringify(outcome)}`)
      afterTerm = outcome.highestTerm
    }
  } catch (error) {
    return { grantedTerm: 0, trouble: messageOf(error) }
  } finally {
    await store.close?.()
    await rm(root, { recursive: true })
  }
}

describeWithPrograms([programs.cc], 'fileStore when the power fails', () => {
  test('a power failure at any step loses no confirmed answer and no term that anyone saw', async () => {
    const { losses, cuts } = await lossesAtPowerCuts(library)
    expect(losses).toEqual([])
    expect(cuts).toBeGreaterThan(200)
  })

  test.for(powerMutants)('the test catches the mutant: $name', async ({ finds, ...edit }) => {
    const mutant = join(await buildMutant('tenure', [edit]), 'dist/stores/file/index.js')
    const { losses } = await lossesAtPowerCuts(mutant, finds)
    expect(losses).toContainEqual(expect.stringMatching(finds))
  })
})
