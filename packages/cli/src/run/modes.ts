import type { Leadership } from 'tenure'
import { now, untilMs, wallMs } from '../clock.ts'
import { formatDuration } from '../durations.ts'
import { exitCodes } from '../errors.ts'
import { codeOf, type Conductor, type Executed, type Mode, type Verdict } from './conductor.ts'
import { BackOff, hasSucceeded, isPassing, startsAgain, type RestartRules } from './restart.ts'
import { readCarry, writeCarry, type Schedule } from './schedule.ts'

const atOnce: Verdict = { againAfterMs: 0 }
/** The wall clock may be set at any moment, so nobody sleeps for long on its word. */
const longestSleepMs = 10_000

/** What ends `tenure run`, however it was meant to go on: somebody asked for it, or the command cannot be started. */
function finalCode({ end }: Executed, { stopping }: Conductor): number | undefined {
  return stopping || (end.type === 'not-started' && !isPassing(end)) ? codeOf(end) : undefined
}

function isLost(done: Executed | undefined, leadership: Leadership): boolean {
  return !done || (!leadership.isLeader() && (done.wasTold || !hasSucceeded(done.end)))
}

/** Runs the command for as long as this machine leads, again and again as the rules say. */
export function service(rules: RestartRules & { readonly once: boolean; readonly hold: boolean }): Mode {
  const backOff = new BackOff(rules.firstDelayMs)
  return {
    isTask: rules.once,
    async lead(leadership, conductor) {
      for (;;) {
        const done = await conductor.execute(leadership)
        const code = done ? finalCode(done, conductor) : conductor.stopCode(this)
        if (code !== undefined) return { code }
        if (!done || isLost(done, leadership)) return rules.once ? { code: exitCodes.leadershipLost } : atOnce
        if (!startsAgain(rules, done.end)) {
          if (rules.hold) conductor.note('keeps the lease until it is told to stop')
          while (rules.hold && (await conductor.pause(leadership, longestSleepMs)));
          return { code: codeOf(done.end) }
        }
        const againAfterMs = backOff.after(done.lastedMs)
        conductor.note(
          `starts it again in ${formatDuration(againAfterMs)}${rules.hold ? '' : ', unless others lead by then'}`,
        )
        if (!rules.hold) return { againAfterMs }
        if (await conductor.pause(leadership, againAfterMs)) continue
        const stopCode = conductor.stopCode(this)
        return stopCode === undefined ? atOnce : { code: stopCode }
      }
    },
  }
}

/** Runs the command at the times of a schedule; leads in between. */
export function scheduled(schedule: Schedule): Mode {
  return {
    isTask: false,
    async lead(leadership, conductor) {
      let lastMs = await baseline(schedule, leadership)
      let toldMs: number | undefined
      while (leadership.isLeader()) {
        const nowMs = wallMs()
        const slot = schedule.next(lastMs, nowMs)
        if (slot && slot.waitMs <= 0) {
          const code = await runSlot(slot.slotMs, leadership, conductor)
          if (code !== undefined) return { code }
          lastMs = slot.slotMs
          continue
        }
        if (slot?.missedMs !== undefined) conductor.tell(`the run of ${iso(slot.missedMs)} was missed, and is left out`)
        // A slot that was left out is told once.
        lastMs = slot?.missedMs ?? lastMs
        if (slot && slot.slotMs !== toldMs) conductor.note(`the next run is at ${iso(slot.slotMs)}`)
        toldMs = slot?.slotMs
        await conductor.pause(leadership, Math.min(slot?.waitMs ?? longestSleepMs, longestSleepMs))
      }
      const code = conductor.stopCode(this)
      return code === undefined ? atOnce : { code }
    },
  }
}

/** The first leader of all begins with what comes next, and notes that for those after it. */
async function baseline(schedule: Schedule, leadership: Leadership): Promise<number> {
  const known = readCarry(leadership.election, leadership.carry)
  if (known !== undefined) return known
  const beginMs = schedule.latest(wallMs()) ?? 0
  await carry(leadership, beginMs)
  return beginMs
}

async function runSlot(slotMs: number, leadership: Leadership, conductor: Conductor): Promise<number | undefined> {
  // First the record, then the run: whatever happens in between, nobody runs this slot again.
  if (!(await carry(leadership, slotMs))) return undefined
  const done = await conductor.execute(leadership, { TENURE_SCHEDULED_AT: iso(slotMs) })
  return done && finalCode(done, conductor)
}

/** Runs the command unless the fleet has done so lately, and ends either way. */
export function atMostOncePer(intervalMs: number): Mode {
  const calledAt = now()
  return {
    isTask: true,
    async lead(leadership, conductor) {
      const lastMs = readCarry(leadership.election, leadership.carry)
      const nowMs = wallMs()
      // Who was called with others, and waited while one of them ran it, was called for that run.
      const calledMs = nowMs + Math.min(0, untilMs(calledAt))
      if (lastMs !== undefined && calledMs - lastMs < intervalMs) {
        conductor.note(`the last run was at ${iso(lastMs)}: nothing to do`)
        return { code: 0 }
      }
      const done = (await carry(leadership, nowMs)) ? await conductor.execute(leadership) : undefined
      if (done && !isLost(done, leadership)) return { code: codeOf(done.end) }
      const code = done ? finalCode(done, conductor) : conductor.stopCode(this)
      return { code: code ?? exitCodes.leadershipLost }
    },
  }
}

/** Gives whether the store has it for sure. */
async function carry(leadership: Leadership, slotMs: number): Promise<boolean> {
  try {
    await leadership.setCarry(writeCarry(slotMs))
    return leadership.isLeader()
  } catch (error) {
    // A process that was kept from running learns of its loss here, and only later by the signal.
    if (!leadership.isLeader()) return false
    throw error
  }
}

function iso(ms: number): string {
  return new Date(ms).toISOString()
}
