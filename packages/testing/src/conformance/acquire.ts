import type { Case } from './case.ts'
import { check, granted, refused, same, show, unseen, type ConformanceScene } from './scene.ts'

/** The guarantees of `acquire`, except for expiry. */
export const acquireCases: Case[] = [
  {
    name: 'a store declares who judges expiry and whether its terms last',
    async run({ store }) {
      const { expiry, terms } = store
      check(
        expiry === 'own-clock' || expiry === 'observed',
        `expiry is ${show(expiry)}, which is neither "own-clock" nor "observed".`,
      )
      check(typeof terms === 'boolean', `terms is ${show(terms)}, which is not a boolean.`)
    },
  },
  {
    name: 'an election that was never won has no record',
    async run(scene) {
      same('read', await scene.read(), undefined, 'Nothing was ever written for this election.')
    },
  },
  {
    name: 'the first grant returns a record that matches the claim',
    async run(scene) {
      const claim = scene.claim({ metadata: { zone: 'az-a' } })
      const { record, validForMs } = await scene.grant(claim)
      const { election, holder, attempt, term, released, metadata, checkpoint } = record
      same(
        'The grant',
        { election, holder, attempt, released, metadata, checkpoint },
        {
          election: claim.election,
          holder: claim.holder,
          attempt: claim.attempt,
          released: false,
          metadata: claim.metadata,
          checkpoint: '',
        },
        'The grant must repeat the claim, with an empty checkpoint.',
      )
      check(Number.isSafeInteger(term) && term >= 1, `The first term is ${term}, which is not a safe integer above 0.`)
      check(record.version.length > 0, 'The version is empty.')
      check(Number.isFinite(record.acquiredAt), `acquiredAt is ${show(record.acquiredAt)}, which is not a time.`)
      check(Number.isFinite(record.renewedAt), `renewedAt is ${show(record.renewedAt)}, which is not a time.`)
      checkValidity(validForMs, record.leaseDurationMs, claim.leaseDurationMs)
      await scene.expectStored(record, 'It must equal the record that the grant returned.')
    },
  },
  {
    name: 'acquire with the same attempt returns the same grant again',
    async run(scene) {
      const claim = scene.claim()
      const first = await scene.grant(claim)
      const again = await scene.grant(
        claim,
        'A repeated acquire with the attempt that holds the lease returns its grant again.',
      )
      same(
        'The repeated grant',
        again.record,
        first.record,
        'One attempt has one grant, with the same term and version.',
      )
      await scene.expectStored(first.record, 'Repeating an attempt writes nothing.')
    },
  },
  {
    name: 'acquire with the same attempt returns the renewed record after a renewal',
    async run(scene) {
      const claim = scene.claim()
      const { record } = await scene.grant(claim)
      const renewed = granted('renew', await scene.renew(record), 'The claim names the current grant.')
      const again = await scene.grant(claim, 'A renewal does not change who holds the lease.')
      same('The repeated grant', again.record, renewed.record, 'The repeated grant must have the newest version.')
    },
  },
  {
    name: 'acquire with the same attempt but another holder is refused',
    async run(scene) {
      const claim = scene.claim()
      const { record } = await scene.grant(claim)
      const other = await scene.acquire({ ...claim, holder: 'bob' })
      refused('acquire', other, `The grant belongs to "${record.holder}".`)
      await scene.expectStored(record, 'A refused claim writes nothing.')
    },
  },
  {
    name: 'acquire with an attempt that was released is refused',
    async run(scene) {
      const claim = scene.claim()
      const { record } = await scene.grant(claim)
      const freed = granted('release', await scene.release(record), 'The claim names the current grant.')
      for (const afterTerm of [claim.afterTerm, record.term]) {
        const again = await scene.acquire({ ...claim, afterTerm })
        refused(`acquire after term ${afterTerm}`, again, 'An attempt whose grant was released cannot be used again.')
      }
      await scene.expectStored(freed.record, 'A refused claim writes nothing.')
    },
  },
  {
    name: 'acquire with a new attempt of the same holder is refused while the lease is held',
    async run(scene) {
      const { record } = await scene.grant()
      const other = await scene.acquire({ holder: record.holder, afterTerm: record.term })
      refused('acquire', other, 'Another attempt holds the lease, and the same holder name does not give access to it.')
      await scene.expectStored(record, 'A refused claim writes nothing.')
    },
  },
  {
    name: 'a refusal returns the record and the highest term',
    needs: ['terms'],
    async run(scene) {
      const { record } = await scene.grant(unseen(6))
      const refusal = refused('acquire', await scene.acquire({ holder: 'bob' }), 'The lease is held.')
      same('The record of the refusal', refusal.record, record, 'A refusal must return the current record.')
      same('highestTerm', refusal.highestTerm, record.term, 'It is the highest term granted so far.')
    },
  },
  {
    name: 'a candidate that has not seen the highest term is refused, even when the lease was released',
    needs: ['terms'],
    async run(scene) {
      const { record } = await scene.grant(unseen(4))
      await scene.release(record)
      const late = await scene.acquire({ afterTerm: record.term - 1 })
      const refusal = refused('acquire', late, `afterTerm is below ${record.term}, so the claim may be stale.`)
      same('highestTerm', refusal.highestTerm, record.term, 'The candidate learns the highest term from the refusal.')
      await scene.grant({ afterTerm: record.term }, 'The candidate knows the highest term, and the lease is released.')
    },
  },
  {
    name: 'a new term is higher than every term that the candidate has seen',
    async run(scene) {
      const { record } = await scene.grant(unseen(41))
      check(record.term > 41, `The term is ${record.term}, but the candidate had already seen term 41.`)
    },
  },
  {
    name: 'a released lease can be acquired at once',
    async run(scene) {
      const { record } = await scene.grant()
      granted('release', await scene.release(record), 'The claim names the current grant.')
      await scene.grant({ holder: 'bob', afterTerm: record.term }, 'The lease was released.')
    },
  },
  {
    name: 'terms rise with every grant, even to the same holder',
    async run(scene) {
      let highest = 0
      for (const holder of ['ada', 'ada', 'bob', 'ada', 'bob', 'bob']) {
        const { record } = await scene.grant({ holder, afterTerm: highest })
        check(record.term > highest, `Term ${record.term} was granted after term ${highest}.`)
        highest = record.term
        granted('release', await scene.release(record), 'The claim names the current grant.')
      }
    },
  },
  {
    name: 'acquire grants no term beyond the last one',
    async run(scene) {
      const last = scene.lastTerm
      await expectExhausted(scene)
      await scene.expectStored(undefined, 'A claim that cannot be granted writes nothing.')
      const { mostTermsAhead } = scene.under
      if (mostTermsAhead !== undefined) return expectBound(scene, mostTermsAhead)
      const { record } = await scene.grant(unseen(last - 1), 'One term is left.')
      same('The term', record.term, last, 'Only the last term is left.')
      await scene.expectStored(record, 'The last term must be stored exactly.')
      await scene.release(record)
      await expectExhausted(scene)
    },
  },
  {
    name: 'holder and metadata are stored unchanged',
    async run(scene) {
      const metadata = {
        nested: { list: [1, -2.5, 1e21, null, true, 'text', [], {}], deep: { er: { still: 'here' } } },
        'a key with "quotes", \\ and ünïcode 🦊': 'line one\nline two\ttabbed',
        constructor: 'a word with a meaning',
        '': 'an empty key',
      }
      const holder = 'näme "with" \\ <odd> & characters 🦊'
      const { record } = await scene.grant({ holder, metadata })
      same('The grant’s metadata', record.metadata, metadata, 'A store must return it unchanged.')
      same('The grant’s holder', record.holder, holder, 'A store must return it unchanged.')
      await scene.expectStored(record, 'It must equal the record that the grant returned.')
    },
  },
  {
    name: 'a grant is never valid for longer than requested',
    async run(scene) {
      const claim = scene.claim()
      await scene.grant(claim)
      const again = await scene.grant({ ...claim, leaseDurationMs: 1_000 }, 'The attempt holds the lease.')
      checkValidity(again.validForMs, again.record.leaseDurationMs, 1_000)
    },
  },
]

