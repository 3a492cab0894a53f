import type { CallReport, LeaseRecord } from 'tenure'
import { setTimer } from '../shared/clock.ts'
import { printable } from '../shared/output.ts'
import { ErrorLog } from '../shared/error-log.ts'
import type { Messages } from './messages.ts'
import type { Plan } from './plan.ts'

/**
 * An elector reports its election within this time after its record appears. Otherwise the record belongs to another
 * elector.
 */
const duplicateIdentityAfterMs = 2_000

/** Reports the progress of the campaign, and each problem once. */
export class Reporter {
  readonly #plan: Plan
  readonly #messages: Messages
  readonly #storeTroubles = new ErrorLog()
  readonly #fileTroubles = new ErrorLog()
  #cancelTwin: () => void = () => {}

  constructor(plan: Plan, messages: Messages) {
    this.#plan = plan
    this.#messages = messages
  }

  readonly tell = (text: string): void => this.#messages.tell(text)

  /** Like {@link tell}, but silent with --quiet. */
  readonly reportUnlessQuiet = (text: string): void => {
    if (!this.#plan.isQuiet) this.#messages.tell(text)
  }

  /** The current problem with the store. Undefined if none is known. */
  get storeTrouble(): string | undefined {
    return this.#storeTroubles.last
  }

  elected(term: number): void {
    this.#cancelTwin()
    this.#answered({ ofRenewal: false })
    this.reportUnlessQuiet(`leads "${this.#plan.election}" in term ${term}`)
  }

  renewed(): void {
    this.#answered({ ofRenewal: true })
  }

  /** Records the end of a store call. */
  called(call: CallReport, isFollowing: () => boolean): void {
    if (this.#storeTroubles.recordCall(call, isFollowing)) this.#sayThatItAnswers()
  }

  leads({ holder, term }: LeaseRecord, isOwnName: boolean): void {
    const waits = `${printable(holder)} leads "${this.#plan.election}" in term ${term}; waiting`
    this.#cancelTwin()
    if (!isOwnName) return this.reportUnlessQuiet(waits)
    // This process's own grant is also reported as a new leader, right before its election. If no election follows,
    // another candidate has the same name.
    this.#cancelTwin = setTimer(duplicateIdentityAfterMs, () => {
      this.tell(`${waits}. It has the same identity as this process. Give each process its own --identity.`)
    })
  }

  storeFailed(text: string, what: { readonly ofRenewal: boolean }): void {
    if (this.#storeTroubles.shouldReport(text, what)) this.tell(text)
  }

  fileFailed(text: string): void {
    if (this.#fileTroubles.shouldReport(text, { ofRenewal: false })) this.tell(text)
  }

  close(): void {
    this.#cancelTwin()
  }

  #answered(what: { readonly ofRenewal: boolean }): void {
    if (this.#storeTroubles.end(what)) this.#sayThatItAnswers()
  }

  #sayThatItAnswers(): void {
    this.reportUnlessQuiet('the store answers again')
  }
}
