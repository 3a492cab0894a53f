import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { buildMutant, type Edit } from '../mutants/mutant.ts'
import { findViolations } from './check-logs.ts'
import { cleanDirectory, Fleet, tightTimings, type FleetOptions } from './fleet.ts'

const { leaseDurationMs } = tightTimings
// With a slow disk, renewals with delayed replies must not fail.
const patientTimings = { leaseDurationMs: 3_000, renewIntervalMs: 600, renewDeadlineMs: 2_790, retryIntervalMs: 400 }

/** Each scenario takes a fleet of three with a new leader into one trap. */
const scenarios = {
  async 'replies are slow, then calls hang'(fleet: Fleet) {
    const leader = await fleet.nextLeader(0)
    await leader.tell('delayReplies', 600)
    await leader.until('renewed', 2)
    await leader.tell('hold', 2 * patientTimings.leaseDurationMs)
    await fleet.nextLeader(1)
    await delay(patientTimings.renewIntervalMs)
  },
  async 'a release arrives late'(fleet: Fleet) {
    const leader = await fleet.nextLeader(0)
    await leader.tell('hold', 1.9 * leaseDurationMs)
    await leader.tell('stepDown', 10 * leaseDurationMs)
    await fleet.nextLeader(1)
    await delay(1.2 * leaseDurationMs)
  },
  async 'the liveness socket is deleted'(fleet: Fleet) {
    const leader = await fleet.nextLeader(0)
    await fleet.loseSocket()
    const standby = fleet.members.find((member) => member !== leader)
    await standby?.kill()
    await standby?.start()
    await delay(leaseDurationMs)
  },
  async 'the leader is paused'(fleet: Fleet) {
    // Pause repeatedly. A pause between a query and its answer proves nothing.
    for (let pauses = 0, term = 0; pauses < 3; pauses++) {
      const leader = await fleet.nextLeader(term)
      term = leader.term
      // A process that is paused while it holds the file lock blocks all others, so the scenario continues without a
      // successor.
      await leader.pause(fleet.nextLeader(term, 4 * leaseDurationMs).catch(() => {}))
      await delay(100)
    }
  },
  async 'the leader stalls before a write'(fleet: Fleet) {
    await (await fleet.nextLeader(0)).tell('stallWhileWriting', 2 * leaseDurationMs)
    await delay(200)
  },
  async 'the leader is killed'(fleet: Fleet) {
    await (await fleet.nextLeader(0)).kill()
    await fleet.nextLeader(1)
  },
}

const timingsOf: { readonly [scenario in keyof typeof scenarios]?: FleetOptions['timings'] } = {
  'replies are slow, then calls hang': patientTimings,
  // The release arrives halfway between two renewals of the next leader, which would notice it.
  'a release arrives late': { ...tightTimings, renewIntervalMs: 900 },
}

async function run(scenario: keyof typeof scenarios, options: Partial<FleetOptions> = {}): Promise<string[]> {
  const timings = timingsOf[scenario] ?? tightTimings
  const fleet = await Fleet.open({ size: 3, timings, exitWithinMs: 5_000, ...options })
  try {
    await fleet.start()
    await scenarios[scenario](fleet)
    await fleet.stop()
    const left = (await fleet.list()).filter((name) => !cleanDirectory.includes(name))
    return [...findViolations(await fleet.lives(), fleet.guard), ...left.map((name) => `${name} was not removed`)]
  } finally {
    await fleet.close()
  }
}

interface Mutant {
  readonly name: string
  readonly scenario: keyof typeof scenarios
  readonly edits: readonly Edit[]
  readonly isFenced?: boolean
  readonly finds: RegExp
}

const mutants: readonly Mutant[] = [
  {
    name: 'the lease counts from the reply instead of the request',
    scenario: 'replies are slow, then calls hang',
    edits: [{ file: 'engine/election.ts', find: 'sentAtMs: flight.sentAtMs,', replace: 'sentAtMs: heldNow(s),' }],
    finds: /still led/,
  },
  {
    name: 'a release is not compared with the record',
    scenario: 'a release arrives late',
    edits: [
      {
        file: 'store-kit/rules.ts',
        find: 'const record = matching(current, claim)\n  if (!record) return',
        replace: 'const { record } = current\n  if (!record) return',
      },
    ],
    finds: /still led/,
  },
  {
    name: "every failed connection counts as the leader's death",
    scenario: 'the liveness socket is deleted',
    edits: [
      {
        file: 'stores/file/liveness-socket.ts',
        find: "=== 'ECONNREFUSED' ? 'refused' : 'unknown'",
        replace: "? 'refused' : 'refused'",
      },
      {
        file: 'stores/file/liveness-socket.ts',
        find: "found.inode === address.inode ? 'dead' : 'unknown'",
        replace: "found.inode ? 'dead' : 'dead'",
      },
    ],
    finds: /still led/,
  },
  {
    name: 'leadership is a flag that a timer clears',
    scenario: 'the leader is paused',
    edits: [
      {
        file: 'engine/election-state.ts',
        find: "return state.phase === 'leading' && heldMs < deadlineOf(state)",
        replace: "return state.phase === 'leading' && heldMs < Infinity",
      },
    ],
    finds: /still led/,
  },
  {
    name: 'the signal does not abort',
    scenario: 'the leader is paused',
    edits: [{ file: 'engine/leadership.ts', find: '#controller?.abort(this.#loss)', replace: '#controller?.signal' }],
    finds: /before the term had ended/,
  },
  {
    name: 'the guard accepts late writes',
    scenario: 'the leader stalls before a write',
    edits: [],
    isFenced: false,
    finds: /^write \d+ \(term 1\) set/,
  },
  {
    name: 'the socket of a dead leader is not removed',
    scenario: 'the leader is killed',
    edits: [
      {
        file: 'stores/file/index.ts',
        find: 'if (isGrant && termRecord?.socket) await removeSocket(',
        replace: 'void (',
      },
    ],
    finds: /\.sock was not removed/,
  },
  {
    name: 'a timer outlives the elector',
    scenario: 'the leader is killed',
    edits: [
      { file: '../../internal/src/clock.ts', find: 'if (background)', replace: 'if (delayMs < 0)' },
      {
        file: 'engine/sleep-meter.ts',
        find: '    this.#leaders.delete(leader)\n',
        replace: '    if (leader) return\n',
      },
    ],
    finds: /ended: SIGKILL/,
  },
]

/**
 * On a busy machine another process may win so late that the mutant has no effect. In that case, the scenario is
 * repeated.
 */
async function isNoticed({ scenario, edits, finds, isFenced = true }: Mutant): Promise<'noticed' | string[]> {
  const library = join(await buildMutant('tenure', edits), 'dist')
  for (let tries = 1; ; tries++) {
    const found = await run(scenario, { library, isFenced })
    if (found.some((violation) => finds.test(violation))) return 'noticed'
    if (tries === 3) return found
  }
}

const names = Object.keys(scenarios) as (keyof typeof scenarios)[]

// The scenarios run one at a time. On an overloaded machine, the leaders that must be caught would lose their leases.
describe.each(names)('when %s', (scenario) => {
  const planted = mutants.filter((mutant) => mutant.scenario === scenario)

  test(`the real library passes, and the fleet detects the mutants: ${planted.map(({ name }) => name).join('; ')}`, async () => {
    const outcomes = await Promise.all([run(scenario), ...planted.map(isNoticed)])
    expect(outcomes).toEqual([[], ...planted.map(() => 'noticed')])
  })
})
