import type { AcquireClaim, LeaseRecord, LeaseStore, Outcome } from 'tenure'
import type { Case } from './case.ts'
import { check, granted, refused, same, show, type ConformanceScene } from './scene.ts'

const contenders = 16
// On a slow disk a refusal may take a hundredth of the time of a grant, so many rounds can pass without a grant.
const mostRounds = 2_000

/** The guarantees for concurrent calls, from one handle and from several. */
export const concurrencyCases: Case[] = [
  {
    name: 'exactly one of many contenders wins a new election',
    async run(scene) {
      await contend(scene, {})
    },
  },
  {
    name: 'exactly one of many contenders wins a released lease',
    async run(scene) {
      const { record } = await scene.grant()
      await scene.release(record)
      await contend(scene, { afterTerm: record.term })
    },
  },
  {
    name: 'exactly one of many contenders that name the expired version wins',
    needs: ['observed'],
    async run(scene) {
      const { record } = await scene.grant()
      await contend(scene, { afterTerm: record.term, expiredVersion: record.version })
    },
  },
  {
    name: 'one attempt sent many times concurrently gets one grant',
    async run(scene) {
      const claim = scene.claim()
      const outcomes = await Promise.all(Array.from({ length: contenders }, () => scene.acquire(claim)))
      const [first, ...others] = outcomes.map((outcome) =>
        granted('acquire', outcome, 'The attempt holds the lease, no matter which of its calls came first.'),
      )
      for (const other of others) same('A grant', other.record, first?.record, 'One attempt has one grant.')
    },
  },
  {
    name: 'exactly one of many renewals of the same version wins',
    async run(scene) {
      const { record } = await scene.grant()
      const outcomes = await settle(Array.from({ length: contenders }, () => scene.renew(record)))
      onlyWinner('renewals of the same version', outcomes)
    },
  },
  {
    name: 'exactly one of a renewal and a release of the same version wins',
    needs: ['terms'],
    async run(scene) {
      let afterTerm = 0
      for (let round = 0; round < contenders; round++) {
        const { record } = await scene.grant({ afterTerm })
        const outcomes = await settle([scene.renew(record), scene.release(record)])
        const winner = onlyWinner('calls, a renewal and a release of the same version,', outcomes)
        if (winner) await scene.expectStored(winner, 'It must equal the record that the winner got.')
        const stored = await scene.read()
        if (stored && !stored.released)
          granted('release', await scene.release(stored), 'The claim names the current grant.')
        afterTerm = record.term
      }
    },
  },
  {
    name: 'a lease is not granted while it is held, over many handovers',
    async run(scene) {
      const stores = await handles(scene)
      const terms: number[] = []
      let holding: number | undefined
      const campaign = async (store: LeaseStore) => {
        let afterTerm = 0
        for (let round = 0; round < mostRounds && terms.length < 24; round++) {
          const outcome = await scene.acquire({ afterTerm }, store)
          if (!outcome.ok) {
            afterTerm = Math.max(afterTerm, outcome.highestTerm)
            continue
          }
          const { record } = outcome
          check(holding === undefined, `Term ${record.term} was granted while term ${holding} was held.`)
          const last = terms.at(-1) ?? 0
          check(!scene.store.terms || record.term > last, `Term ${record.term} was granted after term ${last}.`)
          holding = record.term
          terms.push(record.term)
          const renewed = granted('renew', await scene.renew(record, {}, store), 'The lease is held.')
          holding = undefined
          granted('release', await scene.release(renewed.record, {}, store), 'The lease is held.')
          afterTerm = record.term
        }
      }
      await Promise.all(Array.from({ length: 8 }, (_, index) => campaign(stores[index % stores.length] ?? scene.store)))
      check(terms.length >= 8, `There were only ${terms.length} grants in ${8 * mostRounds} tries: ${show(terms)}.`)
    },
  },
  {
    name: 'a second handle reads and protects the same record',
    needs: ['open', 'terms'],
    async run(scene) {
      const { record } = await scene.grant()
      const other = await scene.open()
      const seen = await scene.within('read', other.read(scene.election, scene.call()))
      same('The record read through the second handle', seen, record, 'Both handles use the same data.')
      const stranger = await scene.acquire({ holder: 'bob', afterTerm: record.term }, other)
      refused('acquire through the second handle', stranger, 'The lease is held.')
      const renewed = granted(
        'renew through the second handle',
        await scene.renew(record, {}, other),
        'The claim matches the record.',
      )
      await scene.expectStored(renewed.record, 'Both handles use the same data.')
      refused('renew', await scene.renew(record), 'The second handle has replaced that version.')
      granted(
        'release through the second handle',
        await scene.release(renewed.record, {}, other),
        'The claim matches the record.',
      )
      await scene.grant({ afterTerm: record.term }, 'The second handle released the lease.')
    },
  },
  {
    name: 'a second handle cannot acquire a lease that the first handle holds',
    needs: ['open'],
    async run(scene) {
      const { record } = await scene.grant()
      const other = await scene.open()
      refused('acquire', await scene.acquire({ holder: 'bob', afterTerm: record.term }, other), 'The lease is held.')
      granted('release', await scene.release(record), 'The claim matches the record.')
      granted(
        'acquire',
        await scene.acquire({ holder: 'bob', afterTerm: record.term }, other),
        'The lease is released.',
      )
    },
  },
  {
    name: 'a late call on one handle does not change a successor on another handle, even with the same holder',
    needs: ['open'],
    async run(scene) {
      const { record } = await scene.grant({ leaseDurationMs: scene.leaseDurationMs })
      await scene.passUntil(scene.nowMs() + scene.leaseDurationMs)
      const other = await scene.open()
      const claim = { holder: record.holder, afterTerm: record.term, expiredVersion: record.version }
      const taken = granted('acquire', await scene.acquire(claim, other), 'The lease has expired.').record
      refused('renew', await scene.renew(record), 'Another attempt has taken over.')
      refused('release', await scene.release(record), 'Another attempt has taken over.')
      await scene.expectStored(taken, 'The record belongs to the successor.')
      granted('renew through the second handle', await scene.renew(taken, {}, other), 'The successor holds the lease.')
    },
  },
  {
    name: 'closing a second handle does not affect the first',
    needs: ['open'],
    async run(scene) {
      const { record } = await scene.grant()
      const other = await scene.open()
      await scene.within('close', Promise.resolve(other.close?.()))
      granted('renew', await scene.renew(record), 'Only the second handle was closed.')
    },
  },
]

