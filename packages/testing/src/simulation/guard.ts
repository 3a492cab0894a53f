import type { LeaseRecord } from 'tenure'
import type { GuardedAttempt, GuardRegistry } from 'tenure/internal'
import type { UntimedGuardInput, GuardProcess } from './guard-process.ts'
import type { Machine } from './machine.ts'
import type { Random } from './random.ts'
import type { World } from './world.ts'

/** How long an elector waits for a pipe that is full, as in the library. */
export const longestArmingMs = 50

/** The longest time for which the kernel still shows a process that has crashed, while it frees its memory. */
const longestEndMs = 900

/** The options of a simulated guard. */
interface SimulatedGuardOptions {
  readonly world: World
  readonly random: Random
  /** The machine of the guarded process. */
  readonly machine: Machine
  readonly leaseDurationMs: number
  /** Starts a guard process. `isGone`: whether the guarded process is gone, according to the kernel. */
  readonly start: (isGone: () => boolean) => GuardProcess
}

/** A simulated process's end of the pipe to its guard. Guards can be slow, killed, or cut off, and the pipe can close. */
export class SimulatedGuard implements GuardRegistry {
  readonly #options: SimulatedGuardOptions
  /** Everything that this process has registered, with all write ids, for a replacement guard. */
  readonly #registered = new Map<string, GuardedAttempt>()
  readonly #guards: GuardProcess[] = []
  /** Messages that are still in the memory of the process because the pipe is full. */
  #unwritten: UntimedGuardInput[] = []
  #isConnected = false
  #startedAtMs = -Infinity
  #fullUntilMs = -Infinity
  #goneAtMs = Infinity

  constructor(options: SimulatedGuardOptions) {
    this.#options = options
  }

  get problem(): string | undefined {
    if (!this.#isConnected) return 'the guard is not running'
    return this.#unwritten.length > 0 ? 'the guard is not reading its pipe' : undefined
  }

  register(attempt: GuardedAttempt): Promise<void> | undefined {
    this.#registered.set(attempt.attempt, attempt)
    return this.#announce({ type: 'register', attempt })
  }

  sending(attempt: string, writeId: string): Promise<void> | undefined {
    const known = this.#registered.get(attempt)
    if (!known) return undefined
    this.#registered.set(attempt, { ...known, writeIds: [...known.writeIds.slice(-63), writeId] })
    return this.#announce({ type: 'sending', attempt, writeId })
  }

  unregister(attempt: string): void {
    if (this.#registered.delete(attempt)) this.#write({ type: 'unregister', attempt })
  }

  join(): undefined {}

  leave(): void {}

  /** Whether the guard knows this write. */
  knows({ attempt, writeId = attempt }: { readonly attempt: string; readonly writeId?: string | undefined }): boolean {
    return this.#registered.get(attempt)?.writeIds.includes(writeId) ?? false
  }

  /** Whether a guard of this process wrote this release. */
  hasReleased(record: LeaseRecord): boolean {
    return this.#guards.some((guard) => guard.hasReleased(record))
  }

  /** Starts with the knowledge of another process's guard, as in a snapshot of a machine with both. */
  resumeFrom(original: SimulatedGuard): void {
    for (const attempt of original.#registered.values()) void this.register(attempt)
  }

  /** Called when the guarded process has crashed or exited. */
  processEnded(): void {
    const { world, random } = this.#options
    if (this.#goneAtMs < Infinity) return
    // Most processes are gone immediately.
    this.#goneAtMs = world.nowMs + random.next() ** 4 * longestEndMs
    this.closePipe()
  }

  /** The pipe ends: because the process has ended, or by mistake while it runs. */
  closePipe(): void {
    if (this.#isConnected) this.#guards.at(-1)?.write({ type: 'pipe-ended' })
    this.#isConnected = false
    this.#unwritten = []
  }

  kill(): void {
    this.#guards.at(-1)?.machine.crash()
    this.#isConnected = false
    this.#unwritten = []
  }

  pause(ms: number): void {
    const machine = this.#guards.at(-1)?.machine
    machine?.pause()
    this.#options.world.after(ms, () => machine?.resume())
  }

  /** Cuts the guard off from the store for a while. */
  cutOff(ms: number): void {
    this.#guards.at(-1)?.link.storm({ cutUp: true, cutDown: true }, ms)
  }

  /** Makes the pipe full for a while. Messages that the process writes stay in its memory and are lost if it dies. */
  fill(ms: number): void {
    this.#fullUntilMs = this.#options.world.nowMs + ms
    this.#options.world.after(ms, () => this.#flush())
  }

  /** A guard that was lost is replaced at most once per lease, and gets everything that is registered. */
  #announce(message: UntimedGuardInput): Promise<void> | undefined {
    const { world, leaseDurationMs, machine } = this.#options
    if (this.#isConnected) this.#write(message)
    else if (world.nowMs >= this.#startedAtMs + leaseDurationMs) {
      this.#startedAtMs = world.nowMs
      this.#guards.push(this.#options.start(() => world.nowMs >= this.#goneAtMs))
      this.#isConnected = true
      for (const attempt of this.#registered.values()) this.#write({ type: 'register', attempt })
    }
    if (this.#unwritten.length === 0) return undefined
    return new Promise((resolve) => void machine.clock.setTimer(longestArmingMs, resolve))
  }

  #write(message: UntimedGuardInput): void {
    if (!this.#isConnected) return
    if (this.#options.world.nowMs < this.#fullUntilMs) this.#unwritten.push(message)
    else this.#guards.at(-1)?.write(message)
  }

  #flush(): void {
    for (const message of this.#unwritten.splice(0)) this.#guards.at(-1)?.write(message)
  }
}
