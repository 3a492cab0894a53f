import { setTimeout as delay } from 'node:timers/promises'
import type { Member } from './fleet.ts'
import type { Fault } from './inject-faults.ts'

/** The longest time for which {@link memberFaults} delay a process. */
export function longestFaultMs(leaseDurationMs: number): number {
  return 3 * leaseDurationMs
}

/** The faults of a process and of its calls, for any store. */
export function memberFaults(leaseDurationMs: number) {
  const longestMs = longestFaultMs(leaseDurationMs)
  return {
    async kill(member, random) {
      await member.kill()
      await delay(random.between(0, 500))
      await member.start()
    },
    pause: (member, random) => member.pause(random.magnitude(50, longestMs)),
    longPause: (member, random) => member.pause(random.between(leaseDurationMs * 1.1, longestMs)),
    async killPaused(member, random) {
      const paused = member.pause(leaseDurationMs)
      await delay(random.between(0, leaseDurationMs / 2))
      await member.kill()
      await paused
      await member.start()
    },
    async stop(member, random) {
      await member.stop()
      await delay(random.between(0, 500))
      await member.start()
    },
    stepDown: (member, random) => member.tell('stepDown', random.between(1, leaseDurationMs)),
    stall: (member, random) => member.tell('block', random.magnitude(50, longestMs)),
    async stallInTimers(member, random) {
      const stillMs = random.magnitude(50, longestMs)
      await member.tell('stallInTimers', stillMs)
      await delay(stillMs)
    },
    async holdCalls(member, random) {
      const heldMs = random.magnitude(50, longestMs)
      await member.tell('hold', heldMs)
      if (random.chance(0.5)) await member.tell('stepDown', random.between(1, leaseDurationMs))
      await delay(heldMs)
    },
    async lateRelease(member, random) {
      const heldMs = random.between(1.2, 2) * leaseDurationMs
      await member.tell('hold', heldMs)
      await Promise.all([member.tell('stepDown', 2 * leaseDurationMs), delay(heldMs)])
    },
    async slowReplies(member, random) {
      await member.tell('delayReplies', random.between(0.07, 0.32) * leaseDurationMs)
      await delay(random.between(500, 1_000))
      await member.tell('hold', random.between(leaseDurationMs, 2 * leaseDurationMs))
      await delay(leaseDurationMs)
      await member.tell('delayReplies', 0)
    },
  } satisfies Record<string, Fault<Member>>
}