async function handles(scene: ConformanceScene): Promise<LeaseStore[]> {
  return scene.under.open ? [scene.store, await scene.open()] : [scene.store]
}

async function contend(scene: ConformanceScene, claim: Partial<AcquireClaim>): Promise<void> {
  const stores = await handles(scene)
  const outcomes = await settle(
    Array.from({ length: contenders }, (_, index) =>
      scene.acquire({ holder: `contender ${index}`, ...claim }, stores[index % stores.length]),
    ),
  )
  const winner = onlyWinner('contenders', outcomes)
  if (!winner || !scene.store.terms) return
  await scene.expectStored(winner, 'It must equal the record that the winner got.')
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected' || outcome.value.ok) continue
    same('A loser’s record', outcome.value.record, winner, 'Only the winner’s grant can have prevented this one.')
    same('A loser’s highestTerm', outcome.value.highestTerm, winner.term, 'It is the highest term granted so far.')
  }
}

// A call that throws has an unknown outcome, so it may be the one that was applied.
async function settle(calls: Promise<Outcome>[]): Promise<PromiseSettledResult<Outcome>[]> {
  return Promise.allSettled(calls)
}

function onlyWinner(what: string, outcomes: PromiseSettledResult<Outcome>[]): LeaseRecord | undefined {
  const winners = outcomes.flatMap((outcome) =>
    outcome.status === 'fulfilled' && outcome.value.ok ? [outcome.value.record] : [],
  )
  const errors = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [String(outcome.reason)] : []))
  const count = `Of ${outcomes.length} ${what}, ${winners.length} won`
  check(winners.length <= 1, `${count}: ${tell(winners)}.`)
  check(winners.length === 1 || errors.length > 0, `${count}, and none of the others has an unknown outcome.`)
  check(errors.length < outcomes.length, `All ${outcomes.length} ${what} failed, the first with "${errors[0]}".`)
  return winners[0]
}

/**
 * Describes the winners in enough detail to diagnose a failure. The complete records of sixteen of them would fill a
 * screen.
 */
function tell(winners: readonly LeaseRecord[]): string {
  const each = (field: 'holder' | 'term' | 'version') => [...new Set(winners.map((record) => record[field]))].join(', ')
  return `holders ${each('holder')}; terms ${each('term')}; versions ${each('version')}`
}
