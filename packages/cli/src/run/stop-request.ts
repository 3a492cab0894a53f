import { CommandError } from '../shared/arguments/errors.ts'
import { signalExitCode } from '../shared/shutdown.ts'

/** Whether and why `tenure run` must end: because of a signal, or because the store cannot be used. */
export class StopRequest {
  readonly #controller = new AbortController()
  #signal: NodeJS.Signals | undefined

  /** The signal that requested the end. Undefined if none did. */
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
   * The exit code after a signal, if nothing else determines one. For a mode with a task, ending before the task is
   * done is not a success.
   */
  code({ isTask }: { readonly isTask: boolean }): number | undefined {
    if (!this.#signal) return undefined
    return this.#signal === 'SIGTERM' && !isTask ? 0 : signalExitCode(this.#signal)
  }

  stop(signal: NodeJS.Signals): void {
    this.#signal = signal
    this.#controller.abort()
  }

  fail(failure: CommandError): void {
    this.#controller.abort(failure)
  }
}
