import { fail } from 'node:assert/strict'
import type { ForgetClaim, Forgotten, LeaseRecord } from 'tenure'
import { systemClock } from 'tenure/internal'
import type { Case } from './case.ts'
import { check, granted, same, show, unseen, type ConformanceScene } from './scene.ts'

/** The guarantees of `forget` in a store that has it. */
export const forgetCases: Case[] = [
  {
    name: 'forget with withTerm removes a released record and its term',
    needs: ['forget'],
    async run(scene) {
      const versions = new Set<string>()
      for (let round = 0; round < 2; round++) {
        const { record } = await scene.grant({}, 'The election was forgotten, so it is free.')
        same('The checkpoint', record.checkpoint, '', 'The checkpoint was forgotten with the record.')
        const renewal = await scene.renew(record, { checkpoint: 'done' })
        const renewed = granted('renew', renewal, 'The claim names the current grant.').record
        const freed = granted('release', await scene.release(renewed), 'The claim names the current grant.').record
        for (const { version } of [record, renewed, freed]) {
          check(!versions.has(version), `The version "${version}" was used again.`)
          versions.add(version)
        }
        forgotten(await forget(scene, freed, { withTerm: true }))
        await scene.expectStored(undefined, 'The record was forgotten.')
      }
    },
  },
  {
    name: 'forget keeps the highest term by default',
    needs: ['forget', 'lasting-terms'],
    async run(scene) {
      const freed = await release(scene)
      forgotten(await forget(scene, freed))
      await scene.expectStored(undefined, 'The record was forgotten.')
      const refusal = await scene.acquire()
      check(!refusal.ok, `acquire with afterTerm 0 was granted: ${show(refusal)}. The highest term is ${freed.term}.`)
      same('highestTerm', refusal.highestTerm, freed.term, 'The highest term outlives the record.')
      await scene.passUntil(scene.nowMs() + freed.leaseDurationMs)
      const { record } = await scene.grant(unseen(freed.term), 'The candidate has waited for a whole lease.')
      check(record.term > freed.term, `Term ${record.term} was granted after term ${freed.term}.`)
    },
  },
  {
    name: 'forget without withTerm fails when the term is stored in the record',
    needs: ['forget', 'terms-in-records'],
    async run(scene) {
      const freed = await release(scene)
      const [answer] = await Promise.allSettled([forget(scene, freed)])
      const code = answer.status === 'rejected' ? (answer.reason as { code?: unknown }).code : 'none'
      same(
        'The error code of forget',
        code,
        'INVALID_REQUEST',
        'By default forget must keep the highest term, and this store cannot.',
      )
      await scene.expectStored(freed, 'A forget that fails must remove nothing.')
    },
  },
  {
    name: 'forget of a held record is refused',
    needs: ['forget'],
    async run(scene) {
      const { record } = await scene.grant()
      const renewed = granted('renew', await scene.renew(record), 'The claim names the current grant.').record
      for (const one of [record, renewed]) refusedToForget(await forget(scene, one, { withTerm: true }), renewed)
      await scene.expectStored(renewed, 'A refused forget removes nothing.')
      granted('renew', await scene.renew(renewed), 'The lease is still held.')
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
    name: 'a late forget does not remove a newer record',
    needs: ['forget'],
    async run(scene) {
      const old = await release(scene)
      const { record: next } = await scene.grant({ afterTerm: old.term })
      refusedToForget(await forget(scene, old, { withTerm: true }), next)
      const freed = granted('release', await scene.release(next), 'The claim names the current grant.').record
      refusedToForget(await forget(scene, old, { withTerm: true }), freed)
      await scene.expectStored(freed, 'A refused forget removes nothing.')
      forgotten(await forget(scene, freed, { withTerm: true }))
      refusedToForget(await forget(scene, freed, { withTerm: true }), undefined)
    },
  },
  {
    name: 'forget never removes a concurrent grant',
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
        // A store that decides expiry itself also grants the claim after the removal, because the lease was released.
        const isOneOf = scene.store.expiry === 'own-clock' ? removal.ok || grant.ok : removal.ok !== grant.ok
        check(
          isOneOf,
          `forget answered ${show(removal)} and acquire answered ${show(grant)}, but exactly one of them may succeed.`,
        )
        const stored = await scene.read(election)
        same(
          'The stored record',
          stored,
          grant.ok ? grant.record : undefined,
          'A grant must stay, whichever call came first.',
        )
      }
    },
  },
]

async function release(scene: ConformanceScene, { election = scene.election } = {}): Promise<LeaseRecord> {
  const { leaseDurationMs } = scene
  const { record } = await scene.grant({ election, leaseDurationMs, attempt: systemClock.randomId() })
  const renewed = granted(
    'renew',
    await scene.renew(record, { checkpoint: 'done' }),
    'The claim names the current grant.',
  ).record
  return granted('release', await scene.release(renewed), 'The claim names the current grant.').record
}

function forget(
  scene: ConformanceScene,
  { election, version }: LeaseRecord,
  change: Partial<ForgetClaim> = {},
): Promise<Forgotten> {
  const answer = scene.store.forget?.({ election, version, ...change }, scene.call())
  return scene.within('forget', answer ?? fail('This case needs `forget`.'))
}

function forgotten(answer: Forgotten): void {
  check(answer.ok, `forget was refused: ${show(answer)}. The claim names the released record.`)
}

function refusedToForget(answer: Forgotten, expected: LeaseRecord | undefined): void {
  if (answer.ok) return fail('forget succeeded, but must be refused.')
  same('The record of the refusal', answer.record, expected, 'A refusal must return the current record.')
}
