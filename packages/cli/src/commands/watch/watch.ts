import { observe, type LeaseRecord, type LeaseStore, type Observation } from 'tenure'
import { parseArgument, settingsFrom } from '../../shared/arguments/settings.ts'
import { nameOf } from '../../shared/arguments/values.ts'
import { every, now, wallMs } from '../../shared/clock.ts'
import { signalExitCode } from '../../shared/shutdown.ts'
import { commandErrorOf } from '../../shared/failures.ts'
import {
  pluralize,
  exitWhenReaderGone,
  print,
  printable,
  printJson,
  formatShortDuration,
  tell,
  timestamp,
} from '../../shared/output.ts'
import { estimatedRemainingMs, electionStatus } from '../../shared/election-status.ts'
import { noteMissingFolder, openChosenStore } from '../../shared/store.ts'
import { bar, bold, color, dim, interruptKey, listenToKeys, Screen } from '../../shared/terminal.ts'
import { ErrorLog } from '../../shared/error-log.ts'
import { watchSettings } from './command.ts'

const barWidth = 30
const keptChanges = 1_000

/** Shows the leader of an election until the user or a signal ends the command. */
export async function watch(name: string, flags: Readonly<Record<string, unknown>>): Promise<void> {
  const election = parseArgument('ELECTION', name, nameOf)
  const settings = settingsFrom(watchSettings, flags)
  const store = await openChosenStore(settings)
  noteMissingFolder(settings)
  exitWhenReaderGone()
  const live = process.stdout.isTTY && !settings.json && settings.changes === undefined
  const ended = new AbortController()
  const screen = live ? new LeaderScreen(store, election, () => ended.abort()) : undefined
  const { changes: most = Infinity } = settings
  const troubles = new ErrorLog()
  let before: Observation | undefined
  let failure: unknown
  const onError = (error: unknown) => {
    // A store that does not answer at first is probably the wrong one.
    if (!before) {
      failure = error
      return ended.abort()
    }
    const text = `${commandErrorOf(error).message} Retrying.`
    if (screen) screen.trouble(text)
    else if (troubles.shouldReport(text, { ofRenewal: false })) tell(text)
  }
  screen?.open()
  try {
    let shown = 0
    for await (const item of observe(store, election, { signal: ended.signal, timeoutMs: settings.timeout, onError })) {
      // A renewal is not worth a line, unless the lease seemed to have expired because the store could not be reached.
      const isUsual = item.change === 'renewed' && before?.change !== 'expired'
      before = item
      // An expiry is derived from the clock, so it does not prove that the store answers.
      if (item.change !== 'expired' && troubles.end({ ofRenewal: false })) tell('The store answers again.')
      if (screen) screen.show(item, isUsual)
      else if (!isUsual || settings.renewals) {
        shown += 1
        if (settings.json) printJson(jsonOf(election, item))
        else print(`${timestamp(wallMs())}  ${sentence(election, item, isInDoubt(store, item))}`)
        if (shown === most) break
      }
    }
  } finally {
    screen?.close()
    await store.close?.()
  }
  if (failure !== undefined) throw commandErrorOf(failure)
}

function jsonOf(election: string, { change, record, remainingMs }: Observation) {
  return { type: change, at: wallMs(), ...electionStatus(election, record, remainingMs) }
}

/** Describes a change. */
function sentence(election: string, { change, record, remainingMs }: Observation, isDoubtful: boolean): string {
  if (!record) return change === 'deleted' ? `the record of ${election} was deleted` : `nobody leads ${election} yet`
  const { holder, term, leaseDurationMs, released } = record
  const lease = formatShortDuration(leaseDurationMs)
  const text = {
    state: released
      ? `nobody leads ${election}; ${holder} led last, in term ${term}`
      : isDoubtful
        ? `${holder} holds ${election} in term ${term}, but ${doubt(record, remainingMs)}`
        : `${holder} leads ${election} in term ${term}, with a lease of ${lease}`,
    elected: `${holder} was elected to lead ${election} in term ${term}, with a lease of ${lease}`,
    renewed: `${holder} renewed term ${term} for ${lease}`,
    released: `${holder} no longer leads ${election}: term ${term} has ended`,
    expired: `${holder} has not renewed term ${term} for ${lease}: its lease has expired`,
    replaced: `${holder} leads ${election} in term ${term}, with a lease of ${lease}; the end of the previous term was not observed`,
    deleted: '',
  }[change]
  return printable(text)
}

