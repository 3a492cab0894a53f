import type { CallReport } from 'tenure'
import { now } from './clock.ts'

const repeatedMs = 60_000
/** How many messages to remember. The limit matters because some messages contain changing numbers. */
const remembered = 20

/**
 * Suppresses repeated errors. The same error occurs at every retry. It is reported once a minute, and again after a
 * success.
 */
export class ErrorLog {
  /** When each message was reported, oldest first. */
  readonly #reported = new Map<string, number>()
  #last: { readonly text: string; readonly ofRenewal: boolean } | undefined
  /** The calls that have failed since the last one that proved the store healthy. */
  #failed: 'nothing' | 'reads' | 'writes' = 'nothing'

  /** The latest error. Undefined once the problem has ended. */
  get last(): string | undefined {
    return this.#last?.text
  }

  /** Whether to report this error. */
  shouldReport(text: string, { ofRenewal }: { readonly ofRenewal: boolean }): boolean {
    const atMs = now().machineMs
    this.#last = { text, ofRenewal }
    if (atMs - (this.#reported.get(text) ?? -Infinity) < repeatedMs) return false
    this.#reported.delete(text)
    this.#reported.set(text, atMs)
    const [oldest] = this.#reported.keys()
    if (this.#reported.size > remembered && oldest !== undefined) this.#reported.delete(oldest)
    return true
  }

  /**
   * Records a success, and returns whether it ends a problem. A successful renewal ends only failures of renewals,
   * because other calls may still fail.
   */
  end({ ofRenewal }: { readonly ofRenewal: boolean }): boolean {
    if (!this.#last || (ofRenewal && !this.#last.ofRenewal)) return false
    this.#last = undefined
    this.#reported.clear()
    this.#failed = 'nothing'
    return true
  }

  /**
   * Records a finished call, and returns whether it ends a problem. A store that can be read but rejects writes looks
   * healthy to a reader. So after a failed write, a read counts only while another candidate leads, because in that
   * case nothing has to be written.
   */
  recordCall({ verb, result }: Pick<CallReport, 'verb' | 'result'>, isFollowing: () => boolean): boolean {
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
