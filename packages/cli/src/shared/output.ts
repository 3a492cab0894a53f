import { exitCodes } from './arguments/errors.ts'
import { color } from './terminal.ts'

/** Characters that move the cursor, end a line, or turn the direction of the text after them. */
// oxlint-disable-next-line no-control-regex
const unprintable = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g

/** Standard output gets what a command was asked for, and nothing else. */
export function print(text: string): void {
  writeOut(`${text.split('\n').map(printable).join('\n')}\n`)
}

export function printJson(value: unknown): void {
  writeOut(`${jsonText(value)}\n`)
}

/** Reports to people while a command goes on. Each line names the program. */
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
 * To standard output. If the reader is gone (`tenure --help | head -1`), the command goes on, and its exit code says what
 * it has done. A full disk is a failure: what was asked for is missing.
 */
export function writeOut(text: string): void {
  if (!isOutGuarded) {
    process.stdout.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE' && !isOutLost) {
        tell(`Standard output cannot be written: ${error.message}`)
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
  // The reader may be gone, and then nobody misses it.
  if (!isErrorGuarded) process.stderr.on('error', () => {})
  isErrorGuarded = true
  process.stderr.write(text)
}

/** Columns under their names. */
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

/** Prints a table. On a terminal, rows of what is over are grey. */
export function printTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  isOver: (row: number) => boolean,
): void {
  const lines = table(head, rows).split('\n')
  const colored = lines.map((line, index) => (index > 0 && isOver(index - 1) ? color('dim', line) : line))
  writeOut(`${(process.stdout.isTTY ? colored : lines).join('\n')}\n`)
}

/** Text of others must not move the cursor or end a line. */
export function printable(text: string): string {
  return text.replaceAll(unprintable, '\ufffd')
}

/** JSON in one line that is safe on a terminal: plain JSON may hold characters that control one. */
export function jsonText(value: unknown): string {
  return JSON.stringify(value).replaceAll(
    unprintable,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** `9.8s`, `1.2m`: for people. */
export function shortTime(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)}ms`
  if (ms < 120_000) return `${(ms / 1_000).toFixed(1)}s`
  return ms < 7_200_000 ? `${(ms / 60_000).toFixed(1)}m` : `${(ms / 3_600_000).toFixed(1)}h`
}

/** For how long nobody may lead yet, as after a restore. A service asks everybody to wait up to a second. */
export function waitText(freeInMs: unknown): string {
  return typeof freeInMs === 'number' && freeInMs > 1_000 ? `, and nobody may for another ${shortTime(freeInMs)}` : ''
}

/** `1 call`, `2 calls`. */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}

/** Unix time for people, and the same everywhere. */
export function timestamp(atMs: number): string {
  const date = new Date(atMs)
  return Number.isNaN(date.getTime()) ? '-' : date.toISOString()
}

export function metadataText(metadata: unknown): string {
  const text = JSON.stringify(metadata ?? {})
  return text === '{}' ? '' : text
}

/** For commands that would print for ever, or for long: `tenure watch … | head -1`. */
export function endWithReader(): void {
  onReaderGone = () => process.exit()
}
