import { setTimeout as delay } from 'node:timers/promises'
import type { Random } from '../../packages/testing/src/simulation/random.ts'
import type { Mode, Proxy } from '../servers/proxy.ts'
import type { Member } from './fleet.ts'
import type { Fault } from './inject-faults.ts'

/** The faults of the network between a process and its store. `longestMs` is the longest duration of a fault. */
export function networkFaults(networkOf: (member: Member) => Proxy, longestMs: number) {
  const during =
    (modeOf: (random: Random) => Mode, ...direction: Parameters<Proxy['set']> extends [Mode, ...infer D] ? D : never) =>
    async (member: Member, random: Random) => {
      const network = networkOf(member)
      network.set(modeOf(random), ...direction)
      await delay(random.magnitude(50, longestMs))
      network.set('pass', ...direction)
    }
  return {
    blackhole: during(() => 'blackhole'),
    'its answers are lost': during(() => 'blackhole', 'to-client'),
    'its requests are lost': during(() => 'blackhole', 'to-server'),
    'its requests arrive late': during(() => 'hold', 'to-server'),
    'its answers arrive late': during(() => 'hold', 'to-client'),
    slow: during((random) => ({ delayMs: random.between(20, 800) })),
    trickle: during((random) => ({ bytes: 100, everyMs: random.between(1, 20) }), 'to-client'),
    reset: async (member) => networkOf(member).reset(),
    'half open': async (member) => networkOf(member).freezeExisting(),
    async refuse(member, random) {
      networkOf(member).refuse()
      if (random.chance(0.5)) networkOf(member).reset()
      await delay(random.magnitude(50, longestMs))
      await networkOf(member).accept()
    },
  } satisfies Record<string, Fault<Member>>
}
