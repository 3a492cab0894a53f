import { constants, hostname } from 'node:os'
import { resolveTimings, type LeaseStore, type Timings } from 'tenure'
import { redactedUrl } from 'tenure/stores'
import { doctorSettings } from '../commands/doctor.ts'
import { formatDuration } from '../durations.ts'
import { exitCodes } from '../errors.ts'
import { failureOf } from '../failures.ts'
import { counted, print, printJson, shortTime } from '../output.ts'
import { settingsFrom, type Chosen, type Sources } from '../settings.ts'
import { openChosenStore } from '../store.ts'
import { clockRate, measure, watching, type ClockRate, type Latency, type Watching } from './examination.ts'
import { Patient } from './patient.ts'
import { answerBoundMs, judge, type Verdict } from './verdict.ts'

type Settings = Chosen<typeof doctorSettings>

const mostDoctors = 20

/** Examines a store, and tells each finding as soon as it is there. */
export async function doctor(flags: Sources['flags']): Promise<void> {
  const settings = settingsFrom(doctorSettings, flags)
  const timings = timingsOf(settings)
  const store = await openChosenStore(settings)
  const tell = (what: string, text: string) => {
    if (!settings.json) print(`${what.padEnd(9)}${text}`)
  }
  try {
    const verdict = await examine(store, settings, timings, tell)
    if (verdict.verdict === 'unsafe') process.exitCode = exitCodes.failed
  } finally {
    await store.close?.()
  }
}

function timingsOf({ ttl }: Settings): Timings {
  try {
    return resolveTimings({ leaseDurationMs: ttl })
  } catch (error) {
    throw failureOf(error)
  }
}

async function examine(
  store: LeaseStore,
  settings: Settings,
  timings: Timings,
  tell: (what: string, text: string) => void,
): Promise<Verdict> {
  const url = redactedUrl(settings.store ?? '')
  const { expiry, terms } = store
  const judges = expiry === 'own-clock' ? 'the store judges' : 'candidates judge'
  tell('store', `${url.replace(/:$/, '')}: ${judges} that a lease ran out; terms ${terms ? 'last' : 'do not last'}`)
  const patients = elections(settings).map((election) => {
    const holder = settings.identity ?? hostname()
    return new Patient(store, { election, holder, timings, timeoutMs: settings.timeout })
  })
  releaseOnSignals(patients)
  const { patient, connectMs } = await admit(patients, (tookMs) => tell('connect', shortTime(tookMs)))
  try {
    await patient.renew()
    const renew = await measure(settings.calls, () => patient.renew())
    const read = await measure(settings.calls, async () => {
      await patient.keep()
      return patient.read()
    })
    tell('latency', `renew ${latencyText(renew)}; read ${latencyText(read)}`)
    const clock = await clockRate(patient)
    tell('clock', clockText(clock, timings))
    const watch = await watching(patient)
    tell('watch', watchText(watch))
    await patient.release()
    tell('rights', 'read, acquire, renew and release are allowed')
    tell('timings', timingsText(timings))
    const { lost } = patient
    const verdict = judge({ renew, lost, clock, watching: watch, timings })
    if (settings.json) {
      const found = {
        store: url,
        expiry,
        terms,
        connectMs,
        latency: { renew, read },
        lost,
        clock: clock ?? null,
        watch,
      }
      printJson({ ...found, timings: jsonTimings(timings), ...verdict })
    } else print(`\n${verdictText(verdict, timings)}`)
    return verdict
  } finally {
    // Also when something failed on the way; without success it runs out by itself.
    await patient.release().catch(() => {})
  }
}

/**
 * Always the same few, each for one doctor at a time: what stays behind does not grow with every run, and where names
 * need a right or a definition they can have one.
 */
function elections({ election }: Settings): string[] {
  if (election !== undefined) return [election]
  return ['tenure-doctor', ...Array.from({ length: mostDoctors - 1 }, (_, index) => `tenure-doctor-${index + 2}`)]
}

/** The first one whose lease can be had. */
async function admit(
  patients: readonly Patient[],
  onConnected: (tookMs: number) => void,
): Promise<{ patient: Patient; connectMs: number }> {
  let connectMs: number | undefined
  let refusal: unknown
  for (const patient of patients) {
    const { answer, tookMs } = await patient.read()
    if (connectMs === undefined) onConnected((connectMs = tookMs))
    refusal = await patient.acquire(answer)
    if (!refusal) return { patient, connectMs }
  }
  throw refusal
}

/** The second signal ends it at once, and then the lease runs out by itself. */
function releaseOnSignals(patients: readonly Patient[]): void {
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      void Promise.allSettled(patients.map((patient) => patient.leave())).then(() =>
        process.exit(128 + constants.signals[signal]),
      )
    })
  }
}

function latencyText({ medianMs, p99Ms, calls, failed }: Latency): string {
  const troubles = failed > 0 ? `, ${failed} failed` : ''
  return `median ${exactTime(medianMs)}, p99 ${exactTime(p99Ms)} (${counted(calls, 'call')}${troubles})`
}

function clockText(clock: ClockRate | undefined, { driftRatio }: Timings): string {
  if (!clock) return 'not compared: the answers of this store hold no time of its own'
  const percent = (share: number) => `${(share * 100).toFixed(2).replace(/^-(?=0\.00$)/, '')} %`
  const off = `${percent(clock.rate - 1)} off the speed of ours (give or take ${percent(clock.uncertainty)})`
  const ofDay = `Its time of day differs by ${shortTime(Math.abs(clock.aheadMs))}, which does not matter`
  return `${off}; ${percent(driftRatio)} is allowed. ${ofDay}`
}

function watchText(watch: Watching): string {
  return 'why' in watch ? `does not work: ${watch.why}` : `tells of a change after ${exactTime(watch.medianMs)}`
}

function timingsText(timings: Timings): string {
  const { leaseDurationMs, renewIntervalMs, renewDeadlineMs } = timings
  const answer = `${shortTime(answerBoundMs(timings))} for each answer`
  return `lease ${formatDuration(leaseDurationMs)}: renewed every ${shortTime(renewIntervalMs)}, ${answer}, leadership ends after ${shortTime(renewDeadlineMs)} without one`
}

/** Without what has no end, which JSON does not know. */
function jsonTimings({ leaseDurationMs, renewIntervalMs, renewDeadlineMs, retryIntervalMs, driftRatio }: Timings) {
  return { leaseDurationMs, renewIntervalMs, renewDeadlineMs, retryIntervalMs, driftRatio }
}

function verdictText({ verdict, reasons }: Verdict, { leaseDurationMs }: Timings): string {
  const ttl = formatDuration(leaseDurationMs)
  const head = {
    safe: `Safe: leases of ${ttl} hold with this store, from here.`,
    tight: `Safe, with something to know about leases of ${ttl} with this store, from here:`,
    unsafe: `Not safe: leases of ${ttl} do not hold with this store, from here.`,
  }[verdict]
  return [head, ...reasons].join('\n')
}

function exactTime(ms: number): string {
  return ms < 10 ? `${ms.toFixed(1)}ms` : shortTime(ms)
}
