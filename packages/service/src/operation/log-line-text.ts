interface LogLine {
  readonly level: string
  readonly time: string
  readonly msg?: string
  readonly err?: { readonly message?: string; readonly stack?: string; readonly cause?: { readonly message?: string } }
  readonly [field: string]: unknown
}

/** Formats a JSON log line as readable text: time, level, message, and the other fields as key=value. */
export function textLine(json: string): string {
  const { level, time, msg = '', err, ...fields } = JSON.parse(json) as LogLine
  const rest = Object.entries(fields).map(([key, value]) => ` ${key}=${shown(value)}`)
  const lines = [`${time} ${level.toUpperCase().padEnd(5)} ${plain(msg)}${rest.join('')}`]
  if (err) lines.push(...(err.stack ?? err.message ?? '').split('\n').map((line) => `  ${plain(line)}`))
  if (err?.cause?.message !== undefined) lines.push(`  because: ${plain(err.cause.message)}`)
  return `${lines.join('\n')}\n`
}

function shown(value: unknown): string {
  if (typeof value !== 'string') return plain(JSON.stringify(value))
  return /^[\w.:/@+-]+$/.test(value) ? value : plain(JSON.stringify(value))
}

/** Escapes characters that control the terminal and characters that change the direction of the text. */
function plain(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => {
    const number = character.codePointAt(0) ?? 0
    return `\\u{${number.toString(16)}}`
  })
}
