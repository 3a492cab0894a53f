/** What a command was asked for goes to standard output, and nothing else. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value))
}

/** Told to people while a command goes on. */
export function tell(text: string): void {
  process.stderr.write(`tenure: ${text}\n`)
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
  // oxlint-disable-next-line no-control-regex
  return text.replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, '\ufffd')
}

/** `9.8s`, `1.2m`: for people. */
export function shortTime(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)}ms`
  if (ms < 120_000) return `${(ms / 1_000).toFixed(1)}s`
  return ms < 7_200_000 ? `${(ms / 60_000).toFixed(1)}m` : `${(ms / 3_600_000).toFixed(1)}h`
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

/** Whoever read may be gone: `tenure watch … | head -1`. */
export function endWithReader(): void {
  process.stdout.on('error', () => process.exit(0))
}
