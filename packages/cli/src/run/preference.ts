/** Decides whether this machine should lead, by a check command or by files. */
import { spawn } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { messageOf } from '@tenure/internal/message'
import type { ElectorOptions, Leadership, Priority } from 'tenure'
import { every, setTimer } from '../shared/clock.ts'
import { withoutSecrets } from './environment.ts'
import type { Reporter } from './reporter.ts'

/** The settings that determine whether this machine should lead. */
export interface RunPreference {
  /** A shell command. This machine may lead while it exits with 0. */
  readonly eligible: string | undefined
  /** This machine may lead while this file exists. */
  readonly eligibleFile: string | undefined
  readonly priority: Priority
  /** Whether this machine takes a seat among the members. */
  readonly present: boolean
  /** The number of the rollout. Undefined if it has none. */
  readonly generation: number | undefined
  /** The command must touch this file more often than the timeout. */
  readonly progressFile: string | undefined
  readonly progressTimeoutMs: number | undefined
}

/** Runs the check command, one run at a time, and answers with its last result. */
export class Preference {
  readonly #asked: RunPreference
  readonly #intervalMs: number
  readonly #reporter: Reporter
  #isEligible: boolean
  /** Why the last check did not succeed. */
  #problem: string | undefined
  /** Why the progress file could not be read last time. */
  #fileProblem: string | undefined
  #isClosed = false
  #end = (): void => {}

  /** `intervalMs`: how often the check runs, and how long it may take. */
  constructor(asked: RunPreference, intervalMs: number, reporter: Reporter) {
    this.#asked = asked
    this.#intervalMs = intervalMs
    this.#reporter = reporter
    this.#isEligible = asked.eligible === undefined
  }

  /** The options of the elector. */
  get options(): Partial<ElectorOptions> {
    const { eligible, eligibleFile, priority, present, generation, progressTimeoutMs } = this.#asked
    const isAsked = eligible !== undefined || eligibleFile !== undefined
    const fixed = { priority, present, generation, progressTimeoutMs }
    return { ...fixed, ...(isAsked && { eligible: () => this.#isEligible && this.#hasFile() }) }
  }

  /** Starts the checks. Resolves after the first one. */
  async start(): Promise<void> {
    const { eligible } = this.#asked
    if (eligible === undefined) return
    await this.#check(eligible)
    void this.#checkOn(eligible)
  }

  close(): void {
    this.#isClosed = true
    this.#end()
  }

  /**
   * Reports progress of a leadership whenever the file was touched, and while no command runs. Returns a function that
   * stops this.
   */
  follow(leadership: Leadership, isRunning: () => boolean): () => void {
    const { progressFile, progressTimeoutMs } = this.#asked
    if (progressFile === undefined || progressTimeoutMs === undefined) return () => {}
    let touchedMs = this.#touchedAtMs(progressFile, undefined)
    return every(Math.max(1, progressTimeoutMs / 10), () => {
      const nowMs = this.#touchedAtMs(progressFile, touchedMs)
      if (!isRunning() || nowMs !== touchedMs) leadership.progress()
      touchedMs = nowMs
    })
  }

  async #checkOn(command: string): Promise<void> {
    while (!this.#isClosed) {
      await this.#pause()
      if (!this.#isClosed) await this.#check(command)
    }
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => {
      const cancel = setTimer(this.#intervalMs, resolve)
      this.#end = () => (cancel(), resolve())
    })
  }

  async #check(command: string): Promise<void> {
    const problem = await this.#run(command)
    if (this.#isClosed) return
    const isEligible = problem === undefined
    if (isEligible !== this.#isEligible || problem !== this.#problem) {
      if (problem !== undefined) this.#reporter.tell(`not eligible: the --eligible command ${problem}`)
      else this.#reporter.reportUnlessQuiet('eligible: the --eligible command succeeded')
    }
    this.#isEligible = isEligible
    this.#problem = problem
  }

  /** Returns why the check did not succeed. Undefined if it did. */
  #run(command: string): Promise<string | undefined> {
    return new Promise((resolve) => {
      // The check has its own process group, so that none of its processes is left behind when it takes too long.
      const child = spawn('/bin/sh', ['-c', command], {
        stdio: ['ignore', 'ignore', 'inherit'],
        detached: true,
        env: withoutSecrets(process.env),
      })
      const kill = () => {
        try {
          if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
        } catch {
          // All of its processes have ended.
        }
      }
      const limit = setTimer(this.#intervalMs, () => {
        kill()
        end(`did not end within ${Math.round(this.#intervalMs)}ms`)
      })
      const end = (problem: string | undefined) => {
        limit()
        resolve(problem)
      }
      this.#end = () => (kill(), end('was ended'))
      child.once('error', (error) => end(`could not be started: ${error.message}`))
      child.once('exit', (code, signal) => {
        kill()
        end(code === 0 ? undefined : signal ? `was ended by ${signal}` : `exited with ${code}`)
      })
    })
  }

  #hasFile(): boolean {
    const { eligibleFile } = this.#asked
    return eligibleFile === undefined || existsSync(eligibleFile)
  }

  /**
   * When a file was last changed. Undefined if it does not exist, and `lastMs` if it cannot be read: that does not count
   * as progress, and is reported once.
   */
  #touchedAtMs(path: string, lastMs: number | undefined): number | undefined {
    try {
      const touchedMs = statSync(path, { throwIfNoEntry: false })?.mtimeMs
      this.#fileProblem = undefined
      return touchedMs
    } catch (error) {
      const problem = messageOf(error)
      if (problem !== this.#fileProblem)
        this.#reporter.tell(`the --progress-file cannot be read, so it counts as not touched: ${problem}`)
      this.#fileProblem = problem
      return lastMs
    }
  }
}
