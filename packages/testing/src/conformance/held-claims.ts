import type { HeldClaim, LeaseRecord } from 'tenure'
import type { Case } from './case.ts'
import { check, granted, refused, same, type ConformanceScene } from './scene.ts'

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

/** A release may name a successor. */
export const successorCases: Case[] = [
  {
    name: 'a released record keeps its successor until the next grant',
    needs: ['terms', 'successors'],
    async run(scene) {
      const { record } = await scene.grant()
      const successor = 'the successor: häñdover 7'
      const outcome = await scene.release(record, { successor })
      const { record: freed } = granted('release', outcome, 'The claim names the current grant.')
      same('The successor', freed.successor, successor, 'The release named it.')
      await scene.expectStored(freed, 'A release is durable before the store answers.')
      // A store may leave the lease to the successor for a while, so the successor takes it.
      const { record: next } = await scene.grant({ holder: successor, afterTerm: record.term })
      same('The successor', next.successor ?? undefined, undefined, 'A grant clears the successor.')
      const renewed = granted('renew', await scene.renew(next), 'The claim names the current grant.')
      same('The successor', renewed.record.successor ?? undefined, undefined, 'A grant has cleared the successor.')
    },
  },
  {
    name: 'a release without a successor names nobody',
    needs: ['terms'],
    async run(scene) {
      const { record } = await scene.grant()
      const { record: freed } = granted('release', await scene.release(record), 'The claim names the current grant.')
      same('The successor', freed.successor ?? undefined, undefined, 'The release named nobody.')
    },
  },
]

