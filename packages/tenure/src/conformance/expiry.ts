import { absentVersion } from '../lease-store.ts'
import type { Case } from './case.ts'
import { check, granted, refused, same, show, unseen } from './scene.ts'

/** How a lease runs out: judged by the store, or by a candidate that watched one version. */
export const expiryCases: Case[] = [
  {
    name: 'a lease that ran out is free, and not a moment sooner',
    needs: ['own-clock'],
    async run(scene) {
      const { leaseDurationMs } = scene
      const sentAtMs = scene.nowMs()
      const { record } = await scene.grant({ leaseDurationMs })
      const answeredAtMs = scene.nowMs()
      await scene.pass(scene.exact ? leaseDurationMs - 1 : leaseDurationMs * 0.75)
      const next = { holder: 'bob', afterTerm: record.term }
      if (!(await scene.stillHeld(sentAtMs + leaseDurationMs, next, 'The lease had not run out.'))) return
      await scene.passUntil(answeredAtMs + leaseDurationMs)
      const taken = await scene.grant(next, `The lease of ${leaseDurationMs} ms ran out.`)
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
    name: 'the same attempt gets nothing after its lease ran out',
    needs: ['own-clock'],
    async run(scene) {
      const claim = scene.claim({ leaseDurationMs: scene.leaseDurationMs })
      const { record } = await scene.grant(claim)
      await scene.passUntil(scene.nowMs() + scene.leaseDurationMs)
      for (const afterTerm of [claim.afterTerm, record.term]) {
        const again = await scene.acquire({ ...claim, afterTerm })
        refused(`acquire after term ${afterTerm}`, again, 'An attempt whose lease ran out is spent.')
      }
    },
  },
  {
    name: 'a candidate that has not seen the highest term is refused, even when the lease ran out',
    needs: ['own-clock', 'terms'],
    async run(scene) {
      const { record } = await scene.grant({ leaseDurationMs: scene.leaseDurationMs })
      await scene.passUntil(scene.nowMs() + scene.leaseDurationMs)
      const late = await scene.acquire({ holder: 'bob', afterTerm: record.term - 1 })
      refused('acquire', late, `afterTerm is below ${record.term}: the claim may be a late one.`)
    },
  },
  {
    name: 'a refusal says at most the time that the lease still lasts',
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
    name: 'a version that is said to have run out frees nothing that the store judges itself',
    needs: ['own-clock', 'terms'],
    async run(scene) {
      const { record } = await scene.grant()
      const outcome = await scene.acquire({ holder: 'bob', afterTerm: record.term, expiredVersion: record.version })
      refused('acquire', outcome, 'On the store’s own clock the lease has not run out.')
    },
  },
  {
    name: 'the same attempt gets its grant as long as renewals keep it',
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
      granted('acquire', again, 'The attempt’s lease was renewed and has not run out.')
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
      const why = 'The renewed lease had not run out.'
      if (!(await scene.stillHeld(sentAtMs + leaseDurationMs, next, why))) return
      await scene.passUntil(answeredAtMs + leaseDurationMs)
      await scene.grant(next, 'The renewed lease ran out.')
    },
  },
  {
    name: 'a renewal lasts as long as it asked for, not as long as the grant',
    needs: ['own-clock'],
    async run(scene) {
      const { leaseDurationMs } = scene
      const { record } = await scene.grant()
      const renewed = granted('renew', await scene.renew(record, { leaseDurationMs }), 'It names the grant as it is.')
      check(
        renewed.validForMs <= leaseDurationMs,
        `validForMs is ${renewed.validForMs}, but ${leaseDurationMs} ms were asked for.`,
      )
      await scene.passUntil(scene.nowMs() + leaseDurationMs)
      const next = { holder: 'bob', afterTerm: record.term }
      if (!scene.under.keepsPromises) {
        await scene.grant(next, `The lease was renewed for ${leaseDurationMs} ms only.`)
        return
      }
      refused('acquire', await scene.acquire(next), `The grant had promised ${record.leaseDurationMs} ms.`)
    },
  },
  {
    name: 'a renewal after the lease ran out is refused',
    needs: ['own-clock'],
    async run(scene) {
      const { record } = await scene.grant({ leaseDurationMs: scene.leaseDurationMs })
      await scene.passUntil(scene.nowMs() + scene.leaseDurationMs)
      refused('renew', await scene.renew(record), 'A lease that ran out is not revived.')
      const stored = scene.store.terms ? await scene.read() : undefined
      // A store that judges expiry may show what it has judged.
      const { released, version } = stored?.released ? stored : record
      await scene.expectStored({ ...record, released, version }, 'A refused renewal writes nothing.')
    },
  },
  {
    name: 'a held lease is not free to a candidate that watched nothing',
    needs: ['observed'],
    async run(scene) {
      const { record } = await scene.grant({ leaseDurationMs: scene.leaseDurationMs })
      await scene.passUntil(scene.nowMs() + scene.leaseDurationMs)
      const outcome = await scene.acquire({ holder: 'bob', afterTerm: record.term })
      refused('acquire', outcome, 'This store leaves expiry to the candidates, and this one named no expired version.')
      await scene.expectStored(record, 'A refused claim writes nothing.')
    },
  },
  {
    name: 'a held lease is not free to a candidate that watched an older version',
    needs: ['observed'],
    async run(scene) {
      const { record } = await scene.grant()
      const renewed = granted('renew', await scene.renew(record), 'It names the grant as it is.')
      for (const expiredVersion of [record.version, 'no such version', absentVersion]) {
        const outcome = await scene.acquire({ holder: 'bob', afterTerm: record.term, expiredVersion })
        const why = `"${expiredVersion}" is not the record’s version, "${renewed.record.version}".`
        const refusal = refused('acquire', outcome, why)
        same('The refusal’s record', refusal.record, renewed.record, 'It must show who holds the lease.')
      }
      await scene.expectStored(renewed.record, 'A refused claim writes nothing.')
    },
  },
  {
    name: 'a held lease is free to a candidate that watched its newest version run out',
    needs: ['observed'],
    async run(scene) {
      const { record } = await scene.grant({ holder: 'ada' })
      const renewed = granted('renew', await scene.renew(record), 'It names the grant as it is.')
      const claim = { holder: 'bob', afterTerm: record.term, expiredVersion: renewed.record.version }
      const taken = await scene.grant(claim, 'expiredVersion is exactly the record’s version.')
      check(taken.record.term > record.term, `Term ${taken.record.term} was granted after term ${record.term}.`)
      same('The holder', taken.record.holder, 'bob', 'The lease was taken over.')
    },
  },
  {
    name: 'a candidate that has not seen the highest term is refused, even when it watched the version run out',
    needs: ['observed'],
    async run(scene) {
      const { record } = await scene.grant(unseen(4))
      const claim = { holder: 'bob', afterTerm: record.term - 1, expiredVersion: record.version }
      refused('acquire', await scene.acquire(claim), `afterTerm is below ${record.term}: the claim may be a late one.`)
    },
  },
]
