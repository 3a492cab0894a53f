import type { Case } from './case.ts'
import { check, refused, same, show, unseen } from './scene.ts'

/** The guarantees when a record disappears without a release. */
export const vanishedCases: Case[] = [
  {
    name: 'acquire of a missing record is refused when the candidate has seen a term and has not waited',
    needs: ['observed'],
    async run(scene) {
      const outcome = await scene.acquire({ afterTerm: 4 })
      const why =
        'The candidate has seen term 4, so the record was removed, and the candidate named no expired version.'
      refused('acquire', outcome, why)
      same('read', await scene.read(), undefined, 'A refused claim writes nothing.')
      const { record } = await scene.grant(unseen(4), 'expiredVersion says that the candidate has waited.')
      check(record.term > 4, `The term is ${record.term}, but the candidate had already seen term 4.`)
    },
  },
  {
    name: 'acquire of a missing record is refused when expiredVersion names a version',
    needs: ['observed'],
    async run(scene) {
      const outcome = await scene.acquire({ afterTerm: 0, expiredVersion: 'a version' })
      refused('acquire', outcome, 'The candidate observed a version that no longer exists.')
      same('read', await scene.read(), undefined, 'A refused claim writes nothing.')
    },
  },
  {
    name: 'the highest term survives the removal of its record',
    needs: ['remove', 'terms', 'lasting-terms'],
    async run(scene) {
      const { record } = await scene.grant({ ...unseen(4), leaseDurationMs: scene.leaseDurationMs })
      await scene.remove()
      same('read', await scene.read(), undefined, 'The record was removed.')
      await scene.passUntil(scene.nowMs() + scene.leaseDurationMs)
      for (const claim of [{ afterTerm: 0 }, unseen(record.term - 1)]) {
        const outcome = await scene.acquire({ holder: 'bob', ...claim })
        const why = `Term ${record.term} was granted before, and the candidate has not seen it.`
        const refusal = refused('acquire', outcome, why)
        same('The record of the refusal', refusal.record, undefined, 'The record was removed.')
        same('highestTerm', refusal.highestTerm, record.term, 'The candidate learns the highest term from the refusal.')
      }
    },
  },
  {
    name: 'a lease lasts even when its record is removed',
    needs: ['remove', 'own-clock', 'terms', 'lasting-terms'],
    async run(scene) {
      const { leaseDurationMs } = scene
      const sentAtMs = scene.nowMs()
      const { record } = await scene.grant({ leaseDurationMs })
      const answeredAtMs = scene.nowMs()
      await scene.remove()
      const next = { holder: 'bob', afterTerm: record.term }
      const endsAtMs = sentAtMs + leaseDurationMs
      const why = 'A record that was removed without a release counts as held until its lease has expired.'
      if (!(await scene.stillHeld(endsAtMs, next, why))) return
      await scene.pass(scene.exact ? leaseDurationMs - 1 : leaseDurationMs * 0.75)
      const soonMs = scene.nowMs()
      const outcome = await scene.acquire(next)
      if (outcome.ok && scene.nowMs() >= endsAtMs) return
      const { retryAfterMs = 0 } = refused('acquire', outcome, why)
      const leftMs = answeredAtMs + leaseDurationMs - soonMs
      check(retryAfterMs <= leftMs, `retryAfterMs is ${show(retryAfterMs)}, but the lease lasts ${leftMs} ms more.`)
      await scene.passUntil(answeredAtMs + leaseDurationMs)
      await scene.grant(next, 'The lease of the removed record has expired.')
    },
  },
  {
    name: 'after a removal, a candidate gets a higher term than it has seen, and no version is reused',
    needs: ['remove', 'terms'],
    async run(scene) {
      const { record } = await scene.grant({ leaseDurationMs: scene.leaseDurationMs })
      await scene.remove()
      await scene.passUntil(scene.nowMs() + scene.leaseDurationMs)
      const next = await scene.grant(unseen(record.term), 'The lease of the removed record has expired.')
      check(next.record.term > record.term, `Term ${next.record.term} was granted after term ${record.term}.`)
      check(next.record.version !== record.version, `The version "${record.version}" was used again.`)
    },
  },
  {
    name: 'renew and release of a removed record are refused and do not recreate it',
    needs: ['remove', 'terms'],
    async run(scene) {
      const { record } = await scene.grant()
      await scene.remove()
      refused('renew', await scene.renew(record), 'The record was removed.')
      refused('release', await scene.release(record), 'The record was removed.')
      same('read', await scene.read(), undefined, 'A refused call writes nothing.')
    },
  },
]
