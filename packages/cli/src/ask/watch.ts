import { constants } from 'node:os'
import { every, wallMs } from '../clock.ts'
import { watchSettings } from '../commands/watch.ts'
import { failureOf } from '../failures.ts'
import { counted, endWithReader, print, printable, printJson, shortTime, tell, timestamp } from '../output.ts'
import { argument, settingsFrom } from '../settings.ts'
import { standingOf } from '../standing.ts'
import { noteMissingFolder, openChosenStore } from '../store.ts'
import { bar, bold, color, dim, interruptKey, listenToKeys, Screen } from '../terminal.ts'
import { nameOf } from '../values.ts'
import { Observation, type Change } from './observation.ts'

const barWidth = 30
const keptChanges = 1_000

/** Shows who leads until it is ended. */
export async function watch(name: string, flags: Readonly<Record<string, unknown>>): Promise<void> {
  const election = argument('ELECTION', name, nameOf)
  const settings = settingsFrom(watchSettings, flags)
  const store = await openChosenStore(settings)
  noteMissingFolder(settings)
  endWithReader()
  const live = process.stdout.isTTY && !settings.json && settings.changes === undefined
  const view = live ? new View(election, () => observation.end()) : undefined
  const { changes: most = Infinity } = settings
  let shown = 0
  const observation = new Observation({
    store,
    election,
    timeoutMs: settings.timeout,
    onChange: (change) => {
      if (view) return view.show(change)
      if (shown >= most || (isUsual(change) && !settings.renewals)) return
      shown += 1
      if (settings.json) printJson(jsonOf(election, change, observation.remainingMs()))
      else print(`${timestamp(wallMs())}  ${sentence(election, change)}`)
      if (shown === most) observation.end()
    },
    onTrouble: (error) => {
      const text = `${failureOf(error).message} It is tried again.`
      if (view) view.trouble(text)
      else tell(text)
    },
  })
  view?.open(observation)
  // A watch alone keeps no process running.
  const letGo = every(60_000, () => {})
  try {
    await observation.run()
  } catch (error) {
    throw failureOf(error)
  } finally {
    letGo()
    view?.close()
    observation.end()
    await store.close?.()
  }
}

function jsonOf(election: string, { type, record }: Change, remainingMs: number) {
  return { type, at: wallMs(), ...standingOf(election, record, remainingMs) }
}

function isUsual({ type, revives }: Change): boolean {
  return type === 'renewed' && !revives
}

/** A change in words. */
function sentence(election: string, { type, record }: Change): string {
  if (!record) return type === 'vanished' ? `the record of ${election} is gone` : `nobody leads ${election} yet`
  const { holder, term, leaseDurationMs, released } = record
  const lease = shortTime(leaseDurationMs)
  const text = {
    state: released
      ? `nobody leads ${election}; ${holder} did last, in term ${term}`
      : `${holder} leads ${election} in term ${term}, with a lease of ${lease}`,
    elected: `${holder} was elected to lead ${election} in term ${term}, with a lease of ${lease}`,
    renewed: `${holder} renewed term ${term} for ${lease}`,
    released: `${holder} leads ${election} no more: term ${term} has ended`,
    expired: `${holder} has not renewed term ${term} for ${lease}: its lease has run out`,
    vanished: '',
  }[type]
  return printable(text)
}

/** The live view. */
class View {
  readonly #screen = new Screen()
  readonly #election: string
  readonly #onQuit: () => void
  readonly #history: string[] = []
  #observation: Observation | undefined
  #trouble = ''
  #renewals = 0
  #stopTicking: () => void = () => {}

  constructor(election: string, onQuit: () => void) {
    this.#election = election
    this.#onQuit = onQuit
  }

  open(observation: Observation): void {
    this.#observation = observation
    this.#screen.open()
    listenToKeys((key) => {
      if (key === 'q' || key === interruptKey) this.#onQuit()
    })
    for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => process.exit(128 + constants.signals[signal]))
    }
    process.stdout.on('resize', () => this.#draw())
    this.#stopTicking = every(100, () => this.#draw())
  }

  close(): void {
    this.#stopTicking()
    this.#screen.close()
    if (process.stdin.isTTY) process.stdin.setRawMode(false).pause()
  }

  show(change: Change): void {
    this.#trouble = ''
    if (change.type === 'renewed') this.#renewals += 1
    if (!isUsual(change)) {
      if (change.type === 'elected' || change.type === 'state') this.#renewals = 0
      this.#history.push(`${timestamp(wallMs()).slice(11, 23)}  ${sentence(this.#election, change)}`)
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
    const record = this.#observation?.record
    const leftMs = this.#observation?.remainingMs() ?? 0
    const { leader, previousLeader } = standingOf(this.#election, record, leftMs)
    if (!leader) {
      const last = previousLeader ? `${printable(previousLeader.holder)} did last, in term ${previousLeader.term}` : ''
      return [color('yellow', 'leader  nobody'), dim(`        ${last}`), '', '']
    }
    const { holder, term, leaseDurationMs, acquiredAt } = leader
    const left = `${bar(leftMs / leaseDurationMs, barWidth)} ${shortTime(leftMs)} of ${shortTime(leaseDurationMs)}`
    return [
      `leader  ${color('green', printable(holder))}`,
      `term    ${term}`,
      `lease   ${left}`,
      dim(`since   ${timestamp(acquiredAt)}, renewed ${counted(this.#renewals, 'time')} since it is watched`),
    ]
  }
}
