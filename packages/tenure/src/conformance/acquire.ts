import type { Case } from './case.ts'
import { check, granted, refused, same, show, unseen, type Scene } from './scene.ts'

/** What `acquire` promises, time aside. */
export const acquireCases: Case[] = [
  {
    name: 'a store says who judges expiry, and whether its terms last',
    async run({ store }) {
      const { expiry, terms } = store
      check(expiry === 'own-clock' || expiry === 'observed', `expiry is ${show(expiry)}.`)
      check(typeof terms === 'boolean', `terms is ${show(terms)}.`)
    },
  },
  {
    name: 'an election that nobody ever won has no record',
    async run(scene) {
      same('read', await scene.read(), undefined, 'Nothing was ever written for this election.')
    },
  },
  {
    name: 'a first grant shows who was granted what',
    async run(scene) {
      const claim = scene.claim({ metadata: { zone: 'az-a' } })
      const { record, validForMs } = await scene.grant(claim)
      const { election, holder, attempt, term, released, metadata, carry } = record
      same(
        'The grant',
        { election, holder, attempt, released, metadata, carry },
        {
          election: claim.election,
          holder: claim.holder,
          attempt: claim.attempt,
          released: false,
          metadata: claim.metadata,
          carry: '',
        },
        'It must show the claim, and an empty carry at first.',
      )
      check(Number.isSafeInteger(term) && term >= 1, `The first term is ${term}, not a safe integer above 0.`)
      check(record.version.length > 0, 'The version is empty.')
      check(Number.isFinite(record.acquiredAt), `acquiredAt is ${show(record.acquiredAt)}, not a time.`)
      check(Number.isFinite(record.renewedAt), `renewedAt is ${show(record.renewedAt)}, not a time.`)
      checkValidity(validForMs, record.leaseDurationMs, claim.leaseDurationMs)
      await scene.expectStored(record, 'It must be what the grant showed.')
    },
  },
  {
    name: 'the same attempt gets the same grant again',
    async run(scene) {
      const claim = scene.claim()
      const first = await scene.grant(claim)
      const again = await scene.grant(
        claim,
        'A repeated call with the attempt that holds the lease gets its grant again.',
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
    name: 'the same attempt gets its grant as it is after a renewal',
    async run(scene) {
      const claim = scene.claim()
      const { record } = await scene.grant(claim)
      const renewed = granted('renew', await scene.renew(record), 'It names the grant as it is.')
      const again = await scene.grant(claim, 'A renewal changes nothing about who holds the lease.')
      same('The repeated grant', again.record, renewed.record, 'It must show the newest version.')
    },
  },
  {
    name: 'the same attempt under another holder gets nothing',
    async run(scene) {
      const claim = scene.claim()
      const { record } = await scene.grant(claim)
      const other = await scene.acquire({ ...claim, holder: 'bob' })
      refused('acquire', other, `The grant belongs to "${record.holder}".`)
      await scene.expectStored(record, 'A refused claim writes nothing.')
    },
  },
  {
    name: 'the same attempt gets nothing after its release',
    async run(scene) {
      const claim = scene.claim()
      const { record } = await scene.grant(claim)
      const freed = granted('release', await scene.release(record), 'It names the grant as it is.')
      for (const afterTerm of [claim.afterTerm, record.term]) {
        const again = await scene.acquire({ ...claim, afterTerm })
        refused(`acquire after term ${afterTerm}`, again, 'An attempt whose grant was released is spent.')
      }
      await scene.expectStored(freed.record, 'A refused claim writes nothing.')
    },
  },
  {
    name: 'another attempt of the same holder is a stranger',
    async run(scene) {
      const { record } = await scene.grant()
      const other = await scene.acquire({ holder: record.holder, afterTerm: record.term })
      refused('acquire', other, 'Another attempt holds the lease; the same name gives no right to it.')
      await scene.expectStored(record, 'A refused claim writes nothing.')
    },
  },
  {
    name: 'a refusal shows the record and the highest term',
    needs: ['terms'],
    async run(scene) {
      const { record } = await scene.grant(unseen(6))
      const refusal = refused('acquire', await scene.acquire({ holder: 'bob' }), 'The lease is held.')
      same('The refusal’s record', refusal.record, record, 'It must show who holds the lease.')
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
      const refusal = refused('acquire', late, `afterTerm is below ${record.term}: the claim may be a late one.`)
      same('highestTerm', refusal.highestTerm, record.term, 'The candidate learns it from the refusal.')
      await scene.grant({ afterTerm: record.term }, 'The candidate knows the highest term and the lease is released.')
    },
  },
  {
    name: 'a new term is above every term the candidate has seen',
    async run(scene) {
      const { record } = await scene.grant(unseen(41))
      check(record.term > 41, `The term is ${record.term}, but the candidate had seen 41 already.`)
    },
  },
  {
    name: 'a released lease is free at once',
    async run(scene) {
      const { record } = await scene.grant()
      granted('release', await scene.release(record), 'It names the grant as it is.')
      await scene.grant({ holder: 'bob', afterTerm: record.term }, 'The lease was released.')
    },
  },
  {
    name: 'terms rise with every grant, to the same holder too',
    async run(scene) {
      let highest = 0
      for (const holder of ['ada', 'ada', 'bob', 'ada', 'bob', 'bob']) {
        const { record } = await scene.grant({ holder, afterTerm: highest })
        check(record.term > highest, `Term ${record.term} was granted after term ${highest}.`)
        highest = record.term
        granted('release', await scene.release(record), 'It names the grant as it is.')
      }
    },
  },
  {
    name: 'no term goes beyond the last one',
    async run(scene) {
      const last = scene.lastTerm
      await expectExhausted(scene)
      await scene.expectStored(undefined, 'A claim that cannot be granted writes nothing.')
      const { mostTermsAhead } = scene.under
      if (mostTermsAhead !== undefined) return expectBound(scene, mostTermsAhead)
      const { record } = await scene.grant(unseen(last - 1), 'There is one term left.')
      same('The term', record.term, last, 'It is the one term left.')
      await scene.expectStored(record, 'The last term must be kept to the digit.')
      await scene.release(record)
      await expectExhausted(scene)
    },
  },
  {
    name: 'holder and metadata come back as they were given',
    async run(scene) {
      const metadata = {
        nested: { list: [1, -2.5, 1e21, null, true, 'text', [], {}], deep: { er: { still: 'here' } } },
        'a key with "quotes", \\ and ünïcode 🦊': 'line one\nline two\ttabbed',
        constructor: 'a word with a meaning',
        '': 'an empty key',
      }
      const holder = 'näme "with" \\ <odd> & characters 🦊'
      const { record } = await scene.grant({ holder, metadata })
      same('The grant’s metadata', record.metadata, metadata, 'A store changes nothing in it.')
      same('The grant’s holder', record.holder, holder, 'A store changes nothing in it.')
      await scene.expectStored(record, 'It must be what the grant showed.')
    },
  },
  {
    name: 'a grant is never valid for longer than was asked for',
    async run(scene) {
      const claim = scene.claim()
      await scene.grant(claim)
      const again = await scene.grant({ ...claim, leaseDurationMs: 1_000 }, 'The attempt holds the lease.')
      checkValidity(again.validForMs, again.record.leaseDurationMs, 1_000)
    },
  },
]

/** The last term is out of reach in a store with such a bound, one claim at a time. */
async function expectBound(scene: Scene, mostTermsAhead: number): Promise<void> {
  const error = await scene.acquire(unseen(mostTermsAhead + 1)).catch((thrown: unknown) => thrown)
  check(error instanceof Error, `acquire ${mostTermsAhead + 1} terms ahead was answered, and must be an error.`)
  await scene.expectStored(undefined, 'A claim that cannot be granted writes nothing.')
  const { record } = await scene.grant(unseen(mostTermsAhead), 'It is as far ahead as it may be.')
  same('The term', record.term, mostTermsAhead + 1, 'It is the one after the claim’s.')
  await scene.expectStored(record, 'The term must be kept to the digit.')
}

async function expectExhausted(scene: Scene): Promise<void> {
  let outcome
  try {
    outcome = await scene.acquire(unseen(scene.lastTerm))
  } catch (error) {
    const { code } = error as { code?: unknown }
    check(code === 'TERM_EXHAUSTED', `acquire after the last term threw "${String(error)}", not TERM_EXHAUSTED.`)
    return
  }
  refused('acquire', outcome, 'The last term was used up.')
}

function checkValidity(validForMs: number, recordMs: number, askedMs: number): void {
  check(validForMs > 0 && validForMs <= askedMs, `validForMs is ${validForMs}, but ${askedMs} ms were asked for.`)
  check(validForMs <= recordMs, `validForMs is ${validForMs}, but the record says ${recordMs} ms.`)
}
