import type { Leadership } from 'tenure'
import { formatDuration } from '../shared/arguments/durations.ts'
import { exitCodes } from '../shared/arguments/errors.ts'
import { now, setTimer, untilMs, wallMs } from '../shared/clock.ts'
import type { Mode, NextStep, Stage } from './conductor.ts'
import type { Executed } from './executor.ts'
import { BackOff, startsAgain, type RestartRules } from './restart.ts'
import { codeOf, hasSucceeded, isPassing } from './run-end.ts'
import { readCarry, writeCarry, type Schedule } from './schedule.ts'

const atOnce: NextStep = { againAfterMs: 0 }
/** The wall clock may be set at any moment, so no sleep that follows it is long. */
const longestSleepMs = 10_000

/** The exit code if `tenure run` ends now in every mode: a signal asked for it, or the command cannot be started. */
function finalCode({ end }: Executed, { stop }: Stage): number | undefined {
  return stop.signal || (end.type === 'not-started' && !isPassing(end)) ? codeOf(end) : undefined
}

function isLost(done: Executed | undefined, leadership: Leadership): boolean {
  return !done || (!leadership.isLeader() && (done.wasTold || !hasSucceeded(done.end)))
}

/** Waits for a while, or until leadership ends. Gives whether it still leads. */
function pause(leadership: Leadership, delayMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const settle = () => {
      cancel()
      leadership.signal.removeEventListener('abort', settle)
      resolve(leadership.isLeader())
    }
    const cancel = setTimer(delayMs, settle)
    if (leadership.signal.aborted) settle()
    else leadership.signal.addEventListener('abort', settle, { once: true })
  })
}

/** Runs the command for as long as this machine leads, again and again as the rules say. */
export function service(rules: RestartRules & { readonly once: boolean; readonly hold: boolean }): Mode {
  const backOff = new BackOff(rules.firstDelayMs)
  return {
    isTask: rules.once,
    async lead(leadership, stage) {
      const { narrator, executor, stop } = stage
      for (;;) {
        const done = await executor.execute(leadership)
        const code = done ? finalCode(done, stage) : stop.code(this)
        if (code !== undefined) return { code }
        if (!done || isLost(done, leadership)) return rules.once ? { code: exitCodes.leadershipLost } : atOnce
        if (!startsAgain(rules, done.end)) {
          if (rules.hold) narrator.note('keeps the lease until it is stopped')
          while (rules.hold && (await pause(leadership, longestSleepMs)));
          return { code: codeOf(done.end) }
        }
        const againAfterMs = backOff.after(done.lastedMs)
        narrator.note(
          `starts it again in ${formatDuration(againAfterMs)}${rules.hold ? '' : ', unless others lead by then'}`,
        )
        if (!rules.hold) return { againAfterMs }
        if (await pause(leadership, againAfterMs)) continue
        const stopCode = stop.code(this)
        return stopCode === undefined ? atOnce : { code: stopCode }
      }
    },
  }
}

/** Runs the command at the times of a schedule; leads in between. */
export function scheduled(schedule: Schedule): Mode {
  return {
    isTask: false,
    async lead(leadership, stage) {
      const { narrator, stop } = stage
      let lastMs = await baseline(schedule, leadership)
      let announcedMs: number | undefined
      while (leadership.isLeader()) {
        const nowMs = wallMs()
        const slot = schedule.next(lastMs, nowMs)
        if (slot && slot.waitMs <= 0) {
          const code = await runSlot(slot.slotMs, leadership, stage)
          if (code !== undefined) return { code }
          lastMs = slot.slotMs
          continue
        }
        if (slot?.missedMs !== undefined) narrator.tell(`the run of ${iso(slot.missedMs)} was missed, and is left out`)
        // A slot that was left out is reported once.
        lastMs = slot?.missedMs ?? lastMs
        if (slot && slot.slotMs !== announcedMs) narrator.note(`the next run is at ${iso(slot.slotMs)}`)
        announcedMs = slot?.slotMs
        await pause(leadership, Math.min(slot?.waitMs ?? longestSleepMs, longestSleepMs))
      }
      const code = stop.code(this)
      return code === undefined ? atOnce : { code }
    },
  }
}

/** The first leader of all begins with the next slot, and notes that for its successors. */
async function baseline(schedule: Schedule, leadership: Leadership): Promise<number> {
  const known = readCarry(leadership.election, leadership.carry)
  if (known !== undefined) return known
  const beginMs = schedule.latest(wallMs()) ?? 0
  await carry(leadership, beginMs)
  return beginMs
}

async function runSlot(slotMs: number, leadership: Leadership, stage: Stage): Promise<number | undefined> {
  // First the record, then the run: whatever happens in between, nobody runs this slot again.
  if (!(await carry(leadership, slotMs))) return undefined
  const done = await stage.executor.execute(leadership, { TENURE_SCHEDULED_AT: iso(slotMs) })
  return done && finalCode(done, stage)
}

/** Runs the command unless the fleet has done so lately, and ends either way. */
export function atMostOncePer(intervalMs: number): Mode {
  const calledAt = now()
  return {
    isTask: true,
    async lead(leadership, stage) {
      const { narrator, executor, stop } = stage
      const lastMs = readCarry(leadership.election, leadership.carry)
      const nowMs = wallMs()
      // A call that waited while another machine ran the command is served by that run.
      const calledMs = nowMs + Math.min(0, untilMs(calledAt))
      if (lastMs !== undefined && calledMs - lastMs < intervalMs) {
        narrator.note(`the last run was at ${iso(lastMs)}: nothing to do`)
        return { code: 0 }
      }
      const done = (await carry(leadership, nowMs)) ? await executor.execute(leadership) : undefined
      if (done && !isLost(done, leadership)) return { code: codeOf(done.end) }
      const code = done ? finalCode(done, stage) : stop.code(this)
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
