import { expect, test } from 'vitest'
import { electionMetrics } from '../../src/telemetry/metrics.ts'
import { leaseMs, ShardFleet, takeoverMs } from '../shards/shard-fleet.ts'

/** A process of the fleet that is observed by its own metrics. */
function measured(fleet: ShardFleet, identity: string) {
  const metrics = electionMetrics({ clock: fleet.clock })
  const process = fleet.join(identity, { observer: metrics })
  const value = (sample: string) => {
    const [, found] = metrics.text().split(`\n${sample} `)
    return found === undefined ? undefined : Number(found.split('\n')[0])
  }
  const labels = (state?: string) => `{election="sessions"${state === undefined ? '' : `,state="${state}"`}}`
  return {
    process,
    metrics,
    owned: () => value(`tenure_shards_owned${labels()}`),
    moves: () => value(`tenure_shard_moves_total${labels()}`),
    members: () => value(`tenure_shard_members${labels()}`),
    shards: (state: string) => value(`tenure_shards${labels(state)}`),
    unownedS: (state: string) => value(`tenure_shard_unowned_seconds${labels(state)}`),
    lost: (reason: string) => value(`tenure_shard_losses_total{election="sessions",reason="${reason}"}`),
    isMember: () => value(`tenure_member${labels()}`),
  }
}

async function pair(shards = 4) {
  const fleet = new ShardFleet('memory', shards)
  const ada = measured(fleet, 'ada')
  await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
  const bob = measured(fleet, 'bob')
  await fleet.until(() => fleet.isSettled(), 4 * leaseMs)
  await fleet.advance(leaseMs)
  return { fleet, ada, bob }
}

test('each process shows the shards that it owns and gained, and only the coordinator shows the state of the group', async () => {
  const { ada, bob } = await pair()
  expect([ada.owned(), bob.owned()]).toEqual([2, 2])
  expect([ada.moves(), bob.moves()]).toEqual([4, 2])
  expect([ada.lost('handed-over'), bob.lost('handed-over')]).toEqual([2, 0])
  expect([ada.members(), bob.members()]).toEqual([2, undefined])
  expect([ada.shards('owned'), bob.shards('owned')]).toEqual([4, undefined])
  for (const state of ['revoked', 'free', 'unknown', 'orphaned']) {
    expect([ada.shards(state), ada.unownedS(state), bob.unownedS(state)]).toEqual([0, 0, undefined])
  }
  expect([ada.isMember(), bob.isMember()]).toEqual([1, 1])
})

test('the seconds without an owner grow from the loss of the owner until there is another one', async () => {
  const { fleet, ada, bob } = await pair()
  fleet.crash(bob.process)
  ada.process.fateOf = (verb, election) => ({ error: verb === 'acquire' && election.includes('.member.') })
  await fleet.until(() => ada.shards('orphaned') === 2, takeoverMs)
  const first = ada.unownedS('orphaned') ?? 0
  await fleet.clock.advance(500)
  expect(ada.unownedS('orphaned')).toBeCloseTo(first + 0.5, 1)
  ada.process.fateOf = () => ({})
  await fleet.until(() => ada.owned() === 4, takeoverMs)
  await fleet.advance(3_000)
  expect([ada.unownedS('orphaned'), ada.shards('orphaned'), ada.members()]).toEqual([0, 0, 1])
})

test('a coordinator that loses its lease shows the state of the group no longer, and owns nothing', async () => {
  const { fleet, ada, bob } = await pair()
  ada.process.isCut = true
  await fleet.advance(2 * leaseMs)
  expect([ada.owned(), ada.lost('seat-lost')]).toEqual([0, 2])
  expect([ada.shards('owned'), ada.unownedS('free'), ada.members(), ada.isMember()]).toEqual([
    undefined,
    undefined,
    undefined,
    0,
  ])
  await fleet.until(() => bob.shards('owned') === 4 && bob.owned() === 4, 3 * leaseMs)
})

test('errors of shards are counted with those of the election, and a process without shards has no metrics of shards', async () => {
  const { fleet, ada } = await pair()
  ada.process.isCut = true
  await fleet.advance(2 * leaseMs)
  expect(ada.metrics.text()).toMatch(/\ntenure_errors_total\{election="sessions",code="LEADERSHIP_LOST"\} [1-9]/)
  const other = electionMetrics().text()
  expect(other).toContain('# TYPE tenure_shards gauge\n')
  expect(other).not.toMatch(/^tenure_shard/m)
})
