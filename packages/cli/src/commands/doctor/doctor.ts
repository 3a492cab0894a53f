import { hostname } from 'node:os'
import { resolveTimings, type LeaseRecord, type LeaseStore, type Timings } from 'tenure'
import { redactedUrl, type Finding, type InspectableStore } from 'tenure/stores'
import type { LeaseRights } from 'tenure/stores/kubernetes'
import type { MulticlusterRights } from 'tenure/stores/multicluster'
import { formatDuration } from '../../shared/arguments/durations.ts'
import { CommandError, exitCodes } from '../../shared/arguments/errors.ts'
import { settingsFrom, type SettingValues, type Sources } from '../../shared/arguments/settings.ts'
import { callWithTimeout } from '../../shared/call-with-timeout.ts'
import { signalExitCode } from '../../shared/shutdown.ts'
import { withCommandErrors } from '../../shared/failures.ts'
import { pluralize, print, printable, printJson, formatShortDuration } from '../../shared/output.ts'
import { isKubernetes, nodeFromToken, openChosenStore } from '../../shared/store.ts'
import { diagnose, diagnoseReads, type Diagnosis } from './diagnosis.ts'
import {
  clockRate,
  measure,
  checkWatch,
  measureWatch,
  type ClockRate,
  type Latency,
  type WatchLatency,
} from './measurements.ts'
import { checkGuard, type CrashFinding } from './guard-check.ts'
import { ProbeElection } from './probe-election.ts'
import { race, type Race, type RaceRounds } from './race.ts'
import { doctorSettings } from './command.ts'

type DoctorSettings = SettingValues<typeof doctorSettings>
type DoctorRights = LeaseRights | MulticlusterRights

const maxConcurrentDoctors = 20

/** Probes a store and prints each result as soon as it is known. */
export async function doctor(flags: Sources['flags']): Promise<void> {
  const settings = settingsFrom(doctorSettings, flags)
  const timings = withCommandErrors(() => resolveTimings({ leaseDurationMs: settings.ttl }))
  const store = await openChosenStore(settings)
  const tell = (what: string, text: string) => {
    if (!settings.json) print(`${what.padEnd(9)}${text}`)
  }
  try {
    const { verdict } = await diagnoseStore(store, settings, timings, tell)
    if (verdict === 'unsafe') process.exitCode = exitCodes.failed
  } finally {
    await store.close?.()
  }
}

async function diagnoseStore(
  store: LeaseStore,
  settings: DoctorSettings,
  timings: Timings,
  tell: (what: string, text: string) => void,
): Promise<Diagnosis> {
  const url = redactedUrl(settings.store ?? '')
  const { expiry, terms } = store
  const judges = expiry === 'own-clock' ? 'the store judges' : 'candidates judge'
  tell('store', `${url.replace(/:$/, '')}: ${judges} lease expiry; terms ${terms ? 'are durable' : 'are not durable'}`)
  const names = elections(settings)
  const rights = await rightsIn(store, names[0] ?? '', settings)
  if (rights) tell('rights', rightsText(rights))
  if (rights?.enough === false) throw forbidden(rights, settings)
  const probes = names.map((election) => {
    const holder = settings.identity ?? nodeFromToken(settings.store, settings) ?? hostname()
    const forgets = settings.election === undefined
    return new ProbeElection(store, { election, holder, timings, timeoutMs: settings.timeout, forgets })
  })
  releaseOnSignals(probes)
  const onConnected = (tookMs: number) => tell('connect', formatShortDuration(tookMs))
  const { probe, connectMs, leader } = await acquireProbe(probes, onConnected, rights?.enough === true)
  const found = { store: url, expiry, terms, connectMs, ...(rights && { rights: jsonRights(rights) }) }
  if (leader) return measureReadOnly(probe, leader, { settings, timings, found, tell })
  try {
    await probe.renew()
    const renew = await measure(settings.calls, () => probe.renew())
    const read = await measure(settings.calls, async () => {
      await probe.renewIfDue()
      return probe.read()
    })
    tell('latency', `renew ${latencyText(renew)}; read ${latencyText(read)}`)
    const clock = await clockRate(probe)
    tell('clock', clockText(clock, timings))
    const watch = await measureWatch(probe)
    tell('watch', watchText(watch))
    const findings = await inspect(store, settings)
    if (findings) tell('settings', settingsText(findings))
    const raced = await raceOn(probe, settings)
    tell('race', raceText(raced))
    await probe.release()
    tell('calls', 'read, acquire, renew and release are allowed')
    const crash = await checkGuard(store, settings.store ?? '')
    tell('crash', crash.text)
    for (const [what, text] of timingsTexts(timings, isKubernetes(store))) tell(what, text)
    const { lost } = probe
    const problems = [...(findings ?? []), ...mistakeIn(crash)]
    const diagnosis = diagnose({ renew, lost, clock, watching: watch, timings, race: raced, settings: problems })
    if (settings.json) {
      const measured = { latency: { renew, read }, lost, clock: clock ?? null, watch, race: jsonRace(raced) }
      const inspected = {
        ...(findings && { settings: findings }),
        crash: { noticed: crash.isNoticed, text: crash.text },
      }
      printJson({ ...found, ...measured, ...inspected, timings: jsonTimings(timings), ...diagnosis })
    } else print(`\n${diagnosisText(diagnosis, timings)}`)
    return diagnosis
  } finally {
    // Release even when a step failed. If the release also fails, the lease expires.
    await probe.release().catch(() => {})
  }
}

