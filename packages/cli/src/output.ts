import { exitCodes } from './errors.ts'

/** What moves the cursor, ends a line, or turns the direction of what follows. */
// oxlint-disable-next-line no-control-regex
const unprintable = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g

/** What a command was asked for goes to standard output, and nothing else. */
export function print(text: string): void {
  writeOut(`${text.split('\n').map(printable).join('\n')}\n`)
}

export function printJson(value: unknown): void {
  writeOut(`${jsonText(value)}\n`)
}

/** Told to people while a command goes on. Each line says who tells it. */
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
 * To standard output. Whoever read may be gone (`tenure --help | head -1`): then the command goes on, and its exit code
 * tells what it has done. Not so if a disk is full: what was asked for is not there.
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
  // Whoever was to read it may be gone, and then nobody misses it.
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

/** What others wrote must not move the cursor, or end a line. */
export function printable(text: string): string {
  return text.replaceAll(unprintable, '\ufffd')
}

/** JSON in one line, which a terminal can show too: it allows more as it is than terminals take for text. */
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

/** For what would print for ever, or for long: `tenure watch … | head -1`. */
export function endWithReader(): void {
  onReaderGone = () => process.exit()
}
