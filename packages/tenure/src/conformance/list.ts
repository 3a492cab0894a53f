import { fail } from 'node:assert/strict'
import type { LeaseRecord } from '../lease-store.ts'
import type { Case } from './case.ts'
import { check, granted, same, show, type Scene } from './scene.ts'

/** What `list` and `look` promise where a store has them. */
export const listCases: Case[] = [
  {
    name: 'a listing shows every record, page by page, released ones too',
    needs: ['list'],
    async run(scene) {
      const records: LeaseRecord[] = []
      for (const name of ['a', 'b', 'c', 'd', 'e']) {
        records.push((await scene.grant({ election: electionOf(scene, name) })).record)
      }
      const [first, ...others] = records
      const freed = first && granted('release', await scene.release(first), 'It names the grant as it is.').record
      const listed = await listAll(scene)
      for (const record of [freed, ...others]) {
        same(`The record of ${record?.election} in the listing`, listed.get(record?.election ?? ''), record, stored)
      }
    },
  },
  {
    name: 'a listing does not show a record that was removed',
    needs: ['list', 'remove'],
    async run(scene) {
      const kept = electionOf(scene, 'kept')
      await scene.grant()
      await scene.grant({ election: kept })
      await scene.remove()
      const listed = await listAll(scene)
      check(listed.has(kept), `The listing lacks ${show(kept)}.`)
      same('The listing of what was removed', listed.get(scene.election), undefined, 'There is no record any more.')
    },
  },
  {
    name: 'a listing refuses a limit and a place that cannot be',
    needs: ['list'],
    async run(scene) {
      for (const page of [{ limit: 0 }, { limit: -1 }, { limit: 1.5 }, { limit: 1_001 }, { after: '' }]) {
        const list = async () => scene.store.list?.(page, scene.call())
        const [answer] = await scene.within(`list(${show(page)})`, Promise.allSettled([list()]))
        const code = answer.status === 'rejected' ? (answer.reason as { code?: unknown }).code : undefined
        same(`The code of the error of list(${show(page)})`, code, 'INVALID_OPTION', 'It is a mistake of the caller.')
      }
    },
  },
  {
    name: 'a look shows the record, and at most what is left of its lease',
    needs: ['look'],
    async run(scene) {
      const look = async () => {
        const seen = await scene.within('look', scene.store.look?.(scene.election, scene.call()) ?? fail('no look'))
        same('The record of a look', seen.record, await scene.read(), 'A look shows what a read shows.')
        return seen.remainingMs ?? fail('A store that judges expiry itself knows what is left.')
      }
      same('What is left where nothing was written', await look(), 0, 'There is no lease.')
      const { record } = await scene.grant()
      const { leaseDurationMs } = record
      const atFirst = await look()
      check(
        atFirst > 0 && atFirst <= leaseDurationMs,
        `Of a new lease of ${leaseDurationMs} ms ${atFirst} ms are left.`,
      )
      const passedMs = 50
      await scene.pass(passedMs)
      const mostMs = leaseDurationMs - passedMs
      const later = await look()
      check(
        later <= mostMs + (scene.exact ? 0 : 2),
        `${passedMs} ms later ${later} ms are left of ${leaseDurationMs} ms.`,
      )
      if (scene.exact) check(later > mostMs - 1, `Only ${later} ms are left of ${leaseDurationMs} ms.`)
      granted('release', await scene.release(record), 'It names the grant as it is.')
      same('What is left after a release', await look(), 0, 'Nobody holds the lease.')
    },
  },
]

const stored = 'A listing shows records as they are stored.'

/** A name that every store keeps as it is. */
function electionOf(scene: Scene, name: string): string {
  const id = Array.from(scene.election, (letter) => letter.codePointAt(0)?.toString(16)).join('')
  return `list-${id.slice(-32)}-${name}`
}

async function listAll(scene: Scene): Promise<Map<string, LeaseRecord>> {
  const found = new Map<string, LeaseRecord>()
  let after: string | undefined
  for (let pages = 0; ; pages++) {
    // Small pages at first; then as large as can be, because others may have left much behind.
    const limit = pages < 4 ? 2 : 1_000
    const answer = scene.store.list?.({ limit, after }, scene.call()) ?? fail('This case needs `list`.')
    const { records, next } = await scene.within(`list({ limit: ${limit} })`, answer)
    check(records.length <= limit, `A page of at most ${limit} has ${records.length} records.`)
    for (const record of records) found.set(record.election, record)
    if (next === undefined) return found
    check(next !== '' && next !== after, `A page says to go on at ${show(next)}, where it began.`)
    after = next
  }
}
