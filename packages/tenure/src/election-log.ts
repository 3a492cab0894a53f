import { messageOf } from '@tenure/internal/message'
import { isAnswer } from '@tenure/internal/store-answers'
import type { Clock } from './clock.ts'
import { fullName, isTenureError, type LeadershipLostError } from './errors.ts'
import type { EventBody } from './events.ts'
import type { Log } from './log.ts'
import { inWords, LogLines, type LineOptions } from './log-lines.ts'

/** What an election is logged as. */
export interface LoggedElection {
  readonly election: string
  readonly namespace?: string | undefined
  readonly identity?: string | undefined
}

/** What earlier lines said and a later one refers to. Electors of one key share it, where each is for one try. */
export interface ElectionPast {
  outage?: Outage | undefined
  /** When leadership was lost, if it was not regained since. */
  lostAtMs?: number | undefined
}

/** A time in which no call succeeded, or no write. */
interface Outage {
  readonly sinceMs: number
  failures: number
  hasWriteFailed: boolean
  verb: string
  error: unknown
  /** The kinds of errors that lines were written about. */
  readonly reported: Set<string>
  /** When the last line about it was written. */
  reportedAtMs: number
}

/** A reply of a store. */
interface Reply {
  readonly isWrite: boolean
  readonly isOk: boolean
  /** Whether another process has a live lease, as far as is known. */
  readonly isHeld: boolean
}

/** Of each outage, errors beyond this many kinds are only counted. */
const mostKinds = 5

/** How often an outage that lasts is written about. */
const remindMs = 60_000

/** What comes before the reason in the message of a loss. */
const marker = ' ended: '

const verbs: Readonly<Record<string, string>> = {
  read: 'reading',
  acquire: 'acquiring',
  renew: 'renewing',
  release: 'releasing',
}

/**
 * What people read of one election: each outage of its store and its end, each loss of leadership, and every other error.
 * It also keeps the last error of the store, which is the cause of a loss.
 */
export class ElectionLog {
  readonly #of: LoggedElection
  readonly #clock: Clock
  /** Undefined if an observer gets what happens instead. */
  readonly #lines: LogLines | undefined
  /** For an observer's own mistakes, which cannot be reported to that observer. */
  readonly #ofListeners: LogLines | undefined
  readonly #hasTerms: boolean
  #past: ElectionPast = {}
  #isOpen = false

  constructor(
    of: LoggedElection,
    options: { clock: Clock; log: Log | false | undefined; isObserved: boolean; hasTerms: boolean },
  ) {
    const { clock, log, isObserved, hasTerms } = options
    this.#of = of
    this.#clock = clock
    this.#hasTerms = hasTerms
    this.#ofListeners = LogLines.of(clock, log)
    this.#lines = log === undefined && isObserved ? undefined : this.#ofListeners
  }

  /** The last error of the store; undefined if it has answered since. */
  get storeError(): unknown {
    return this.#past.outage?.error
  }

  /** Goes on where another elector for the same key stopped. */
  continue(past: ElectionPast): void {
    this.#past = past
  }

  open(): void {
    if (this.#isOpen) return
    this.#isOpen = true
    this.#ofListeners?.open()
  }

  close(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    this.#ofListeners?.close()
  }

  /** A call failed. The event that reports it follows, and is what is written. */
  failed(verb: string, error: unknown): void {
    this.#past.outage ??= {
      sinceMs: this.#clock.monotonicMs(),
      failures: 0,
      hasWriteFailed: false,
      verb,
      error,
      reported: new Set(),
      reportedAtMs: -Infinity,
    }
    const outage = this.#past.outage
    outage.failures += 1
    outage.hasWriteFailed ||= verb !== 'read'
    outage.verb = verb
    outage.error = error
  }

