import { CommandError } from '../shared/arguments/errors.ts'
import { codeOfSignal } from '../shared/ending.ts'

/** Whether and why `tenure run` must end: because of a signal, or because the store cannot be used. */
export class StopRequest {
  readonly #controller = new AbortController()
  #signal: NodeJS.Signals | undefined

  /** The signal that requested the end; undefined if none did. */
  get signal(): NodeJS.Signals | undefined {
    return this.#signal
  }

  get failure(): CommandError | undefined {
    const { reason } = this.aborted as { reason: unknown }
    return reason instanceof CommandError ? reason : undefined
  }

  /** Aborted at the first reason to end. */
  get aborted(): AbortSignal {
    return this.#controller.signal
  }

  /**
   * The exit code after a signal, if nothing else determines one. For a task, ending before it is done is not a
   * success.
   */
  code({ isTask }: { readonly isTask: boolean }): number | undefined {
    if (!this.#signal) return undefined
    return this.#signal === 'SIGTERM' && !isTask ? 0 : codeOfSignal(this.#signal)
  }

  stop(signal: NodeJS.Signals): void {
    this.#signal = signal
    this.#controller.abort()
  }

  fail(failure: CommandError): void {
    this.#controller.abort(failure)
  }
}
