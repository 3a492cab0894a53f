import { fail } from 'node:assert/strict'
import type { LeaseRecord } from 'tenure'
import type { Case } from './case.ts'
import { check, granted, same, show, type ConformanceScene } from './scene.ts'

/** The guarantees of `list` and `look` in a store that has them. */
export const listCases: Case[] = [
  {
    name: 'list returns every record page by page, including released ones',
    needs: ['list'],
    async run(scene) {
      const records: LeaseRecord[] = []
      for (const name of ['a', 'b', 'c', 'd', 'e']) {
        records.push((await scene.grant({ election: electionOf(scene, name) })).record)
      }
      const [first, ...others] = records
      const freed = first && granted('release', await scene.release(first), 'The claim names the current grant.').record
      const listed = await listAll(scene)
      for (const record of [freed, ...others]) {
        same(`The record of ${record?.election} in the listing`, listed.get(record?.election ?? ''), record, stored)
      }
    },
  },
  {
    name: 'list omits a record that was removed',
    needs: ['list', 'remove'],
    async run(scene) {
      const kept = electionOf(scene, 'kept')
      await scene.grant()
      await scene.grant({ election: kept })
      await scene.remove()
      const listed = await listAll(scene)
      check(listed.has(kept), `list did not return ${show(kept)}.`)
      same(
        'The listed record of the removed election',
        listed.get(scene.election),
        undefined,
        'The record was removed.',
      )
    },
  },
  {
    name: 'list rejects an invalid limit and an invalid position',
    needs: ['list'],
    async run(scene) {
      for (const page of [{ limit: 0 }, { limit: -1 }, { limit: 1.5 }, { limit: 1_001 }, { after: '' }]) {
        const list = async () => scene.store.list?.(page, scene.call())
        const [answer] = await scene.within(`list(${show(page)})`, Promise.allSettled([list()]))
        const code = answer.status === 'rejected' ? (answer.reason as { code?: unknown }).code : undefined
        same(`The error code of list(${show(page)})`, code, 'INVALID_OPTION', 'The caller passed an invalid page.')
      }
    },
  },
  {
    name: 'look returns the record and at most the remaining time of its lease',
    needs: ['look'],
    async run(scene) {
      const look = async () => {
        const seen = await scene.within(
          'look',
          scene.store.look?.(scene.election, scene.call()) ?? fail('This case needs `look`.'),
        )
        same(
          'The record that look returned',
          seen.record,
          await scene.read(),
          'look must return the same record as read.',
        )
        return seen.remainingMs ?? fail('look returned no remainingMs, but this store judges expiry itself.')
      }
      same('The remaining time of an election without a record', await look(), 0, 'There is no lease.')
      const { record } = await scene.grant()
      const { leaseDurationMs } = record
      const atFirst = await look()
      check(atFirst > 0 && atFirst <= leaseDurationMs, `A new lease of ${leaseDurationMs} ms has ${atFirst} ms left.`)
      const passedMs = 50
      await scene.pass(passedMs)
      const mostMs = leaseDurationMs - passedMs
      const later = await look()
      check(
        later <= mostMs + (scene.exact ? 0 : 2),
        `After ${passedMs} ms, a lease of ${leaseDurationMs} ms has ${later} ms left.`,
      )
      if (scene.exact) check(later > mostMs - 1, `A lease of ${leaseDurationMs} ms has only ${later} ms left.`)
      granted('release', await scene.release(record), 'The claim names the current grant.')
      same('The remaining time after a release', await look(), 0, 'Nobody holds the lease.')
    },
  },
]

const stored = 'list must return records as they are stored.'

/** A name that every store keeps unchanged. */
function electionOf(scene: ConformanceScene, name: string): string {
  const id = Array.from(scene.election, (letter) => letter.codePointAt(0)?.toString(16)).join('')
  return `list-${id.slice(-32)}-${name}`
}

async function listAll(scene: ConformanceScene): Promise<Map<string, LeaseRecord>> {
  const found = new Map<string, LeaseRecord>()
  let after: string | undefined
  for (let pages = 0; ; pages++) {
    // Small pages first, to test paging. Then the largest, because earlier runs may have left many records.
    const limit = pages < 4 ? 2 : 1_000
    const answer = scene.store.list?.({ limit, after }, scene.call()) ?? fail('This case needs `list`.')
    const { records, next } = await scene.within(`list({ limit: ${limit} })`, answer)
    check(records.length <= limit, `A page with a limit of ${limit} has ${records.length} records.`)
    for (const record of records) found.set(record.election, record)
    if (next === undefined) return found
    check(next !== '' && next !== after, `A page continues at ${show(next)}, where it started.`)
    after = next
  }
}