  /** A call was answered. That need not be the end of an outage: a store that takes no writes can often be read. */
  answered(reply: Reply): void {
    const outage = this.#past.outage
    const isOver = outage && isAnswer(reply, { hasWriteFailed: outage.hasWriteFailed, isHeld: reply.isHeld })
    if (isOver) this.#past.outage = undefined
    if (!this.#lines) return
    const nowMs = this.#clock.monotonicMs()
    this.#lines.tick(nowMs)
    if (!isOver || outage.reported.size === 0) return
    const calls = outage.failures === 1 ? 'one call' : `${outage.failures} calls`
    const lasted = inWords(nowMs - outage.sinceMs)
    this.#write('warn', `the store answers again after ${lasted} (${calls} for ${this.#name} failed)`)
  }

  event(event: EventBody): void {
    switch (event.type) {
      case 'renew-failed':
      case 'error':
        return this.#failure(event.error)
      case 'elected':
        return this.#elected(event.term)
      case 'new-leader': {
        const { holder, term } = event.record
        if (holder === this.#of.identity) return undefined
        return this.#write('info', `"${holder}" leads ${this.#name}${this.#inTerm(term)}`)
      }
      default:
        return undefined
    }
  }

  /** Leadership has ended: reported now, and not when the work has settled. */
  ended({ term, reason, cause, message }: LeadershipLostError): void {
    const why = message.slice(message.lastIndexOf(marker) + marker.length, -1)
    if (reason === 'stopped' || reason === 'released') {
      this.#write('info', `leadership of ${this.#name}${this.#inTerm(term)} ended: ${why}`)
      return
    }
    this.#past.lostAtMs = this.#clock.monotonicMs()
    const lastError = cause === undefined ? '' : `. The last error of the store: ${inText(cause)}`
    this.#write('error', `lost leadership of ${this.#name}${this.#inTerm(term)}: ${why}${lastError}`)
  }

  /** A listener threw or rejected. */
  listenerFailed(error: unknown): void {
    this.#ofListeners?.write('error', messageOf(error), {
      name: fullName(this.#of),
      countsRepeats: true,
      detailOf: () => stackOf(error),
    })
  }

  /** A loss is a problem, so its end is reported to those who see only problems. */
  #elected(term: number): void {
    const { lostAtMs } = this.#past
    this.#past.lostAtMs = undefined
    if (lostAtMs === undefined) return this.#write('info', `this process leads ${this.#name}${this.#inTerm(term)}`)
    const afterwards = inWords(this.#clock.monotonicMs() - lostAtMs)
    this.#write('warn', `this process leads ${this.#name} again${this.#inTerm(term)} after ${afterwards}`)
  }

  #failure(error: unknown): void {
    const outage = this.#past.outage
    if (!outage || outage.error !== error) return this.#error(error)
    const message = inText(error)
    const atMs = this.#clock.monotonicMs()
    const { reported, verb, failures, sinceMs } = outage
    const kind = kindOf(message)
    const isKnown = reported.has(kind) || reported.size >= mostKinds
    if (isKnown && atMs - outage.reportedAtMs < remindMs) return
    if (!isKnown) reported.add(kind)
    outage.reportedAtMs = atMs
    const lasting = `the store still fails after ${inWords(atMs - sinceMs)}: ${failures} calls for ${this.#name} failed, the last with: ${message}`
    this.#write('warn', isKnown ? lasting : `${verbs[verb] ?? verb} ${this.#name} failed: ${message}`)
  }

  #error(error: unknown): void {
    const message = inText(error)
    const text = message.includes(this.#name) ? message : `${this.#name}: ${message}`
    const isOfWork = isTenureError(error) && error.code.startsWith('WORK_')
    this.#write(isOfWork ? 'error' : 'warn', text, {
      countsRepeats: true,
      detailOf: () => (isOfWork ? stackOf(error) : undefined),
    })
  }

  #write(level: keyof Log, text: string, options: LineOptions = {}): void {
    this.#lines?.write(level, text, { ...options, name: fullName(this.#of) })
  }

  #inTerm(term: number): string {
    return this.#hasTerms ? ` in term ${term}` : ''
  }

  get #name(): string {
    return `"${fullName(this.#of)}"`
  }
}

/** With the code, by which docs/reference/errors.md says what to do. That work failed, the message says itself. */
function inText(error: unknown): string {
  const message = messageOf(error)
  return isTenureError(error) && error.code !== 'WORK_FAILED' ? `${message} [${error.code}]` : message
}

/** What was called, and the time that it was given, differ from try to try. */
function kindOf(message: string): string {
  return message.replaceAll(/"[^"]*"|\d+/g, '')
}

/** Where what a user's code threw came from. `Error.prepareStackTrace` may make a stack that is not text. */
export function stackOf(error: unknown): string | undefined {
  try {
    const stack: unknown = error instanceof Error && error.cause instanceof Error ? error.cause.stack : undefined
    return typeof stack === 'string' ? stack : undefined
  } catch {
    return undefined
  }
}
