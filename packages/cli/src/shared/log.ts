import { wallMs } from './clock.ts'
import { jsonText, printable, timestamp } from './output.ts'

/** A log on standard error. */
export interface CommandLog {
  info(fields: object, text: string): void
  warn(fields: object, text: string): void
  error(fields: object, text: string): void
}

export function makeLog(json: boolean): CommandLog {
  // Ignore write errors, which mean that nobody reads the log anymore.
  process.stderr.on('error', () => {})
  const write = (level: string) => (fields: object, msg: string) => {
    const time = timestamp(wallMs())
    const line = json ? jsonText({ level, time, ...fields, msg }) : `${time} ${level.padEnd(5)} ${printable(msg)}`
    process.stderr.write(`${line}\n`)
  }
  return { info: write('info'), warn: write('warn'), error: write('error') }
}
