import { fail } from 'node:assert/strict'
import { systemClock } from '../clock.ts'
import type { ForgetClaim, Forgotten, LeaseRecord } from '../lease-store.ts'
import type { Case } from './case.ts'
import { check, granted, same, show, unseen, type Scene } from './scene.ts'

/** What `forget` promises where a store has it. */
export const forgetCases: Case[] = [
  {
    name: 'a released record is forgotten, with its term',
    needs: ['forget'],
    async run(scene) {
      const versions = new Set<string>()
      for (let round = 0; round < 2; round++) {
        const { record } = await scene.grant({}, 'Nothing is left of the election.')
        same('The carry', record.carry, '', 'It was forgotten with the record.')
        const renewal = await scene.renew(record, { carry: 'done' })
        const renewed = granted('renew', renewal, 'It names the grant as it is.').record
        const freed = granted('release', await scene.release(renewed), 'It names the grant as it is.').record
        for (const { version } of [record, renewed, freed]) {
          check(!versions.has(version), `The version "${version}" has come back.`)
          versions.add(version)
        }
        forgotten(await forget(scene, freed, { withTerm: true }))
        await scene.expectStored(undefined, 'It was forgotten.')
      }
    },
  },
  {
    name: 'a record that is forgotten leaves its term',
    needs: ['forget', 'lasting-terms'],
    async run(scene) {
      const freed = await release(scene)
      forgotten(await forget(scene, freed))
      await scene.expectStored(undefined, 'It was forgotten.')
      const refusal = await scene.acquire()
      check(!refusal.ok, `acquire with afterTerm 0 was granted: ${show(refusal)}. The highest term is ${freed.term}.`)
      same('highestTerm', refusal.highestTerm, freed.term, 'It outlives the record.')
      await scene.passUntil(scene.nowMs() + freed.leaseDurationMs)
      const { record } = await scene.grant(unseen(freed.term), 'The candidate has waited.')
      check(record.term > freed.term, `Term ${record.term} follows on term ${freed.term}.`)
    },
  },
  {
    name: 'a record whose term would go with it is not forgotten without it',
    needs: ['forget', 'terms-in-records'],
    async run(scene) {
      const freed = await release(scene)
      const [answer] = await Promise.allSettled([forget(scene, freed)])
      const code = answer.status === 'rejected' ? (answer.reason as { code?: unknown }).code : 'none'
      same('The code of the error of forget', code, 'INVALID_REQUEST', 'By default the highest term stays.')
      await scene.expectStored(freed, 'A forget that fails removes nothing.')
    },
  },
  {
    name: 'a held record is not forgotten',
    needs: ['forget'],
    async run(scene) {
      const { record } = await scene.grant()
      const renewed = granted('renew', await scene.renew(record), 'It names the grant as it is.').record
      for (const one of [record, renewed]) refusedToForget(await forget(scene, one, { withTerm: true }), renewed)
      await scene.expectStored(renewed, 'A refused forget removes nothing.')
      granted('renew', await scene.renew(renewed), 'It is held as before.')
    },
  },
  {
    name: 'forget with another version is refused',
    needs: ['forget'],
    async run(scene) {
      const freed = await release(scene)
      refusedToForget(await forget(scene, { ...freed, version: `${freed.version}0` }, { withTerm: true }), freed)
      await scene.expectStored(freed, 'A refused forget removes nothing.')
    },
  },
  {
    name: 'a late forget does not touch what came after',
    needs: ['forget'],
    async run(scene) {
      const old = await release(scene)
      const { record: next } = await scene.grant({ afterTerm: old.term })
      refusedToForget(await forget(scene, old, { withTerm: true }), next)
      const freed = granted('release', await scene.release(next), 'It names the grant as it is.').record
      refusedToForget(await forget(scene, old, { withTerm: true }), freed)
      await scene.expectStored(freed, 'A refused forget removes nothing.')
      forgotten(await forget(scene, freed, { withTerm: true }))
      refusedToForget(await forget(scene, freed, { withTerm: true }), undefined)
    },
  },
  {
    name: 'a forget never removes a grant that comes at the same time',
    needs: ['forget'],
    async run(scene) {
      for (let round = 0; round < 5; round++) {
        const election = `${scene.election} ${round}`
        const freed = await release(scene, { election })
        const claim = scene.claim({ election, afterTerm: freed.term })
        const [removal, grant] = await Promise.all([
          forget(scene, freed, { withTerm: true }),
          scene.acquire(claim, scene.store),
        ])
        // A store that judges expiry itself grants it after the removal too: the lease was released.
        const isOneOf = scene.store.expiry === 'own-clock' ? removal.ok || grant.ok : removal.ok !== grant.ok
        check(isOneOf, `forget answered ${show(removal)}, and acquire ${show(grant)}.`)
        const stored = await scene.read(election)
        same('The stored record', stored, grant.ok ? grant.record : undefined, 'A grant stays, whichever was first.')
      }
    },
  },
]

async function release(scene: Scene, { election = scene.election } = {}): Promise<LeaseRecord> {
  const { leaseDurationMs } = scene
  const { record } = await scene.grant({ election, leaseDurationMs, attempt: systemClock.randomId() })
  const renewed = granted('renew', await scene.renew(record, { carry: 'done' }), 'It names the grant as it is.').record
  return granted('release', await scene.release(renewed), 'It names the grant as it is.').record
}

function forget(
  scene: Scene,
  { election, version }: LeaseRecord,
  change: Partial<ForgetClaim> = {},
): Promise<Forgotten> {
  const answer = scene.store.forget?.({ election, version, ...change }, scene.call())
  return scene.within('forget', answer ?? fail('This case needs `forget`.'))
}

function forgotten(answer: Forgotten): void {
  check(answer.ok, `forget was refused: ${show(answer)}. It names the release as it is.`)
}

function refusedToForget(answer: Forgotten, expected: LeaseRecord | undefined): void {
  if (answer.ok) return fail('forget was carried out, and must have been refused.')
  same('The refusal’s record', answer.record, expected, 'It must show the record as it is.')
}