/** The guarantees of `renew` and `release`: they change only the grant and version that they name. */
export const heldCases: Case[] = [
  ...(['renew', 'release'] as const).flatMap((verb) => [
    ...mismatches.map(({ field, change }): Case => ({
      name: `${verb} with ${field} is refused`,
      async run(scene) {
        const { record } = await scene.grant()
        refused(verb, await scene[verb](record, change(record)), `The claim names ${field}.`)
        await scene.expectStored(record, `A refused ${verb} writes nothing.`)
        const right = await scene[verb](record)
        granted(verb, right, 'The claim matches the record, and the refused call before must not have changed it.')
      },
    })),
    {
      name: `${verb} is refused when there is no record`,
      async run(scene) {
        const { record } = await scene.grant()
        const election = `${scene.election} of others`
        const refusal = refused(
          verb,
          await scene[verb](record, { election }),
          'Nothing was ever granted in this election.',
        )
        same('The record of the refusal', refusal.record, undefined, 'The election has no record.')
        same('read', await scene.read(election), undefined, `A refused ${verb} writes nothing.`)
        await scene.expectStored(record, 'The claim named another election.')
      },
    } satisfies Case,
    {
      name: `${verb} of a version that was renewed is refused and returns the record`,
      async run(scene) {
        const { record } = await scene.grant()
        const renewed = granted('renew', await scene.renew(record), 'The claim names the current grant.')
        const refusal = refused(verb, await scene[verb](record), 'A renewal has replaced that version.')
        if (!scene.store.terms) return
        same(
          'The record of the refusal',
          refusal.record,
          renewed.record,
          'The holder must see that it still holds the lease.',
        )
        same('highestTerm', refusal.highestTerm, record.term, 'It is the highest term granted so far.')
        await scene.expectStored(renewed.record, `A refused ${verb} writes nothing.`)
      },
    } satisfies Case,
    {
      name: `${verb} after a release is refused`,
      async run(scene) {
        const { record } = await scene.grant()
        const { record: freed } = granted('release', await scene.release(record), 'The claim names the current grant.')
        refused(verb, await scene[verb](record), 'The grant was released.')
        refused(
          verb,
          await scene[verb](freed),
          'The grant was released, so the claim is refused even with the newest version.',
        )
        await scene.expectStored(freed, `A refused ${verb} writes nothing.`)
        await scene.grant({ afterTerm: record.term }, 'The lease was released and must stay released.')
      },
    } satisfies Case,
    {
      name: `a late ${verb} does not change the successor`,
      async run(scene) {
        const { record } = await scene.grant()
        await scene.release(record)
        const successor = await scene.grant({ holder: record.holder, afterTerm: record.term })
        const refusal = refused(verb, await scene[verb](record), `Term ${successor.record.term} has begun.`)
        if (scene.store.terms) {
          same(
            'The record of the refusal',
            refusal.record,
            successor.record,
            'A refusal must return the successor’s record.',
          )
          same('highestTerm', refusal.highestTerm, successor.record.term, 'It is the highest term granted so far.')
        }
        await scene.expectStored(successor.record, 'The record belongs to the successor.')
        granted('renew', await scene.renew(successor.record), 'The successor holds the lease.')
      },
    } satisfies Case,
  ]),
  {
    name: 'a renewal keeps the grant and creates a new version',
    async run(scene) {
      const { record } = await scene.grant({ metadata: { zone: 'az-a' } })
      const renewed = granted('renew', await scene.renew(record), 'The claim names the current grant.')
      sameGrant(renewed.record, record)
      check(!renewed.record.released, 'The renewed record is marked as released.')
      check(renewed.record.version !== record.version, `The version is still "${record.version}" after a renewal.`)
      check(
        renewed.validForMs > 0 && renewed.validForMs <= record.leaseDurationMs,
        `validForMs is ${renewed.validForMs}, but ${record.leaseDurationMs} ms were requested.`,
      )
      await scene.expectStored(renewed.record, 'It must equal the record that the renewal returned.')
    },
  },
  {
    name: 'a record shows when it was acquired and when it was renewed',
    needs: ['terms'],
    async run(scene) {
      const { record } = await scene.grant()
      await scene.pass(scene.exact ? 1_000 : 20)
      const renewed = granted('renew', await scene.renew(record), 'The claim names the current grant.').record
      same('acquiredAt', renewed.acquiredAt, record.acquiredAt, 'acquiredAt belongs to the grant and must not change.')
      // A real clock may have a resolution of one second, and may be set during the test.
      if (!scene.exact) return
      const passedMs = renewed.renewedAt - record.renewedAt
      check(passedMs > 0, `renewedAt moved by ${passedMs} ms after 1000 ms, but must show the newest renewal.`)
    },
  },
  {
    name: 'a released record stays in the store with its term',
    needs: ['terms'],
    async run(scene) {
      const { record } = await scene.grant({ metadata: { zone: 'az-a' } })
      const freed = granted('release', await scene.release(record), 'The claim names the current grant.')
      sameGrant(freed.record, record)
      check(freed.record.released, 'The released record is not marked as released.')
      await scene.expectStored(freed.record, 'It must equal the record that the release returned.')
    },
  },
  {
    name: 'every write creates a version that no earlier write had',
    async run(scene) {
      const versions = new Set<string>()
      const note = (what: string, { version }: LeaseRecord) => {
        check(!versions.has(version), `${what} used version "${version}" again.`)
        versions.add(version)
      }
      let highest = 0
      for (let round = 0; round < 3; round++) {
        let { record } = await scene.grant({ afterTerm: highest })
        note('acquire', record)
        for (let renewal = 0; renewal < 3; renewal++) {
          record = granted('renew', await scene.renew(record), 'The claim names the current grant.').record
          note('renew', record)
        }
        note('release', granted('release', await scene.release(record), 'The claim names the current grant.').record)
        highest = record.term
      }
    },
  },
  {
    name: 'every write stores the write id of its claim',
    needs: ['terms'],
    async run(scene) {
      const { record } = await scene.grant({ writeId: 'of the grant' })
      same(
        'The write id',
        record.writeId,
        'of the grant',
        'A holder must be able to tell its own writes from those of a clone.',
      )
      await scene.expectStored(record, 'It must equal the record that the grant returned.')
      const renewal = await scene.renew(record, { writeId: 'of the renewal' })
      const renewed = granted('renew', renewal, 'The claim names the current grant.').record
      same('The write id', renewed.writeId, 'of the renewal', 'The write id must be that of the newest write.')
      await scene.expectStored(renewed, 'It must equal the record that the renewal returned.')
      const release = await scene.release(renewed, { writeId: 'of the release' })
      const freed = granted('release', release, 'The claim names the current grant.').record
      same('The write id', freed.writeId, 'of the release', 'The write id must be that of the newest write.')
    },
  },
  {
    name: 'only a renewal changes the checkpoint, and the checkpoint survives a handover',
    needs: ['terms'],
    async run(scene) {
      const { record } = await scene.grant()
      const set = await renewWith(scene, record, 'last run: tuesday')
      await scene.expectStored(set, 'A renewal must store the checkpoint before it is answered.')
      const kept = granted('renew', await scene.renew(set), 'The claim names the current grant.').record
      same('The checkpoint', kept.checkpoint, 'last run: tuesday', 'A renewal without a checkpoint keeps the old one.')
      const freed = granted(
        'release',
        await scene.release(kept, { checkpoint: 'not to be' }),
        'The claim names the current grant.',
      ).record
      same('The checkpoint', freed.checkpoint, 'last run: tuesday', 'A release keeps the checkpoint.')
      const next = (await scene.grant({ holder: 'bob', afterTerm: record.term })).record
      same('The checkpoint', next.checkpoint, 'last run: tuesday', 'The next leader gets the checkpoint.')
      same(
        'The checkpoint',
        (await renewWith(scene, next, '')).checkpoint,
        '',
        'An empty checkpoint replaces the old one too.',
      )
    },
  },
  {
    name: 'a checkpoint is stored unchanged',
    needs: ['terms'],
    async run(scene) {
      let { record } = await scene.grant()
      const odd = [
        'line one\nline two\r\n\ttabbed',
        'ünïcode 🦊 \u2028 “quotes” "plain" \\ \'single\'',
        ' ',
        '{"json":[1]}',
      ]
      for (const checkpoint of [...odd, 'x'.repeat(1_024)]) {
        record = await renewWith(scene, record, checkpoint)
        same('The checkpoint', record.checkpoint, checkpoint, 'A store must return it unchanged.')
        await scene.expectStored(record, 'It must equal the record that the renewal returned.')
      }
    },
  },
]

async function renewWith(scene: ConformanceScene, record: LeaseRecord, checkpoint: string): Promise<LeaseRecord> {
  return granted('renew', await scene.renew(record, { checkpoint }), 'The claim names the current grant.').record
}

function sameGrant(actual: LeaseRecord, expected: LeaseRecord): void {
  for (const field of ['election', 'holder', 'attempt', 'term', 'metadata', 'acquiredAt'] as const) {
    same(`The ${field}`, actual[field], expected[field], 'It belongs to the grant and must not change.')
  }
}
