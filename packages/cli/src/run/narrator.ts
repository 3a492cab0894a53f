import type { LeaseRecord } from 'tenure'
import { now, setTimer } from '../clock.ts'
import { printable } from '../output.ts'
import type { Messages } from './messages.ts'
import type { Plan } from './plan.ts'

const repeatedErrorMs = 60_000
/** Whoever was granted a lease has its answer by then, or does not lead. */
const twinAfterMs = 2_000

/** Tells people how the campaign goes: what matters, once. */
export class Narrator {
  readonly #plan: Plan
  readonly #messages: Messages
  #lastError: { readonly text: string; readonly atMs: number; readonly ofRenewal: boolean } | undefined
  #cancelTwin: () => void = () => {}

  constructor(plan: Plan, messages: Messages) {
    this.#plan = plan
    this.#messages = messages
  }

  readonly tell = (text: string): void => this.#messages.tell(text)

  /** As {@link tell}, of what goes as it should. */
  readonly note = (text: string): void => {
    if (!this.#plan.isQuiet) this.#messages.tell(text)
  }

  /** What went wrong last, if that is so still. */
  get lastError(): string | undefined {
    return this.#lastError?.text
  }

  elected(term: number): void {
    this.#cancelTwin()
    this.#recovered()
    this.note(`leads "${this.#plan.election}" in term ${term}`)
  }

  renewed(): void {
    // Other calls may go on failing meanwhile.
    if (this.#lastError?.ofRenewal) this.#recovered()
  }

  leads({ holder, term }: LeaseRecord, isOwnName: boolean): void {
    const waits = `${printable(holder)} leads "${this.#plan.election}" in term ${term}; waits`
    this.#cancelTwin()
    if (!isOwnName) return this.note(waits)
    // Our own grant may be seen before its answer comes. Else two were given one name.
    this.#cancelTwin = setTimer(twinAfterMs, () => {
      this.tell(`${waits}. It has the same name as this one. Give each its own --identity.`)
    })
  }

  failed(text: string, ofRenewal: boolean): void {
    const atMs = now().machineMs
    if (this.#lastError?.text === text && atMs - this.#lastError.atMs < repeatedErrorMs) return
    this.#lastError = { text, atMs, ofRenewal }
    this.tell(text)
  }

  close(): void {
    this.#cancelTwin()
  }

  #recovered(): void {
    if (this.#lastError) this.note('the store answers again')
    this.#lastError = undefined
  }
}