/** Candidates across clusters write nothing concurrently: their controllers do, to a store that can be raced itself. */
async function raceOn(probe: ProbeElection, settings: DoctorSettings): Promise<Race> {
  if (/^multicluster:/i.test(settings.store ?? '')) return { why: 'run the doctor on the store of the controllers' }
  return race(probe, () => openChosenStore(settings))
}

/** It is a mistake to set up a guard that does not work. Without a guard, a crash costs one lease. */
function mistakeIn({ isMistake, text }: CrashFinding): Finding[] {
  return isMistake ? [{ risk: 'tight', text: `A crash ${text}.` }] : []
}

/** Returns problems with the server's settings, or undefined if the store cannot inspect them. */
async function inspect(store: LeaseStore, { timeout }: DoctorSettings): Promise<readonly Finding[] | undefined> {
  if (!('inspect' in store)) return undefined
  return callWithTimeout(timeout, (call) => (store as InspectableStore).inspect(call))
}

interface Examined {
  readonly settings: DoctorSettings
  readonly timings: Timings
  readonly found: object
  readonly tell: (what: string, text: string) => void
}

/** Measures an election that another process leads, without writing to it. */
async function measureReadOnly(probe: ProbeElection, leader: LeaseRecord, examined: Examined): Promise<Diagnosis> {
  const { settings, timings, found, tell } = examined
  const { holder, term } = leader
  tell('led', `by ${printable(holder)} in term ${term}, so the doctor only reads and watches`)
  const read = await measure(settings.calls, () => probe.read())
  tell('latency', `read ${latencyText(read)}`)
  const watch = await checkWatch(probe, leader)
  tell('watch', 'why' in watch ? watchText(watch) : 'shows changes')
  const diagnosis = diagnoseReads(read, watch, timings)
  if (settings.json) printJson({ ...found, ledBy: holder, latency: { read }, watch, ...diagnosis })
  else print(`\n${diagnosisText(diagnosis, timings, printable(probe.election))}`)
  return diagnosis
}

/**
 * The names of the probe elections, one for each doctor that runs at the same time. They are fixed so that an operator
 * can grant rights or define an election for them. Fixed names also limit the number of records left behind in stores
 * that cannot forget elections.
 */
function elections({ election }: DoctorSettings): string[] {
  if (election !== undefined) return [election]
  return [
    'tenure-doctor',
    ...Array.from({ length: maxConcurrentDoctors - 1 }, (_, index) => `tenure-doctor-${index + 2}`),
  ]
}

/**
 * Returns the rights that an API server grants this user. Other stores reveal missing rights only by refusing a call.
 */
async function rightsIn(
  store: LeaseStore,
  election: string,
  { timeout }: DoctorSettings,
): Promise<DoctorRights | undefined> {
  return isKubernetes(store)
    ? callWithTimeout<DoctorRights | undefined>(timeout, (call) => store.rights(election, call))
    : undefined
}

function forbidden({ missing }: DoctorRights, { election }: DoctorSettings): CommandError {
  const text = missing?.message ?? ''
  const other = 'If the Role is limited to some Leases, name one of them with --election.'
  return new CommandError(election === undefined ? `${text}\n${other}` : text, exitCodes.unavailable, {
    cause: missing,
  })
}

interface Admitted {
  readonly probe: ProbeElection
  readonly connectMs: number
  /** The record of the current leader, which the doctor does not disturb. */
  readonly leader?: LeaseRecord
}

/**
 * Returns the first probe election whose lease is free. If the user named an election that another process leads, and
 * `mayLookOn` is true, returns that election together with its leader.
 */
async function acquireProbe(
  probes: readonly ProbeElection[],
  onConnected: (tookMs: number) => void,
  mayLookOn: boolean,
): Promise<Admitted> {
  let connectMs: number | undefined
  let refusal: unknown
  for (const probe of probes) {
    const { answer, tookMs } = await probe.read()
    if (connectMs === undefined) onConnected((connectMs = tookMs))
    refusal = await probe.acquire(answer)
    if (!refusal) return { probe, connectMs }
    if (mayLookOn && probes.length === 1 && answer && !answer.released) return { probe, connectMs, leader: answer }
  }
  throw refusal
}

/** The first signal releases the leases. A second one exits at once, and the leases expire. */
function releaseOnSignals(probes: readonly ProbeElection[]): void {
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      void Promise.allSettled(probes.map((probe) => probe.releaseNow())).then(() =>
        process.exit(signalExitCode(signal)),
      )
    })
  }
}

function latencyText({ medianMs, p99Ms, calls, failed }: Latency): string {
  const troubles = failed > 0 ? `, ${failed} failed` : ''
  return `median ${exactTime(medianMs)}, p99 ${exactTime(p99Ms)} (${pluralize(calls, 'call')}${troubles})`
}

