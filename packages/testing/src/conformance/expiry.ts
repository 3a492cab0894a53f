import { absentVersion } from 'tenure'
import type { Case } from './case.ts'
import { check, granted, refused, same, show, unseen } from './scene.ts'

/** How a lease expires: on the store's own clock, or when a candidate has observed one version for the whole lease. */
export const expiryCases: Case[] = [
  {
    name: 'a lease can be acquired once it has expired, and not earlier',
    needs: ['own-clock'],
    async run(scene) {
      const { leaseDurationMs } = scene
      const sentAtMs = scene.nowMs()
      const { record } = await scene.grant({ leaseDurationMs })
      const answeredAtMs = scene.nowMs()
      await scene.pass(scene.exact ? leaseDurationMs - 1 : leaseDurationMs * 0.75)
      const next = { holder: 'bob', afterTerm: record.term }
      if (!(await scene.stillHeld(sentAtMs + leaseDurationMs, next, 'The lease had not expired.'))) return
      await scene.passUntil(answeredAtMs + leaseDurationMs)
      const taken = await scene.grant(next, `The lease of ${leaseDurationMs} ms has expired.`)
      check(taken.record.term > record.term, `Term ${taken.record.term} was granted after term ${record.term}.`)
    },
  },
  {
    name: 'a repeated attempt does not extend its lease',
    needs: ['own-clock'],
    async run(scene) {
      const { leaseDurationMs } = scene
      const claim = scene.claim({ leaseDurationMs })
      const { record } = await scene.grant(claim)
      const answeredAtMs = scene.nowMs()
      await scene.pass(leaseDurationMs / 2)
      await scene.acquire(claim)
      await scene.passUntil(answeredAtMs + leaseDurationMs)
      await scene.grant({ afterTerm: record.term }, 'The lease counts from its first grant, not from a repeated call.')
    },
  },
  {
    name: 'acquire with an attempt whose lease expired is refused',
    needs: ['own-clock'],
    async run(scene) {
      const claim = scene.claim({ leaseDurationMs: scene.leaseDurationMs })
      const { record } = await scene.grant(claim)
      await scene.passUntil(scene.nowMs() + scene.leaseDurationMs)
      for (const afterTerm of [claim.afterTerm, record.term]) {
        const again = await scene.acquire({ ...claim, afterTerm })
        refused(`acquire after term ${afterTerm}`, again, 'An attempt whose lease expired cannot be used again.')
      }
    },
  },
  {
    name: 'a candidate that has not seen the highest term is refused, even when the lease has expired',
    needs: ['own-clock', 'terms'],
    async run(scene) {
      const { record } = await scene.grant({ leaseDurationMs: scene.leaseDurationMs })
      await scene.passUntil(scene.nowMs() + scene.leaseDurationMs)
      const late = await scene.acquire({ holder: 'bob', afterTerm: record.term - 1 })
      refused('acquire', late, `afterTerm is below ${record.term}, so the claim may be stale.`)
    },
  },
  {
    name: 'a refusal returns a retryAfterMs that does not exceed the remaining lease',
    needs: ['own-clock', 'terms'],
    async run(scene) {
      const { record } = await scene.grant({ leaseDurationMs: scene.leaseDurationMs })
      const endsAtMs = scene.nowMs() + scene.leaseDurationMs
      await scene.pass(scene.leaseDurationMs / 4)
      const sentAtMs = scene.nowMs()
      const outcome = await scene.acquire({ holder: 'bob', afterTerm: record.term })
      if (outcome.ok && scene.nowMs() >= endsAtMs) return
      const { retryAfterMs } = refused('acquire', outcome, 'The lease is held.')
      const leftMs = endsAtMs - sentAtMs
      check(
        retryAfterMs !== undefined && retryAfterMs > 0 && retryAfterMs <= leftMs,
        `retryAfterMs is ${show(retryAfterMs)}, but the lease lasts at most ${leftMs} ms more.`,
      )
    },
  },
  {
    name: 'a store that judges expiry itself ignores expiredVersion',
    needs: ['own-clock', 'terms'],
    async run(scene) {
      const { record } = await scene.grant()
      const outcome = await scene.acquire({ holder: 'bob', afterTerm: record.term, expiredVersion: record.version })
      refused('acquire', outcome, 'The lease has not expired on the store’s own clock.')
    },
  },
  {
    name: 'acquire with the same attempt returns its grant as long as renewals extend it',
    needs: ['own-clock'],
    async run(scene) {
      const claim = scene.claim({ leaseDurationMs: scene.leaseDurationMs })
      const { record } = await scene.grant(claim)
      await scene.pass(scene.leaseDurationMs / 2)
      const sentAtMs = scene.nowMs()
      const renewed = await scene.renew(record)
      if (!renewed.ok && !scene.exact) return
      await scene.pass(scene.leaseDurationMs * 0.75)
      const again = await scene.acquire(claim)
      if (!again.ok && scene.nowMs() - sentAtMs >= scene.leaseDurationMs) return
      granted('acquire', again, 'The attempt’s lease was renewed and has not expired.')
    },
  },
  {
    name: 'a renewal restarts the lease',
    needs: ['own-clock'],
    async run(scene) {
      const { leaseDurationMs } = scene
      const { record } = await scene.grant({ leaseDurationMs })
      await scene.pass(leaseDurationMs / 2)
      const sentAtMs = scene.nowMs()
      const renewed = await scene.renew(record)
      if (!renewed.ok && !scene.exact) return
      granted('renew', renewed, 'Half of the lease was left.')
      const answeredAtMs = scene.nowMs()
      await scene.pass(scene.exact ? leaseDurationMs - 1 : leaseDurationMs * 0.75)
      const next = { holder: 'bob', afterTerm: record.term }
      const why = 'The renewed lease had not expired.'
      if (!(await scene.stillHeld(sentAtMs + leaseDurationMs, next, why))) return
      await scene.passUntil(answeredAtMs + leaseDurationMs)
      await scene.grant(next, 'The renewed lease has expired.')
    },
  },
  {
    name: 'a renewal lasts for the duration that it requests, not for the duration of the grant',
    needs: ['own-clock'],
    async run(scene) {
      const { leaseDurationMs } = scene
      const { record } = await scene.grant()
      const renewed = granted(
        'renew',
        await scene.renew(record, { leaseDurationMs }),
        'The claim names the current grant.',
      )
      check(
        renewed.validForMs <= leaseDurationMs,
        `validForMs is ${renewed.validForMs}, but ${leaseDurationMs} ms were requested.`,
      )
      await scene.passUntil(scene.nowMs() + leaseDurationMs)
      const next = { holder: 'bob', afterTerm: record.term }
      if (!scene.under.keepsPromises) {
        await scene.grant(next, `The lease was renewed for only ${leaseDurationMs} ms.`)
        return
      }
      refused('acquire', await scene.acquire(next), `The grant promised ${record.leaseDurationMs} ms.`)
    },
  },
  {
    name: 'renew is refused after the lease has expired',
    needs: ['own-clock'],
    async run(scene) {
      const { record } = await scene.grant({ leaseDurationMs: scene.leaseDurationMs })
      await scene.passUntil(scene.nowMs() + scene.leaseDurationMs)
      refused('renew', await scene.renew(record), 'An expired lease cannot be renewed.')
      const stored = scene.store.terms ? await scene.read() : undefined
      // A store that decides expiry itself may mark an expired record as released.
      const { released, version } = stored?.released ? stored : record
      await scene.expectStored({ ...record, released, version }, 'A refused renewal writes nothing.')
    },
  },
  {
    name: 'acquire of a held lease is refused without expiredVersion',
    needs: ['observed'],
    async run(scene) {
      const { record } = await scene.grant({ leaseDurationMs: scene.leaseDurationMs })
      await scene.passUntil(scene.nowMs() + scene.leaseDurationMs)
      const outcome = await scene.acquire({ holder: 'bob', afterTerm: record.term })
      refused(
        'acquire',
        outcome,
        'The candidates judge expiry for this store, and this candidate named no expired version.',
      )
      await scene.expectStored(record, 'A refused claim writes nothing.')
    },
  },
  {
    name: 'acquire of a held lease is refused when expiredVersion is an older version',
    needs: ['observed'],
    async run(scene) {
      const { record } = await scene.grant()
      const renewed = granted('renew', await scene.renew(record), 'The claim names the current grant.')
      for (const expiredVersion of [record.version, 'no such version', absentVersion]) {
        const outcome = await scene.acquire({ holder: 'bob', afterTerm: record.term, expiredVersion })
        const why = `"${expiredVersion}" is not the record’s version, "${renewed.record.version}".`
        const refusal = refused('acquire', outcome, why)
        same('The record of the refusal', refusal.record, renewed.record, 'A refusal must return the current record.')
      }
      await scene.expectStored(renewed.record, 'A refused claim writes nothing.')
    },
  },
  {
    name: 'acquire of a held lease is granted when expiredVersion is the newest version',
    needs: ['observed'],
    async run(scene) {
      const { record } = await scene.grant({ holder: 'ada' })
      const renewed = granted('renew', await scene.renew(record), 'The claim names the current grant.')
      const claim = { holder: 'bob', afterTerm: record.term, expiredVersion: renewed.record.version }
      const taken = await scene.grant(claim, 'expiredVersion is the version of the record.')
      check(taken.record.term > record.term, `Term ${taken.record.term} was granted after term ${record.term}.`)
      same('The holder', taken.record.holder, 'bob', 'The lease was taken over.')
    },
  },
  {
    name: 'a candidate that has not seen the highest term is refused, even when expiredVersion is the newest version',
    needs: ['observed'],
    async run(scene) {
      const { record } = await scene.grant(unseen(4))
      const claim = { holder: 'bob', afterTerm: record.term - 1, expiredVersion: record.version }
      refused('acquire', await scene.acquire(claim), `afterTerm is below ${record.term}, so the claim may be stale.`)
    },
  },
]
