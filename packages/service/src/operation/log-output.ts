import { fstatSync, openSync, writeSync, constants } from 'node:fs'
import { isatty } from 'node:tty'
import { systemClock } from '../common/clock.ts'

/** The limit of the backlog while the reader is slow. */
const longestBacklogBytes = 4 * 2 ** 20
/** How long to wait before retrying a slow reader. */
const slowMs = 50
/** How long to wait before retrying after a write to the log has failed. */
const failedMs = 1_000

interface Piece {
  readonly bytes: Buffer
  /** How many lost lines this piece reports, 0 for a regular line. */
  readonly reports: number
}

/**
 * Writes lines to a descriptor without blocking. A line that cannot be written is dropped and counted, because an
 * election must not wait for a log. Once writing works again, the first line reports how many lines were lost.
 */
export class LogOutput {
  readonly #descriptor: number
  readonly #reportOf: (lost: number) => string
  #waiting: Piece[] = []
  #waitingBytes = 0
  /** How many bytes of the first waiting piece have been written. */
  #written = 0
  #endsInLine = true
  #unreported = 0
  #lost = 0
  #isTriedLater = false

  constructor(descriptor: number, reportOf: (lost: number) => string) {
    this.#descriptor = descriptor
    this.#reportOf = reportOf
  }

  /** How many lines have been lost so far. */
  get lost(): number {
    return this.#lost
  }

  write(line: string): void {
    if (this.#waiting.length === 0) this.#report()
    const bytes = Buffer.from(line)
    if (this.#waitingBytes + bytes.length > longestBacklogBytes) this.#lose([{ bytes, reports: 0 }])
    else this.#add({ bytes, reports: 0 })
    this.#flush()
  }

  #report(): void {
    if (this.#unreported === 0) return
    const reports = this.#unreported
    this.#unreported = 0
    this.#add({ bytes: Buffer.from(this.#reportOf(reports)), reports })
  }

  #add(piece: Piece): void {
    this.#waiting.push(piece)
    this.#waitingBytes += piece.bytes.length
  }

  #flush(): void {
    try {
      while (this.#waiting.length > 0) this.#writeFirst()
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'EAGAIN' || code === 'EINTR') return this.#tryLater(slowMs)
      const lost = this.#waiting
      this.#endsInLine = this.#endsInLine && this.#written === 0
      this.#waiting = []
      this.#waitingBytes = 0
      this.#written = 0
      this.#lose(lost)
    }
  }

  #writeFirst(): void {
    const [first] = this.#waiting
    if (!first) return
    if (!this.#endsInLine) writeSync(this.#descriptor, '\n')
    this.#endsInLine = true
    this.#written += writeSync(this.#descriptor, first.bytes, this.#written)
    if (this.#written < first.bytes.length) return
    this.#waiting.shift()
    this.#waitingBytes -= first.bytes.length
    this.#written = 0
  }

  #lose(pieces: readonly Piece[]): void {
    for (const { reports } of pieces) {
      this.#unreported += reports === 0 ? 1 : reports
      if (reports === 0) this.#lost += 1
    }
    this.#tryLater(failedMs)
  }

  #tryLater(delayMs: number): void {
    if (this.#isTriedLater) return
    this.#isTriedLater = true
    const tryNow = () => {
      this.#isTriedLater = false
      if (this.#waiting.length === 0) this.#report()
      this.#flush()
    }
    systemClock.setTimer(delayMs, tryNow, { background: true })
  }
}

/** Returns a descriptor for standard error on which writes do not block. */
export function errorDescriptor(): number {
  const descriptor = 2
  if (!isatty(descriptor)) {
    // Creating Node's own stream makes a pipe or a socket non-blocking. A file needs no such change.
    if (!fstatSync(descriptor).isFile()) void process.stderr
    return descriptor
  }
  try {
    // The terminal is shared with other programs, so open it again instead of changing its flags. Ctrl-S pauses the
    // terminal, and must not pause elections.
    return openSync(`/dev/fd/${descriptor}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY)
  } catch {
    return descriptor
  }
}