function clockText(clock: ClockRate | undefined, { driftRatio }: Timings): string {
  if (!clock) return 'not compared: this store does not report its own time'
  const percent = (share: number) => `${(share * 100).toFixed(2).replace(/^-(?=0\.00$)/, '')} %`
  const off = `rate differs by ${percent(clock.rate - 1)} (±${percent(clock.uncertainty)})`
  const ofDay = `Time of day differs by ${formatShortDuration(Math.abs(clock.aheadMs))}, which does not matter`
  return `${off}; up to ${percent(driftRatio)} is tolerated. ${ofDay}`
}

function rightsText(rights: DoctorRights): string {
  const each = Object.entries(jsonRights(rights)).map(([verb, isGiven]) => `${verb} ${isGiven ? 'yes' : 'no'}`)
  const note = rights.enough && !rights.create ? '; create is not needed, because the Lease exists' : ''
  return `${each.join(', ')}${note}`
}

function jsonRights(rights: DoctorRights): Record<string, boolean> {
  const { enough: _, missing: __, ...verbs } = rights
  return verbs
}

function watchText(watch: WatchLatency): string {
  return 'why' in watch ? `does not work: ${watch.why}` : `shows a change after ${exactTime(watch.medianMs)}`
}

function raceText(raced: Race): string {
  if ('why' in raced) return `not raced: ${raced.why}`
  const { racers, swaps, creates } = raced
  const kinds = { creates, swaps }
  const texts = Object.entries(kinds).flatMap(([kind, rounds]) =>
    rounds ? [`${racers} concurrent ${kind}: ${roundsText(rounds)}`] : [],
  )
  if (!creates) texts.push('creates not raced, because the election cannot be removed in between')
  return texts.join('; ')
}

function roundsText({ rounds, winners, withoutWinner, failed }: RaceRounds): string {
  if (rounds === 0) return 'disturbed by another process'
  const failures = failed > 0 ? ` (${pluralize(failed, 'call')} failed)` : ''
  const won = winners > 1 ? `${winners} winners` : winners === 0 || withoutWinner > 0 ? 'no winner' : 'one winner'
  return `${won} in ${winners > 1 ? 'a round' : pluralize(rounds, 'round')}${failures}`
}

/** Omits the creates if there were none. */
function jsonRace(raced: Race): object {
  return 'why' in raced ? raced : { ...raced, creates: raced.creates ?? null }
}

function settingsText(findings: readonly Finding[]): string {
  if (findings.length === 0) return 'no problems with the settings of the server'
  return `${pluralize(findings.length, 'problem')} with the settings of the server, see below`
}

/**
 * Describes the timings for the chosen lease. On Kubernetes it adds those of LeaderElector, which renews at client-go's
 * pace.
 */
function timingsTexts(timings: Timings, hasTwoPaces: boolean): (readonly [string, string])[] {
  const { leaseDurationMs } = timings
  const lease = `lease ${formatDuration(leaseDurationMs)}:`
  if (!hasTwoPaces) return [['timings', `${lease} ${paceText(timings)}`]]
  const likeClientGo = { renewIntervalMs: (leaseDurationMs * 2) / 15, renewDeadlineMs: (leaseDurationMs * 4) / 5 }
  return [
    ['timings', `${lease} lead, Elector, tenure run: ${paceText(timings)}`],
    ['', `LeaderElector: ${paceText(resolveTimings({ leaseDurationMs, ...likeClientGo }))}`],
  ]
}

function paceText({ renewIntervalMs, renewDeadlineMs, answerBoundMs }: Timings): string {
  const answer = `call timeout ${formatShortDuration(answerBoundMs)}`
  return `renewed every ${formatShortDuration(renewIntervalMs)}, ${answer}, leadership ends after ${formatShortDuration(renewDeadlineMs)} without a renewal`
}

/** Omits timings that may be infinite, which JSON cannot express. */
function jsonTimings({ leaseDurationMs, renewIntervalMs, renewDeadlineMs, retryIntervalMs, driftRatio }: Timings) {
  return { leaseDurationMs, renewIntervalMs, renewDeadlineMs, retryIntervalMs, driftRatio }
}

function diagnosisText({ verdict, reasons }: Diagnosis, { leaseDurationMs }: Timings, election = ''): string {
  const ttl = formatDuration(leaseDurationMs)
  const head = {
    safe: `Safe: leases of ${ttl} hold with this store, measured from this machine.`,
    tight: `Safe, with warnings about leases of ${ttl} with this store, measured from this machine:`,
    unsafe: `Not safe: leases of ${ttl} do not hold with this store, measured from this machine.`,
    readable: `${reasons.length === 0 ? 'Rights, reads and the watch are in order.' : 'Rights are in order, with the warnings below.'} To measure whether leases of ${ttl} hold, run this while nobody leads ${election}.`,
  }[verdict]
  return [head, ...reasons].join('\n')
}

function exactTime(ms: number): string {
  return ms < 10 ? `${ms.toFixed(1)}ms` : formatShortDuration(ms)
}
