import { exitCodes } from './arguments/errors.ts'
import { color } from './terminal.ts'

/** Characters that move the cursor, end a line, or change the direction of the text after them. */
// oxlint-disable-next-line no-control-regex
const unprintable = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g

/** Prints the result of a command. Nothing else goes to standard output. */
export function print(text: string): void {
  writeOut(`${text.split('\n').map(printable).join('\n')}\n`)
}

export function printJson(value: unknown): void {
  writeOut(`${jsonText(value)}\n`)
}

/** Reports a message to the user while a command runs. Each line starts with the name of the program. */
export function tell(text: string): void {
  writeError(
    text
      .split('\n')
      .map((line) => `tenure: ${printable(line)}\n`)
      .join(''),
  )
}

let isOutGuarded = false
let isOutLost = false
let isErrorGuarded = false
let onReaderGone = (): void => {}

/**
 * Writes to standard output. If the reader is gone (`tenure --help | head -1`), the command continues, and its exit
 * code reports its own result. A full disk is a failure, because part of the result is missing.
 */
export function writeOut(text: string): void {
  if (!isOutGuarded) {
    process.stdout.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE' && !isOutLost) {
        tell(`Cannot write to standard output: ${error.message}`)
        process.exitCode = exitCodes.failed
      }
      isOutLost = true
      onReaderGone()
    })
  }
  isOutGuarded = true
  process.stdout.write(text)
}

export function writeError(text: string): void {
  // If the reader is gone, nobody needs the text.
  if (!isErrorGuarded) process.stderr.on('error', () => {})
  isErrorGuarded = true
  process.stderr.write(text)
}

/** Formats rows as a table with column heads. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, ...rows].map((row) => row.map(printable))
  const widths = head.map((_, index) => Math.max(...lines.map((row) => row[index]?.length ?? 0)))
  return lines
    .map((row) =>
      row
        .map((cell, index) => cell.padEnd(widths[index] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

/** Prints a table. On a terminal, rows of finished elections are gray. */
export function printTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  isOver: (row: number) => boolean,
): void {
  const lines = table(head, rows).split('\n')
  const colored = lines.map((line, index) => (index > 0 && isOver(index - 1) ? color('dim', line) : line))
  writeOut(`${(process.stdout.isTTY ? colored : lines).join('\n')}\n`)
}

/** Replaces characters with which text from others could move the cursor or end a line. */
export function printable(text: string): string {
  return text.replaceAll(unprintable, '\ufffd')
}

/**
 * Formats a value as one line of JSON that is safe on a terminal. Plain JSON may contain terminal control characters.
 */
export function jsonText(value: unknown): string {
  return JSON.stringify(value).replaceAll(
    unprintable,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Formats a duration in readable form: `9.8s`, `1.2m`. */
export function formatShortDuration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)}ms`
  if (ms < 120_000) return `${(ms / 1_000).toFixed(1)}s`
  return ms < 7_200_000 ? `${(ms / 60_000).toFixed(1)}m` : `${(ms / 3_600_000).toFixed(1)}h`
}

/**
 * Describes how long nobody may lead yet, for example after a restore. Waits of up to a second are omitted, because a
 * service asks every candidate to wait that long.
 */
export function waitText(freeInMs: unknown): string {
  return typeof freeInMs === 'number' && freeInMs > 1_000
    ? `, and nobody may for another ${formatShortDuration(freeInMs)}`
    : ''
}

/** Formats a count: `1 call`, `2 calls`. */
export function pluralize(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}

/** Formats Unix time in readable form, in UTC. */
export function timestamp(atMs: number): string {
  const date = new Date(atMs)
  return Number.isNaN(date.getTime()) ? '-' : date.toISOString()
}

export function metadataText(metadata: unknown): string {
  const text = JSON.stringify(metadata ?? {})
  return text === '{}' ? '' : text
}

/** Exits when the reader is gone. For commands that print for a long time, as in `tenure watch … | head -1`. */
export function exitWhenReaderGone(): void {
  onReaderGone = () => process.exit()
}
