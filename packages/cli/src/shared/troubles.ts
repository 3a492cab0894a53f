import type { CallReport } from 'tenure'
import { now } from './clock.ts'

const repeatedMs = 60_000
/** How many texts are remembered: some have figures in them. */
const remembered = 20

/** The same trouble comes with every try: it is reported once a minute, and again after things went well. */
export class Troubles {
  /** When each was reported, the oldest first. */
  readonly #reported = new Map<string, number>()
  #last: { readonly text: string; readonly ofRenewal: boolean } | undefined
  /** Which calls failed since the last one that proved the store healthy. */
  #failed: 'nothing' | 'reads' | 'writes' = 'nothing'

  /** What went wrong last, unless it is over. */
  get last(): string | undefined {
    return this.#last?.text
  }

  /** Whether it is to be reported. */
  isNew(text: string, { ofRenewal }: { readonly ofRenewal: boolean }): boolean {
    const atMs = now().machineMs
    this.#last = { text, ofRenewal }
    if (atMs - (this.#reported.get(text) ?? -Infinity) < repeatedMs) return false
    this.#reported.delete(text)
    this.#reported.set(text, atMs)
    const [oldest] = this.#reported.keys()
    if (this.#reported.size > remembered && oldest !== undefined) this.#reported.delete(oldest)
    return true
  }

  /** Something went well. While renewals do, other calls may go on failing. Gives whether this ends a trouble. */
  end({ ofRenewal }: { readonly ofRenewal: boolean }): boolean {
    if (!this.#last || (ofRenewal && !this.#last.ofRenewal)) return false
    this.#last = undefined
    this.#reported.clear()
    this.#failed = 'nothing'
    return true
  }

  /**
   * Takes note of a finished call, and gives whether it ends a trouble. A store that shows its records and takes no write
   * looks healthy to a reader, so after a failed write a read counts only while somebody else leads: then nothing has to
   * be written.
   */
  endsWith({ verb, result }: Pick<CallReport, 'verb' | 'result'>, isFollowing: () => boolean): boolean {
    if (result === 'failed') {
      if (verb !== 'read') this.#failed = 'writes'
      else if (this.#failed === 'nothing') this.#failed = 'reads'
      return false
    }
    if (this.#failed === 'nothing') return false
    const isWritten = verb !== 'read' && result === 'ok'
    if (!isWritten && this.#failed === 'writes' && !isFollowing()) return false
    this.#failed = 'nothing'
    return this.end({ ofRenewal: verb === 'renew' })
  }
}
