import type { HeldClaim, LeaseRecord } from '../lease-store.ts'
import type { Case } from './case.ts'
import { check, granted, refused, same, type Scene } from './scene.ts'

interface Mismatch {
  readonly field: string
  change(record: LeaseRecord): Partial<HeldClaim>
}

const mismatches: Mismatch[] = [
  { field: 'another holder', change: () => ({ holder: 'mallory' }) },
  { field: 'another attempt', change: () => ({ attempt: 'never granted' }) },
  { field: 'a higher term', change: ({ term }) => ({ term: term + 1 }) },
  { field: 'a lower term', change: ({ term }) => ({ term: term - 1 }) },
  { field: 'another version', change: ({ version }) => ({ version: `${version}0` }) },
]

/** What `renew` and `release` promise: they touch nothing but the grant and version they name. */
export const heldCases: Case[] = [
  ...(['renew', 'release'] as const).flatMap((verb) => [
    ...mismatches.map(({ field, change }): Case => ({
      name: `${verb} with ${field} is refused`,
      async run(scene) {
        const { record } = await scene.grant()
        refused(verb, await scene[verb](record, change(record)), `It names ${field}.`)
        await scene.expectStored(record, `A refused ${verb} writes nothing.`)
        const right = await scene[verb](record)
        granted(verb, right, 'Everything matches; the refused call before must not have touched the grant.')
      },
    })),
    {
      name: `${verb} where there is no record is refused`,
      async run(scene) {
        const { record } = await scene.grant()
        const election = `${scene.election} of others`
        const refusal = refused(verb, await scene[verb](record, { election }), 'Nothing was ever granted there.')
        same('The refusal’s record', refusal.record, undefined, 'There is none.')
        same('read', await scene.read(election), undefined, `A refused ${verb} writes nothing.`)
        await scene.expectStored(record, 'That was another election.')
      },
    } satisfies Case,
    {
      name: `${verb} of a version that was renewed since is refused and shows the record`,
      async run(scene) {
        const { record } = await scene.grant()
        const renewed = granted('renew', await scene.renew(record), 'It names the grant as it is.')
        const refusal = refused(verb, await scene[verb](record), 'A renewal has replaced that version.')
        if (!scene.store.terms) return
        same('The refusal’s record', refusal.record, renewed.record, 'The holder must see that it still holds it.')
        same('highestTerm', refusal.highestTerm, record.term, 'It is the highest term granted so far.')
        await scene.expectStored(renewed.record, `A refused ${verb} writes nothing.`)
      },
    } satisfies Case,
    {
      name: `${verb} after a release is refused`,
      async run(scene) {
        const { record } = await scene.grant()
        const { record: freed } = granted('release', await scene.release(record), 'It names the grant as it is.')
        refused(verb, await scene[verb](record), 'The grant was released.')
        refused(
          verb,
          await scene[verb](freed),
          'The grant was released, and naming the version of that changes nothing.',
        )
        await scene.expectStored(freed, `A refused ${verb} writes nothing.`)
        await scene.grant({ afterTerm: record.term }, 'The lease was released and must have stayed so.')
      },
    } satisfies Case,
    {
      name: `a late ${verb} does not touch the successor`,
      async run(scene) {
        const { record } = await scene.grant()
        await scene.release(record)
        const successor = await scene.grant({ holder: record.holder, afterTerm: record.term })
        const refusal = refused(verb, await scene[verb](record), `Term ${successor.record.term} has begun.`)
        if (scene.store.terms) {
          same('The refusal’s record', refusal.record, successor.record, 'It must show who holds the lease now.')
          same('highestTerm', refusal.highestTerm, successor.record.term, 'It is the highest term granted so far.')
        }
        await scene.expectStored(successor.record, 'It belongs to the successor.')
        granted('renew', await scene.renew(successor.record), 'The successor holds the lease.')
      },
    } satisfies Case,
  ]),
  {
    name: 'a renewal keeps the grant and makes a new version',
    async run(scene) {
      const { record } = await scene.grant({ metadata: { zone: 'az-a' } })
      const renewed = granted('renew', await scene.renew(record), 'It names the grant as it is.')
      sameGrant(renewed.record, record)
      check(!renewed.record.released, 'The renewed record says that it was released.')
      check(renewed.record.version !== record.version, `The version is still "${record.version}" after a renewal.`)
      check(
        renewed.validForMs > 0 && renewed.validForMs <= record.leaseDurationMs,
        `validForMs is ${renewed.validForMs}, but ${record.leaseDurationMs} ms were asked for.`,
      )
      await scene.expectStored(renewed.record, 'It must be what the renewal showed.')
    },
  },
  {
    name: 'a record shows when it was acquired and when it was renewed',
    needs: ['terms'],
    async run(scene) {
      const { record } = await scene.grant()
      await scene.pass(scene.exact ? 1_000 : 20)
      const renewed = granted('renew', await scene.renew(record), 'It names the grant as it is.').record
      same('acquiredAt', renewed.acquiredAt, record.acquiredAt, 'It belongs to the grant.')
      // Real clocks may count in seconds, and may be set.
      if (!scene.exact) return
      const passedMs = renewed.renewedAt - record.renewedAt
      check(passedMs > 0, `renewedAt is ${passedMs} ms later after 1000 ms, but it must show the newest renewal.`)
    },
  },
  {
    name: 'a released record stays, with its term',
    needs: ['terms'],
    async run(scene) {
      const { record } = await scene.grant({ metadata: { zone: 'az-a' } })
      const freed = granted('release', await scene.release(record), 'It names the grant as it is.')
      sameGrant(freed.record, record)
      check(freed.record.released, 'The released record does not say so.')
      await scene.expectStored(freed.record, 'It must be what the release showed.')
    },
  },
  {
    name: 'every write makes a version that no earlier write had',
    async run(scene) {
      const versions = new Set<string>()
      const note = (what: string, { version }: LeaseRecord) => {
        check(!versions.has(version), `${what} made version "${version}" again.`)
        versions.add(version)
      }
      let highest = 0
      for (let round = 0; round < 3; round++) {
        let { record } = await scene.grant({ afterTerm: highest })
        note('acquire', record)
        for (let renewal = 0; renewal < 3; renewal++) {
          record = granted('renew', await scene.renew(record), 'It names the grant as it is.').record
          note('renew', record)
        }
        note('release', granted('release', await scene.release(record), 'It names the grant as it is.').record)
        highest = record.term
      }
    },
  },
  {
    name: 'every write shows the mark of its claim',
    needs: ['terms'],
    async run(scene) {
      const { record } = await scene.grant({ mark: 'of the grant' })
      same('The mark', record.mark, 'of the grant', 'A holder must know its own writes from those of a clone.')
      await scene.expectStored(record, 'It must be what the grant showed.')
      const renewal = await scene.renew(record, { mark: 'of the renewal' })
      const renewed = granted('renew', renewal, 'It names the grant as it is.').record
      same('The mark', renewed.mark, 'of the renewal', 'It belongs to the newest write.')
      await scene.expectStored(renewed, 'It must be what the renewal showed.')
      const release = await scene.release(renewed, { mark: 'of the release' })
      const freed = granted('release', release, 'It names the grant as it is.').record
      same('The mark', freed.mark, 'of the release', 'It belongs to the newest write.')
    },
  },
  {
    name: 'only a renewal changes the carry, and it survives the hand-over',
    needs: ['terms'],
    async run(scene) {
      const { record } = await scene.grant()
      const set = await renewWith(scene, record, 'last run: tuesday')
      await scene.expectStored(set, 'The carry is durable before the renewal is answered.')
      const kept = granted('renew', await scene.renew(set), 'It names the grant as it is.').record
      same('The carry', kept.carry, 'last run: tuesday', 'A renewal without a carry leaves it as it is.')
      const freed = granted('release', await scene.release(kept, { carry: 'not to be' }), 'It names the grant.').record
      same('The carry', freed.carry, 'last run: tuesday', 'A release leaves it as it is.')
      const next = (await scene.grant({ holder: 'bob', afterTerm: record.term })).record
      same('The carry', next.carry, 'last run: tuesday', 'The next leader gets it.')
      same('The carry', (await renewWith(scene, next, '')).carry, '', 'An empty carry replaces it too.')
    },
  },
  {
    name: 'a carry comes back as it was given',
    needs: ['terms'],
    async run(scene) {
      let { record } = await scene.grant()
      const odd = [
        'line one\nline two\r\n\ttabbed',
        'ünïcode 🦊 \u2028 “quotes” "plain" \\ \'single\'',
        ' ',
        '{"json":[1]}',
      ]
      for (const carry of [...odd, 'x'.repeat(1_024)]) {
        record = await renewWith(scene, record, carry)
        same('The carry', record.carry, carry, 'A store changes nothing in it.')
        await scene.expectStored(record, 'It must be what the renewal showed.')
      }
    },
  },
]

async function renewWith(scene: Scene, record: LeaseRecord, carry: string): Promise<LeaseRecord> {
  return granted('renew', await scene.renew(record, { carry }), 'It names the grant as it is.').record
}

function sameGrant(actual: LeaseRecord, expected: LeaseRecord): void {
  for (const field of ['election', 'holder', 'attempt', 'term', 'metadata', 'acquiredAt'] as const) {
    same(`The ${field}`, actual[field], expected[field], 'It belongs to the grant and must not change.')
  }
}