/**
 * Checks a store that limits how far ahead `afterTerm` may be. In such a store, a single claim cannot reach the last
 * term.
 */
async function expectBound(scene: ConformanceScene, mostTermsAhead: number): Promise<void> {
  const error = await scene.acquire(unseen(mostTermsAhead + 1)).catch((thrown: unknown) => thrown)
  check(error instanceof Error, `acquire ${mostTermsAhead + 1} terms ahead was answered, but must fail.`)
  await scene.expectStored(undefined, 'A claim that cannot be granted writes nothing.')
  const { record } = await scene.grant(unseen(mostTermsAhead), 'The claim is exactly at the limit.')
  same('The term', record.term, mostTermsAhead + 1, 'The term must follow the afterTerm of the claim.')
  await scene.expectStored(record, 'The term must be stored exactly.')
}

async function expectExhausted(scene: ConformanceScene): Promise<void> {
  let outcome
  try {
    outcome = await scene.acquire(unseen(scene.lastTerm))
  } catch (error) {
    const { code } = error as { code?: unknown }
    check(code === 'TERM_EXHAUSTED', `acquire after the last term threw "${String(error)}", not TERM_EXHAUSTED.`)
    return
  }
  refused('acquire', outcome, 'The last term has been used.')
}

function checkValidity(validForMs: number, recordMs: number, askedMs: number): void {
  check(validForMs > 0 && validForMs <= askedMs, `validForMs is ${validForMs}, but ${askedMs} ms were requested.`)
  check(validForMs <= recordMs, `validForMs is ${validForMs}, but the record has a lease of ${recordMs} ms.`)
}