/**
 * Whether the first read cannot tell if the holder still leads: by the holder's own clock, the lease duration has
 * passed. Candidates decide by observing one version for the whole lease duration.
 */
function isInDoubt({ expiry }: LeaseStore, { change, record }: Observation): boolean {
  return change === 'state' && expiry === 'observed' && record?.released === false && estimatedRemainingMs(record) <= 0
}

function doubt({ renewedAt }: LeaseRecord, remainingMs: number): string {
  const renewed =
    renewedAt > 0
      ? `last renewed it ${formatShortDuration(wallMs() - renewedAt)} ago, by its own clock`
      : 'never renewed it'
  return `${renewed}; it is uncertain for another ${formatShortDuration(remainingMs)} whether it still leads`
}

/** The live view on a terminal. */
class LeaderScreen {
  readonly #screen = new Screen()
  readonly #store: LeaseStore
  readonly #election: string
  readonly #onQuit: () => void
  readonly #history: string[] = []
  #newest: Observation | undefined
  #seenAtMs = 0
  #trouble = ''
  #renewals = 0
  #stopTicking: () => void = () => {}

  constructor(store: LeaseStore, election: string, onQuit: () => void) {
    this.#store = store
    this.#election = election
    this.#onQuit = onQuit
  }

  open(): void {
    this.#screen.open()
    listenToKeys((key) => {
      if (key === 'q' || key === interruptKey) this.#onQuit()
    })
    for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => process.exit(signalExitCode(signal)))
    }
    process.stdout.on('resize', () => this.#draw())
    this.#stopTicking = every(100, () => this.#draw())
  }

  close(): void {
    this.#stopTicking()
    this.#screen.close()
    if (process.stdin.isTTY) process.stdin.setRawMode(false).pause()
  }

  show(item: Observation, isUsual: boolean): void {
    this.#trouble = ''
    this.#newest = item
    this.#seenAtMs = now().machineMs
    if (item.change === 'renewed') this.#renewals += 1
    if (!isUsual) {
      if (['state', 'elected', 'replaced'].includes(item.change)) this.#renewals = 0
      this.#history.push(
        `${timestamp(wallMs()).slice(11, 23)}  ${sentence(this.#election, item, isInDoubt(this.#store, item))}`,
      )
      if (this.#history.length > keptChanges) this.#history.shift()
    }
    this.#draw()
  }

  trouble(text: string): void {
    this.#trouble = text
    this.#draw()
  }

  #draw(): void {
    const above = [bold(`Tenure: who leads ${printable(this.#election)}`), '', ...this.#standing(), '']
    if (this.#trouble !== '') above.push(color('red', printable(this.#trouble)), '')
    this.#screen.draw([...above, bold('What happened (UTC)')], this.#history, ['', `${bold('q')} quit`])
  }

  #standing(): string[] {
    const { record, remainingMs = 0 } = this.#newest ?? {}
    const leftMs = Math.max(0, remainingMs - (now().machineMs - this.#seenAtMs))
    // Show the end of a lease when it is known, not when this machine's clock says that the lease has ended.
    const { leader, previousLeader } = electionStatus(this.#election, record, remainingMs)
    if (!leader) {
      const last = previousLeader ? `${printable(previousLeader.holder)} led last, in term ${previousLeader.term}` : ''
      return [color('yellow', 'leader  nobody'), dim(`        ${last}`), '', '']
    }
    const { holder, term, leaseDurationMs, acquiredAt } = leader
    const left = `${bar(leftMs / leaseDurationMs, barWidth)} ${formatShortDuration(leftMs)} of ${formatShortDuration(leaseDurationMs)}`
    const isDoubtful = this.#newest !== undefined && isInDoubt(this.#store, this.#newest)
    const shown = isDoubtful ? color('yellow', `perhaps ${printable(holder)}`) : color('green', printable(holder))
    return [
      `leader  ${shown}`,
      `term    ${term}`,
      `lease   ${left}`,
      dim(`since   ${timestamp(acquiredAt)}, renewed ${pluralize(this.#renewals, 'time')} since the watch began`),
    ]
  }
}
