import { messageOf } from '@tenure/internal/message'
import { isAnswer } from '@tenure/internal/store-answers'
import type { Clock } from '../common/clock.ts'
import { fullName, isTenureError, isVoluntaryEnd, type LeadershipLostError } from '../common/errors.ts'
import type { EventBody } from './events.ts'
import type { Log } from '../log/log.ts'
import { formatDuration, LogLines, type LineOptions } from '../log/rate-limited-log.ts'

/** The name of an election in the log. */
export interface ElectionName {
  readonly election: string
  readonly namespace?: string | undefined
  readonly identity?: string | undefined
}

/**
 * What later log lines need to know about earlier ones. Electors for the same key share this state if each of them
 * makes only one try.
 */
export interface LogHistory {
  outage?: Outage | undefined
  /** When leadership was lost. Undefined if it has been regained since. */
  lostAtMs?: number | undefined
}

/** A period in which no call succeeded, or no write did. */
interface Outage {
  readonly sinceMs: number
  failures: number
  hasWriteFailed: boolean
  verb: string
  error: unknown
  /** The kinds of errors that were logged. */
  readonly reported: Set<string>
  /** When the last line about this outage was logged. */
  reportedAtMs: number
}

/** A reply from the store. */
interface LoggedReply {
  readonly isWrite: boolean
  readonly isOk: boolean
  /** Whether another process is known to hold a live lease. */
  readonly isHeld: boolean
}

/** In one outage, at most this many kinds of errors are logged. Errors of other kinds are only counted. */
const maxErrorKinds = 5

/** How often an outage is logged while it lasts. */
const remindMs = 60_000

/** The text before the reason in the message of a {@link LeadershipLostError}. */
const marker = ' ended: '

const verbs: Readonly<Record<string, string>> = {
  read: 'reading',
  acquire: 'acquiring',
  renew: 'renewing',
  release: 'releasing',
}

/**
 * Writes a readable log of one election: the start and end of each store outage, each loss of leadership, and all other
 * errors. It also remembers the store's last error, which becomes the cause of a loss.
 */
export class ElectionLog {
  readonly #of: ElectionName
  readonly #clock: Clock
  /** Undefined if an observer receives the events instead. */
  readonly #lines: LogLines | undefined
  /** Logs errors that the observer itself throws, because they cannot be reported to that observer. */
  readonly #ofListeners: LogLines | undefined
  readonly #hasTerms: boolean
  #past: LogHistory = {}
  #isOpen = false

  constructor(
    of: ElectionName,
    options: { clock: Clock; log: Log | false | undefined; isObserved: boolean; hasTerms: boolean },
  ) {
    const { clock, log, isObserved, hasTerms } = options
    this.#of = of
    this.#clock = clock
    this.#hasTerms = hasTerms
    this.#ofListeners = LogLines.of(clock, log)
    this.#lines = log === undefined && isObserved ? undefined : this.#ofListeners
  }

  /** The last error from the store. Undefined if the store has answered since. */
  get storeError(): unknown {
    return this.#past.outage?.error
  }

  /** Continues the log of an earlier elector for the same key. */
  continue(past: LogHistory): void {
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

  /** Records a failed call. The line is written later, when the event for this failure arrives. */
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

  /** Records an answered call. It need not end an outage: a store that rejects writes can often still be read. */
  answered(reply: LoggedReply): void {
    const outage = this.#past.outage
    const isOver = outage && isAnswer(reply, { hasWriteFailed: outage.hasWriteFailed, isHeld: reply.isHeld })
    if (isOver) this.#past.outage = undefined
    if (!this.#lines) return
    const nowMs = this.#clock.monotonicMs()
    this.#lines.tick(nowMs)
    if (!isOver || outage.reported.size === 0) return
    const calls = outage.failures === 1 ? 'one call' : `${outage.failures} calls`
    const lasted = formatDuration(nowMs - outage.sinceMs)
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
      case 'eligibility':
        return this.#write('info', `this process is ${event.eligible ? '' : 'not '}eligible to lead ${this.#name}`)
      default:
        return undefined
    }
  }

  /** Logs the end of leadership immediately, without waiting for its work to settle. */
  ended({ term, reason, cause, message }: LeadershipLostError): void {
    const why = message.slice(message.lastIndexOf(marker) + marker.length, -1)
    if (isVoluntaryEnd(reason)) {
      const level = reason === 'ineligible' || reason === 'stalled' ? 'warn' : 'info'
      this.#write(level, `leadership of ${this.#name}${this.#inTerm(term)} ended: ${why}`)
      return
    }
    this.#past.lostAtMs = this.#clock.monotonicMs()
    const lastError = cause === undefined ? '' : `. The last error from the store: ${inText(cause)}`
    this.#write('error', `lost leadership of ${this.#name}${this.#inTerm(term)}: ${why}${lastError}`)
  }

  /**
   * Logs advice about the setup. Events do not contain this advice, so it is logged even if an observer receives the
   * events.
   */
  advise(text: string | undefined): void {
    if (text !== undefined) this.#ofListeners?.write('warn', text)
  }

  /** Logs that a listener threw or rejected. */
  listenerFailed(error: unknown): void {
    this.#ofListeners?.write('error', messageOf(error), {
      name: fullName(this.#of),
      countsRepeats: true,
      detailOf: () => stackOf(error),
    })
  }

  /**
   * A loss is logged as a problem, so regaining leadership is logged as a warning. Readers who see only problems then
   * also see the end.
   */
  #elected(term: number): void {
    const { lostAtMs } = this.#past
    this.#past.lostAtMs = undefined
    if (lostAtMs === undefined) return this.#write('info', `this process leads ${this.#name}${this.#inTerm(term)}`)
    const afterwards = formatDuration(this.#clock.monotonicMs() - lostAtMs)
    this.#write('warn', `this process leads ${this.#name} again${this.#inTerm(term)} after ${afterwards}`)
  }

  #failure(error: unknown): void {
    const outage = this.#past.outage
    if (!outage || outage.error !== error) return this.#error(error)
    const message = inText(error)
    const atMs = this.#clock.monotonicMs()
    const { reported, verb, failures, sinceMs } = outage
    const kind = kindOf(message)
    const isKnown = reported.has(kind) || reported.size >= maxErrorKinds
    if (isKnown && atMs - outage.reportedAtMs < remindMs) return
    if (!isKnown) reported.add(kind)
    outage.reportedAtMs = atMs
    const lasting = `the store still fails after ${formatDuration(atMs - sinceMs)}: ${failures} calls for ${this.#name} failed, the last with: ${message}`
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

/**
 * Appends the error code, which is the key into docs/reference/errors.md. A WORK_FAILED message is clear without it.
 */
function inText(error: unknown): string {
  const message = messageOf(error)
  return isTenureError(error) && error.code !== 'WORK_FAILED' ? `${message} [${error.code}]` : message
}

/** Removes names and numbers from a message, because they differ from one try to the next. */
function kindOf(message: string): string {
  return message.replaceAll(/"[^"]*"|\d+/g, '')
}

/**
 * Returns the stack of an error that user code threw. `Error.prepareStackTrace` may produce a stack that is not a
 * string.
 */
export function stackOf(error: unknown): string | undefined {
  try {
    const stack: unknown = error instanceof Error && error.cause instanceof Error ? error.cause.stack : undefined
    return typeof stack === 'string' ? stack : undefined
  } catch {
    return undefined
  }
}
